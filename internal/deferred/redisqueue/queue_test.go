package redisqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/api/decide"
	"sluice/internal/deferred/queuetest"
	"sluice/internal/testenv"
	"sluice/limiter/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

var prefixes atomic.Int64

// prefix is one that no other test uses.
func prefix() string { return fmt.Sprintf("t%d:", prefixes.Add(1)) }

func client(t *testing.T, url string) redis.UniversalClient {
	t.Helper()
	c, err := redisstore.NewClient(url, redisstore.ClientOptions{PoolSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t *testing.T, c redis.UniversalClient, dropped decide.QueueDropped) *Queue {
	t.Helper()
	q, err := New(Options{Client: c, Prefix: prefix(), Dropped: dropped})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestQueue_Conforms(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	queuetest.Run(t, queuetest.Harness{Open: func(t *testing.T, dropped decide.QueueDropped) decide.Queue {
		return open(t, c, dropped)
	}})
}

func TestQueue_ConformsOnACluster(t *testing.T) {
	c := client(t, testenv.SharedCluster(t).URL())
	queuetest.Run(t, queuetest.Harness{Open: func(t *testing.T, dropped decide.QueueDropped) decide.Queue {
		return open(t, c, dropped)
	}})
}

func TestQueue_LeavesNoKeyBehindForever(t *testing.T) {
	c := client(t, testenv.SharedRedis(t).URL())
	q := open(t, c, nil)
	b := decide.QueueBounds{Items: 10, Age: time.Minute}
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{ID: "i"}, b); err != nil {
		t.Fatal(err)
	}
	b.Age = time.Second // a later item that may wait less long shortens nothing
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{ID: "j"}, b); err != nil {
		t.Fatal(err)
	}
	for _, key := range q.keys(1) {
		ttl, err := c.PTTL(t.Context(), key).Result()
		if err != nil || ttl <= 24*time.Hour+time.Second || ttl > 24*time.Hour+time.Minute {
			t.Errorf("%s: lives for %s, %v", key, ttl, err)
		}
	}
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 5, Hold: time.Second})
	if err != nil || len(items) != 2 {
		t.Fatalf("%v, %v", items, err)
	}
	if _, err := q.Finish(t.Context(), 1, []string{items[0].Ticket, items[1].Ticket}, nil); err != nil {
		t.Fatal(err)
	}
	for _, key := range q.keys(1)[1:] { // the stream stays, empty
		if n, err := c.HLen(t.Context(), key).Result(); err != nil || n != 0 {
			t.Errorf("%s: %d left, %v", key, n, err)
		}
	}
}

func TestQueue_AServerThatIsAwayIsAnErrorInTime(t *testing.T) {
	s := testenv.Redis(t)
	q := open(t, client(t, s.URL()), nil)
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, put := q.Put(ctx, 1, decide.QueueItem{}, decide.QueueBounds{Items: 1, Age: time.Hour})
	_, lease := q.Lease(ctx, 1, decide.QueueWant{Max: 1, Hold: time.Second})
	_, finish := q.Finish(ctx, 1, []string{"1-1"}, nil)
	_, status := q.Status(ctx, 1)
	for name, err := range map[string]error{"put": put, "lease": lease, "finish": finish, "status": status} {
		if !errors.Is(err, decide.ErrQueueUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", name, err)
		}
	}
}

func TestQueue_LooksPastAThousandReturnedItemsAtMost(t *testing.T) {
	q := open(t, client(t, testenv.SharedRedis(t).URL()), nil)
	for i := range 300 {
		if _, err := q.Put(t.Context(), 1, decide.QueueItem{Bucket: "busy", Body: fmt.Append(nil, i)},
			decide.QueueBounds{Items: 1e6, Age: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{Bucket: "free", Body: []byte("mine")},
		decide.QueueBounds{Items: 1e6, Age: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // first unseen, then returned
		items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 3, Hold: time.Hour, Except: []string{"busy"}})
		if err != nil || len(items) != 1 || string(items[0].Body) != "mine" {
			t.Fatalf("got %d items, %v", len(items), err)
		}
		if _, err := q.Finish(t.Context(), 1, nil, []string{items[0].Ticket}); err != nil {
			t.Fatal(err)
		}
	}
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 2, Hold: time.Hour})
	if err != nil || len(items) != 2 || string(items[0].Body) != "0" || string(items[1].Body) != "1" ||
		items[0].Deliveries != 1 {
		t.Errorf("got %v, %v: items that were left out must keep their places", items, err)
	}
}

