package usage_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"sluice/api/decide"
	"sluice/internal/database"
	"sluice/internal/testenv"
	"sluice/internal/trouble"
	"sluice/internal/usage"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/limiter/storetest"
	"sluice/rules"
	"sluice/rules/match"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

const (
	hour, day = int64(3_600_000), 24 * int64(3_600_000)
	// start is the start of a day, ms.
	start = int64(1_700_006_400_000)
)

// world is a rules database, a counter store and its time.
type world struct {
	t     *testing.T
	clock *storetest.Clock
	store interface {
		limiter.Store
		limiter.PeriodLister
	}
	db    *gate
	left  atomic.Int64 // how many nodes have gone
	sets  match.Current
	redis *testenv.RedisServer
}

// gate is a database that can be unreachable.
type gate struct {
	usage.Database
	shut bool
}

var errShut = errors.New("unreachable")

func (g *gate) WriteUsage(ctx context.Context, rows []usage.Row, floored bool) error {
	if g.shut {
		return errShut
	}
	return g.Database.WriteUsage(ctx, rows, floored)
}

// onEach runs a test with counters in memory and in Redis.
func onEach(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			w := &world{t: t, clock: storetest.NewClock(start + hour)}
			if kind == "memory" {
				s := memstore.New(memstore.Options{Clock: w.clock.Now})
				t.Cleanup(func() { _ = s.Close() })
				w.store = s
			} else {
				w.redis = testenv.Redis(t)
				c, err := redisstore.NewClient(w.redis.URL(), redisstore.ClientOptions{DialTimeout: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = c.Close() })
				s, err := redisstore.New(redisstore.Options{Client: c, Clock: w.clock.Now})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				w.store = s
			}
			db, err := database.Open(t.Context(), database.Options{DSN: filepath.Join(t.TempDir(), "rules.db")})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.db = &gate{Database: db}
			budget := rules.Rule{ID: 1, Name: "budget", Scope: "user", Algorithm: "fixed_window", Limit: 100, WindowMS: day,
				KeepPeriods: new(int64(2)), IsActive: true}
			meter := rules.Rule{ID: 2, Name: "meter", Scope: "attr:team", Algorithm: "fixed_window", Unlimited: true,
				WindowMS:    day,
				KeepPeriods: new(int64(2)), IsActive: true}
			set, err := match.Compile([]rules.Rule{budget, meter}, 1, match.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w.sets.Store(set)
			test(w)
		})
	}
}

// now is the time of the world.
func (w *world) now() time.Time { return time.UnixMilli(w.clock.Now()) }

// node is one that shares the counters.
type node struct {
	*decide.Checker
	*usage.Recorder
	trouble *trouble.Registry
}

// Record records until everything was read and written, since calls may time out on a busy machine.
func (n *node) Record(ctx context.Context) {
	n.Recorder.Record(ctx)
	for range 20 {
		if !n.trouble.On(usage.Unread, "") && !n.trouble.On(usage.Unwritten, "") {
			return
		}
		n.Recorder.Record(ctx)
	}
}

func (w *world) node() *node {
	w.t.Helper()
	problems := trouble.New(slog.New(slog.DiscardHandler), w.now, nil)
	r := usage.NewRecorder(usage.Options{Store: w.store, Lister: w.store, Database: w.db, Sets: &w.sets,
		Left: w.left.Load, Now: w.now, Trouble: problems})
	c, err := decide.NewChecker(decide.CheckerOptions{Sets: &w.sets, Store: r.Watch(w.store), Now: w.now, Timeout: -1,
		Secrets: oneSecret{}})
	if err != nil {
		w.t.Fatal(err)
	}
	return &node{c, r, problems}
}

type oneSecret struct{}

func (oneSecret) Secrets(context.Context, bool) ([][]byte, error) {
	return [][]byte{make([]byte, 32)}, nil
}

// question is about a user of a team.
func question(op limiter.Op, user string, weight int64) *decide.Question {
	return &decide.Question{Op: op, Weight: weight,
		Descriptor: match.Descriptor{User: user, Attributes: map[string]string{"team": "t"}}}
}

func (w *world) do(n *node, q *decide.Question) *decide.Answer {
	w.t.Helper()
	var a decide.Answer
	if err := n.Do(w.t.Context(), q, &a); err != nil {
		w.t.Fatal(err)
	}
	return &a
}

// reserve reserves units and returns the token, "" if it is denied.
func (w *world) reserve(n *node, user string, weight int64) string {
	w.t.Helper()
	var a decide.Answer
	if err := n.Reserve(w.t.Context(), question(limiter.OpTake, user, weight), decide.MaxReservationLife, &a); err != nil {
		w.t.Fatal(err)
	}
	return a.Reservation
}