func TestQueue_KeysShareOneSlotAndMeetNoBucket(t *testing.T) {
	q := &Queue{opt: Options{Prefix: "sl:"}}
	for _, key := range q.keys(17) {
		if !strings.Contains(key, "{17}") || strings.HasPrefix(key, "sl:{") {
			t.Errorf("key %s", key)
		}
	}
}

// The cluster client repeats a call whose answer was lost. The hook stands for that:
// it runs each script of a Put a second time, as the first answer never came.
func TestQueue_APutWhoseAnswerIsLostIsQueuedOnce(t *testing.T) {
	c := client(t, testenv.SharedCluster(t).URL())
	q := open(t, c, nil)
	c.AddHook(repeating{})
	for range 3 {
		if _, err := q.Put(t.Context(), 1, decide.QueueItem{Bucket: "b"},
			decide.QueueBounds{Items: 100, Age: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := q.Status(t.Context(), 1); err != nil || st.Depth != 3 {
		t.Errorf("depth %d, %v; want 3 items for 3 calls", st.Depth, err)
	}
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 1, Hold: time.Hour})
	if err != nil || len(items) != 1 || items[0].ID != "" {
		t.Errorf("got %v, %v; want one item without a name", items, err)
	}
}

// A node that gave up may find its Put carried out later, as when Redis or the network stood still.
func TestQueue_APutThatArrivesAfterItsWithdrawalAddsNothing(t *testing.T) {
	for _, url := range []string{testenv.SharedRedis(t).URL(), testenv.SharedCluster(t).URL()} {
		q := open(t, client(t, url), nil)
		b := decide.QueueBounds{Items: 100, Age: time.Hour}
		if ticket, err := q.Withdraw(t.Context(), 1, "n"); err != nil || ticket != "" {
			t.Fatalf("%q, %v", ticket, err)
		}
		if ticket, err := q.Put(t.Context(), 1, decide.QueueItem{ID: "i", Nonce: "n"}, b); err == nil {
			t.Errorf("it was put as %s", ticket)
		}
		ticket, err := q.Put(t.Context(), 1, decide.QueueItem{ID: "i", Nonce: "m"}, b)
		if err != nil {
			t.Fatal(err)
		}
		if st, err := q.Status(t.Context(), 1); err != nil || st.Depth != 1 {
			t.Errorf("depth %d, %v", st.Depth, err)
		}
		if _, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 1, Hold: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if n, err := q.Finish(t.Context(), 1, []string{ticket}, nil); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		if kept, err := q.Withdraw(t.Context(), 1, "m"); err != nil || kept != ticket {
			t.Errorf("%q, %v: it ran, so it cannot be withdrawn", kept, err)
		}
	}
}

// TestQueue_APutSaysWhetherItsOutcomeIsUnknown: what no server got, or what one refused, was not carried out.
func TestQueue_APutSaysWhetherItsOutcomeIsUnknown(t *testing.T) {
	b := decide.QueueBounds{Items: 100, Age: time.Hour}
	for _, url := range []string{testenv.SharedRedis(t).URL(), testenv.SharedCluster(t).URL()} {
		c := client(t, url)
		q := open(t, c, nil) // its hook sees the errors of a later one
		if cluster, ok := c.(*redis.ClusterClient); ok {
			cluster.OnNewNode(func(node *redis.Client) { node.AddHook(losing{}) })
		} else {
			c.AddHook(losing{})
		}
		_, err := q.Put(t.Context(), 1, decide.QueueItem{Nonce: "n"}, b)
		if !errors.Is(err, decide.ErrQueueUnsure) || !errors.Is(err, decide.ErrQueueUnavailable) {
			t.Errorf("a lost answer: %v", err)
		}
		if st, err := q.Status(t.Context(), 1); err != nil || st.Depth != 1 {
			t.Errorf("depth %d, %v: it was carried out", st.Depth, err)
		}
		if ticket, err := q.Withdraw(t.Context(), 1, "n"); err != nil || ticket != "" {
			t.Errorf("%q, %v", ticket, err)
		}
		if st, err := q.Status(t.Context(), 1); err != nil || st.Depth != 0 {
			t.Errorf("depth %d, %v after the withdrawal", st.Depth, err)
		}
	}
	s := testenv.Redis(t)
	c := client(t, s.URL())
	q := open(t, c, nil)
	if err := c.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{}, b); err == nil || errors.Is(err, decide.ErrQueueUnsure) {
		t.Errorf("a full server: %v", err)
	}
	s.Kill()
	for range 2 { // the first finds the end of its connection
		_, err := q.Put(t.Context(), 1, decide.QueueItem{}, b)
		if !errors.Is(err, decide.ErrQueueUnavailable) {
			t.Errorf("no server: %v", err)
		}
	}
	if _, err := q.Put(t.Context(), 1, decide.QueueItem{}, b); errors.Is(err, decide.ErrQueueUnsure) {
		t.Errorf("no server: %v", err)
	}
}

// losing loses the answers of the scripts of a Put.
type losing struct{}

func (losing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if err == nil && strings.HasPrefix(cmd.Name(), "eval") && len(cmd.Args()) > 11 {
			err = context.DeadlineExceeded
			cmd.SetErr(err)
		}
		return err
	}
}

// repeating runs every script twice and gives the second answer.
type repeating struct{}

func (repeating) DialHook(next redis.DialHook) redis.DialHook { return next }

func (repeating) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (repeating) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && len(cmd.Args()) > 8 { // those of a Put
			_ = next(ctx, cmd)
		}
		return next(ctx, cmd)
	}
}

// indexed are the members of the list of queues.
func indexed(t *testing.T, q *Queue) string {
	t.Helper()
	members, err := q.opt.Client.SMembers(t.Context(), q.index()).Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(members)
	return strings.Join(members, " ")
}

func TestQueue_EmptyOnesLeaveTheListAndComeBack(t *testing.T) {
	for name, url := range map[string]string{"one server": testenv.SharedRedis(t).URL(),
		"cluster": testenv.SharedCluster(t).URL()} {
		t.Run(name, func(t *testing.T) {
			q := open(t, client(t, url), nil)
			put := func(rule int64) {
				t.Helper()
				if _, err := q.Put(t.Context(), rule, decide.QueueItem{Bucket: "b"},
					decide.QueueBounds{Items: 9, Age: time.Hour}); err != nil {
					t.Fatal(err)
				}
			}
			listed := func(want string) {
				t.Helper()
				ids, err := q.Rules(t.Context(), 100)
				if got := strings.Trim(fmt.Sprint(ids), "[]"); err != nil || got != want || indexed(t, q) != want {
					t.Errorf("listed %q, in the index %q, want %q: %v", got, indexed(t, q), want, err)
				}
			}
			put(1)
			put(2)
			items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 1, Hold: time.Hour})
			if err != nil || len(items) != 1 {
				t.Fatalf("leased %d: %v", len(items), err)
			}
			listed("1 2") // what is leased still waits for its end
			if _, err := q.Finish(t.Context(), 1, []string{items[0].Ticket}, nil); err != nil {
				t.Fatal(err)
			}
			listed("2")
			put(1) // within the hour in which it was noted
			listed("1 2")
		})
	}
}

func TestQueue_APutMeanwhileKeepsItsQueueListed(t *testing.T) {
	q := open(t, client(t, testenv.SharedRedis(t).URL()), nil)
	q.note(t.Context(), 7, true) // as after its last item
	for _, before := range []bool{true, false} {
		h := &putting{q: q, before: before}
		c := client(t, testenv.SharedRedis(t).URL())
		c.AddHook(h)
		lister, err := New(Options{Client: c, Prefix: q.opt.Prefix})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lister.Rules(t.Context(), 100); err != nil || h.err != nil || !h.done {
			t.Fatalf("%v %v", err, h.err)
		}
		if indexed(t, q) != "7" {
			t.Errorf("put before the removal %v: the index is %q", before, indexed(t, q))
		}
		if err := q.opt.Client.Del(t.Context(), q.keys(7)...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// putting puts an item right before or after an id is taken out of the index.
type putting struct {
	q            *Queue
	before, done bool
	err          error
}

func (*putting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (*putting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *putting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	put := func(ctx context.Context) {
		_, h.err = h.q.Put(ctx, 7, decide.QueueItem{Bucket: "b"}, decide.QueueBounds{Items: 9, Age: time.Hour})
		h.done = true
	}
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "srem" {
			return next(ctx, cmd)
		}
		if h.before {
			put(ctx)
			return next(ctx, cmd)
		}
		err := next(ctx, cmd)
		put(ctx)
		return err
	}
}