func (w *world) settle(n *node, token string, weight int64) {
	w.t.Helper()
	var a decide.Answer
	if err := n.SettleReservation(w.t.Context(), &decide.Settlement{Reservation: token, Weight: weight}, &a); err != nil {
		w.t.Fatal(err)
	}
}

// statement returns what the database has of a rule.
func (w *world) statement(rule int64) map[string]int64 {
	w.t.Helper()
	out := map[string]int64{}
	periods, err := w.db.UsagePeriods(w.t.Context(), rule, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, p := range periods {
		rows, err := w.db.Usage(w.t.Context(), usage.Query{Rule: rule, Period: p, Most: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, r := range rows {
			out[fmt.Sprintf("%d %s", (p-start)/day, r.Key)] = r.Spent
		}
	}
	return out
}

func (w *world) wants(rule int64, want map[string]int64) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.statement(rule)); diff != "" {
		w.t.Errorf("rule %d, wanted (-), stated (+):\n%s", rule, diff)
	}
}

// The statement is the sum of the settlements, whoever made them, however late, and although one node is lost with all
// that it noted.
func TestStatements_AreTheSumOfSettlements(t *testing.T) {
	onEach(t, func(w *world) {
		rnd := rand.New(rand.NewPCG(1, 2))
		nodes := []*node{w.node(), w.node()}
		users, teams := map[string]int64{}, map[string]int64{}
		type held struct {
			token, user string
			day         int64
		}
		var open []held
		settle := func(i int) {
			weight := rnd.Int64N(30)
			w.settle(nodes[rnd.IntN(2)], open[i].token, weight)
			users[fmt.Sprintf("%d {user:%s}", open[i].day, open[i].user)] += weight
			teams[fmt.Sprintf("%d {attr:team:t}", open[i].day)] += weight
			open = append(open[:i], open[i+1:]...)
		}
		for range 400 {
			w.clock.Advance(rnd.Int64N(hour / 2))
			for i := len(open) - 1; i >= 0 && rnd.IntN(2) == 0; i-- {
				settle(i)
			}
			// Reservations end after an hour.
			for i := len(open) - 1; i >= 0; i-- {
				settle(i)
			}
			user := fmt.Sprint(rnd.IntN(3))
			if token := w.reserve(nodes[rnd.IntN(2)], user, 1+rnd.Int64N(20)); token != "" {
				open = append(open, held{token, user, (w.clock.Now() - start) / day})
			}
			if rnd.IntN(10) == 0 {
				nodes[0].Record(t.Context())
			}
		}
		for len(open) > 0 {
			settle(0)
		}
		// Node 1 never wrote anything, and is lost.
		w.clock.Advance(1)
		nodes[0].AskAll()
		nodes[0].Record(t.Context())
		// Buckets are readable for a day after their period; the world above lasts longer.
		last := (w.clock.Now() - start) / day
		got, want := w.statement(1), map[string]int64{}
		for place, spent := range users {
			var of int64
			_, _ = fmt.Sscan(place, &of)
			if of >= last-1 {
				want[place] = spent
			}
		}
		for place := range got {
			var of int64
			if _, _ = fmt.Sscan(place, &of); of < last-1 {
				delete(got, place)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 4 {
			t.Errorf("settled (-), stated (+):\n%s", diff)
		}
	})
}

func TestRecorder_NotesAllOperations(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.node()
		w.do(n, question(limiter.OpTake, "a", 40))
		w.do(n, question(limiter.OpTake, "a", 70)) // denied, so that the meter does not count it either
		w.do(n, question(limiter.OpCharge, "b", 150))
		w.do(n, question(limiter.OpPeek, "c", 1))
		w.clock.Advance(1)
		n.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 40, "0 {user:b}": 150})
		w.wants(2, map[string]int64{"0 {attr:team:t}": 190})
		w.do(n, question(limiter.OpRefund, "b", 30))
		w.do(n, question(limiter.OpReset, "a", 0))
		w.clock.Advance(1)
		n.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 0, "0 {user:b}": 120})
		if n.Noted() != 0 {
			t.Errorf("%d keys are noted after a quiet time", n.Noted())
		}
	})
}

// A reading in the millisecond of a decision may lack another of that millisecond, so the bucket is read again.
func TestRecorder_ReadsLaterThanTheLastDecision(t *testing.T) {
	onEach(t, func(w *world) {
		a, b := w.node(), w.node()
		w.do(a, question(limiter.OpTake, "a", 1))
		a.Record(t.Context())
		w.do(b, question(limiter.OpTake, "a", 2))
		b.Record(t.Context()) // with the same time, so that the row stays
		w.wants(1, map[string]int64{"0 {user:a}": 1})
		w.clock.Advance(1)
		b.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 3})
	})
}

func TestRecorder_WaitsForTheDatabase(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.node()
		w.db.shut = true
		w.do(n, question(limiter.OpTake, "a", 5))
		w.clock.Set(start + day - 1)
		w.do(n, question(limiter.OpTake, "a", 6))
		n.Record(t.Context())
		w.wants(1, map[string]int64{})
		w.clock.Set(start + day + 20*hour) // the period has ended long ago
		w.do(n, question(limiter.OpTake, "a", 7))
		w.db.shut = false
		w.clock.Advance(1)
		n.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 11, "1 {user:a}": 7})
	})
}

func TestRecorder_ReadsAllBeyondItsBound(t *testing.T) {
	onEach(t, func(w *world) {
		n, want := w.node(), map[string]int64{}
		n.Bound(3)
		for i := range 700 {
			user := fmt.Sprintf("u%d", i)
			w.do(n, question(limiter.OpTake, user, 1))
			want["0 {user:"+user+"}"] = 1
		}
		w.clock.Advance(1)
		n.Record(t.Context())
		w.wants(1, want)
		w.wants(2, map[string]int64{"0 {attr:team:t}": 700})
	})
}

// Another node comes in the place of one that is lost, so that their number stays the same.
func TestLead_ReadsAllAfterALoss(t *testing.T) {
	onEach(t, func(w *world) {
		leader, lost := w.node(), w.node()
		look := leader.Looker()
		w.do(lost, question(limiter.OpTake, "a", 5))
		w.clock.Advance(1)
		look()
		leader.Record(t.Context())
		w.wants(1, map[string]int64{})
		w.left.Add(1)
		look()
		leader.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 5})
	})
}

func TestLead_ReadsAllAfterTheEndOfAPeriod(t *testing.T) {
	onEach(t, func(w *world) {
		leader, lost := w.node(), w.node()
		look := leader.Looker()
		w.do(lost, question(limiter.OpTake, "a", 5))
		w.clock.Set(start + day + 10_000)
		look()
		leader.Record(t.Context())
		w.wants(1, map[string]int64{})
		w.clock.Set(start + day + 40_000)
		look()
		leader.Record(t.Context())
		w.wants(1, map[string]int64{"0 {user:a}": 5})
	})
}

func TestClean_KeepsThePeriodsOfTheRule(t *testing.T) {
	onEach(t, func(w *world) {
		n := w.node()
		for d := range int64(5) {
			w.clock.Set(start + d*day + 1)
			w.do(n, question(limiter.OpTake, "a", d+1))
			w.clock.Advance(1)
			n.Record(t.Context())
		}
		if err := n.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wants(1, map[string]int64{"2 {user:a}": 3, "3 {user:a}": 4, "4 {user:a}": 5})
		without, err := match.Compile(nil, 2, match.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.sets.Store(without)
		w.clock.Set(start + 403*day)
		if err := n.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wants(1, map[string]int64{"3 {user:a}": 4, "4 {user:a}": 5})
	})
}

func TestRestore_ChargesWhatRedisLost(t *testing.T) {
	onEach(t, func(w *world) {
		if w.redis == nil {
			return // memory that is lost is lost with its marks, which a snapshot has
		}
		n, other, ctx := w.node(), w.node(), t.Context()
		w.do(n, question(limiter.OpTake, "a", 60))
		w.do(n, question(limiter.OpTake, "b", 10))
		w.clock.Advance(1)
		n.Record(ctx)
		w.flush()
		w.do(n, question(limiter.OpTake, "a", 5))
		w.do(other, question(limiter.OpTake, "c", 7))
		w.clock.Advance(1)
		n.Record(ctx)
		other.Record(ctx)
		w.wants(1, map[string]int64{"0 {user:a}": 60, "0 {user:b}": 10, "0 {user:c}": 7})
		restore := func(dry bool, want map[string]int64) {
			t.Helper()
			if diff := cmp.Diff(want, w.restore(n, dry)); diff != "" {
				t.Errorf("restored:\n%s", diff)
			}
		}
		all := map[string]int64{"1 0 {user:a}": 55, "1 0 {user:b}": 10, "2 0 {attr:team:t}": 58}
		restore(true, all)
		if !w.lost(other) || !w.lost(n) {
			t.Error("the counters are no longer lost after a dry run")
		}
		restore(false, all)
		restore(false, map[string]int64{})
		if w.lost(other) || w.lost(n) {
			t.Error("the counters are lost although they were restored")
		}
		if used := w.do(n, question(limiter.OpPeek, "a", 0)).Limits[0].Decision.Used; used != 60 {
			t.Errorf("the counter has %d", used)
		}
		w.do(n, question(limiter.OpRefund, "a", 20))
		w.clock.Advance(1)
		n.Record(ctx)
		w.wants(1, map[string]int64{"0 {user:a}": 40, "0 {user:b}": 10, "0 {user:c}": 7})
	})
}

// restore restores in pages, and returns what was missing, by rule, day and key.
func (w *world) restore(n *node, dry bool) map[string]int64 {
	w.t.Helper()
	missing := map[string]int64{}
	for from := new(usage.Place); from != nil; {
		r, err := n.Restore(w.t.Context(), *from, dry)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, m := range r.Missing {
			missing[fmt.Sprintf("%d %d %s", m.Rule, (m.Period-start)/day, m.Key)] += m.Units
		}
		from = r.Next
	}
	return missing
}

// lost reports whether a node says that the counters are lost, after its next look, with nothing noted.
func (w *world) lost(n *node) bool {
	w.t.Helper()
	n.Record(w.t.Context())
	return n.trouble.On(usage.Lost, "")
}

// A period that has ended is restored while its bucket can be read, so that a late settlement finds it.
func TestRestore_CoversPeriodsThatHaveEnded(t *testing.T) {
	onEach(t, func(w *world) {
		if w.redis == nil {
			return
		}
		n, ctx := w.node(), t.Context()
		w.clock.Set(start + day - hour/2)
		w.do(n, question(limiter.OpTake, "a", 60))
		w.clock.Advance(1)
		n.Record(ctx)
		w.flush()
		late := w.reserve(n, "a", 30)
		w.clock.Set(start + day + 1)
		w.do(n, question(limiter.OpTake, "a", 1))
		w.clock.Advance(1)
		n.Record(ctx)
		want := map[string]int64{"1 0 {user:a}": 30, "2 0 {attr:team:t}": 30}
		if diff := cmp.Diff(want, w.restore(n, false)); diff != "" {
			t.Errorf("restored:\n%s", diff)
		}
		w.settle(n, late, 10)
		w.clock.Advance(1)
		n.Record(ctx)
		w.wants(1, map[string]int64{"0 {user:a}": 40, "1 {user:a}": 1})
	})
}

// Restoring at the same time charges once, and another loss meanwhile leaves the counters lost.
func TestRestore_TwiceAndThroughAnotherLoss(t *testing.T) {
	onEach(t, func(w *world) {
		if w.redis == nil {
			return
		}
		n, ctx, want := w.node(), t.Context(), map[string]int64{}
		for i := range usage.WriteBatch + 20 {
			user := fmt.Sprintf("u%d", i)
			w.do(n, question(limiter.OpTake, user, 3))
			want["0 {user:"+user+"}"] = 3
		}
		w.clock.Advance(1)
		n.Record(ctx)
		w.flush()
		var both sync.WaitGroup
		errs := make(chan error, 2)
		for range 2 {
			both.Go(func() {
				r, err := n.Restore(ctx, usage.Place{}, false)
				if err == nil && (r.Read != usage.WriteBatch || r.Next == nil) {
					err = fmt.Errorf("the first page is of %d keys, then %+v", r.Read, r.Next)
				}
				errs <- err
			})
		}
		both.Wait()
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		first, err := n.Restore(ctx, usage.Place{}, false)
		if err != nil || len(first.Missing) != 0 {
			t.Fatalf("%d keys lack something after two restores, %v", len(first.Missing), err)
		}
		w.clock.Advance(1)
		w.flush()
		last := first
		for last.Next != nil {
			if last, err = n.Restore(ctx, *last.Next, false); err != nil {
				t.Fatal(err)
			}
		}
		if !last.Lost {
			t.Error("the counters count as restored although they were lost again")
		}
		w.restore(n, false)
		w.clock.Advance(1)
		n.AskAll()
		n.Record(ctx)
		w.wants(1, want)
		w.wants(2, map[string]int64{"0 {attr:team:t}": 3 * int64(len(want))})
		if w.lost(n) {
			t.Error("the counters are lost although they were restored")
		}
	})
}

// flush makes Redis lose everything.
func (w *world) flush() {
	w.t.Helper()
	if _, err := w.redis.Command(w.t.Context(), "FLUSHALL"); err != nil {
		w.t.Fatal(err)
	}
}
