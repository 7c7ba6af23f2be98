package history_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/history"
	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// clock is a time that only tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 11, 21, 10, 59, 50, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = newClock().t
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

var prefixes atomic.Int64

// boards are the two kinds, by name.
func boards(t *testing.T, c *clock) map[string]history.Board {
	t.Helper()
	opt, err := redis.ParseURL(testenv.SharedRedis(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	return map[string]history.Board{"memory": history.NewMemory(c.now), "redis": history.NewRedisBoard(client,
		fmt.Sprintf("sl:%d:", prefixes.Add(1)))}
}

// poster is a node that posts and writes nothing.
type poster struct {
	*history.Recorder
	*history.Publisher
}

func newPoster(id string, b history.Board, c *clock) poster {
	r := history.NewRecorder()
	return poster{r, history.NewPublisher(history.PublisherOptions{
		Recorder: r, Board: b, Now: c.now,
		Status: func() history.Status { return history.Status{ID: id, Address: id + ":8080", SetVersion: 7} },
	})}
}

// decide lets a node allow and deny by one rule.
func (n poster) decide(rule string, allowed, denied int) {
	for range allowed {
		n.Request(&history.Decided{Allowed: true})
		n.Limit(rule, &history.Decided{Allowed: true})
	}
	for i := range denied {
		n.Request(&history.Decided{})
		n.Limit(rule, &history.Decided{})
		key := fmt.Sprintf("user:%d", i%3)
		n.Denied(rule, func() history.Request {
			return history.Request{Rule: rule, Key: key, Mode: "enforce", Method: "GET", Route: "/v1/x"}
		})
	}
}

func TestFigures_OfAllNodesAddUp(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			ctx := t.Context()
			a, b := newPoster("a", board, c), newPoster("b", board, c)
			a.decide("charges", 5, 2)
			b.decide("charges", 10, 1)
			b.Limit("trial", &history.Decided{Allowed: true, WouldDeny: true})
			b.Limit("charges", &history.Decided{Allowed: true, WouldDeny: true, Degraded: true, Use: history.UseOf(6, 10)})
			a.Limit("charges", &history.Decided{Allowed: true, Failed: true, Use: history.UseOf(9, 10)})
			a.Limit("charges", &history.Decided{Allowed: true, Use: history.UseOf(1, 10)})
			a.Limit("charges", &history.Decided{Degraded: true})
			at := c.now()
			a.Post(ctx)
			b.Post(ctx)
			b.Post(ctx) // again, as after a lost answer
			c.add(20 * time.Second)

			live := history.NewLiveReader(board, c.now).Live(ctx)
			if live.Err != nil {
				t.Fatal(live.Err)
			}
			var sum history.Figures
			for _, p := range live.Seconds {
				if p.Figures != (history.Figures{}) && !p.At.Equal(at.Truncate(time.Second)) {
					t.Errorf("figures at %s, want them at %s", p.At, at)
				}
				sum.Add(p.Figures)
			}
			if want := (history.Figures{Allowed: 15, Denied: 3}); sum != want {
				t.Errorf("seconds add up to %+v, want %+v", sum, want)
			}
			want := history.Figures{Allowed: 18, Denied: 4, WouldDeny: 1, Degraded: 2, DegradedDenied: 1, Failed: 1,
				Use: history.UseOf(9, 10)}
			if len(live.Rules) != 2 || live.Rules[0].Name != "charges" || live.Rules[0].Minute != want {
				t.Errorf("rules = %+v, want charges first with %+v", live.Rules, want)
			}
			if len(live.Nodes) != 2 || live.Nodes[0].ID != "a" || live.Nodes[1].SetVersion != 7 || !live.Nodes[0].Silent {
				t.Errorf("nodes = %+v, want a and b, silent for 20 s", live.Nodes)
			}
			if got := live.Rules[1].Minute.WouldDeny; got != 1 {
				t.Errorf("trial would have denied %d, want 1", got)
			}
		})
	}
}

func TestDenials_AreSampledFilteredAndCountedByKey(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			ctx := t.Context()
			n := newPoster("a", board, c)
			n.decide("charges", 0, 100)
			n.decide("search", 0, 2)
			n.Post(ctx)
			r := history.NewLiveReader(board, c.now)
			all, err := r.Denials(ctx, history.Filter{}, 100)
			if err != nil || len(all) != 7 { // five of one rule in a second, and both of the other
				t.Fatalf("denials = %d, %v; want 7", len(all), err)
			}
			some, err := r.Denials(ctx, history.Filter{Rule: "search", Key: "user:1", Route: "/v1"}, 100)
			if err != nil || len(some) != 1 || some[0].Key != "user:1" {
				t.Errorf("filtered = %+v, %v; want the one of user:1", some, err)
			}
			for route, want := range map[string]int{"GET /v1": 7, "POST /v1": 0, "GET /v2": 0} { // as the traffic writes it
				if got, err := r.Denials(ctx, history.Filter{Route: route}, 100); err != nil || len(got) != want {
					t.Errorf("route %q = %d, %v; want %d", route, len(got), err, want)
				}
			}
			if whole, err := r.Denials(ctx, history.Filter{Key: "user:", WholeKey: true}, 100); err != nil || len(whole) != 0 {
				t.Errorf("part of a key was taken for all of it: %+v, %v", whole, err)
			}
			one, ok, err := r.Request(ctx, all[3].ID)
			if err != nil || !ok || one.ID != all[3].ID {
				t.Errorf("Request(%s) = %+v, %t, %v", all[3].ID, one, ok, err)
			}
		})
	}
}

// flaky is a board that can be away.
type flaky struct {
	history.Board
	away bool
}

var errAway = errors.New("away")

func (f *flaky) Post(ctx context.Context, e []history.Entry) error {
	if f.away {
		return errAway
	}
	return f.Board.Post(ctx, e)
}

func (f *flaky) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	if f.away {
		return nil, errAway
	}
	return f.Board.Read(ctx, tables)
}

func TestPublisher_FiguresWaitForABoardThatIsAway(t *testing.T) {
	c := newClock()
	board := &flaky{Board: history.NewMemory(c.now)}
	n := newPoster("a", board, c)
	r := history.NewLiveReader(board, c.now)
	n.Post(t.Context())
	if live := r.Live(t.Context()); live.Err != nil {
		t.Fatal(live.Err)
	}
	board.away = true
	for range 10 {
		n.decide("charges", 2, 1)
		n.Post(t.Context())
		c.add(time.Second)
	}
	if live := r.Live(t.Context()); !errors.Is(live.Err, errAway) || len(live.Nodes) != 1 {
		t.Errorf("while away Live = %+v, want what was last known and the error", live)
	}
	board.away = false
	n.Post(t.Context())
	c.add(10 * time.Second)
	var sum history.Figures
	live := r.Live(t.Context())
	for _, p := range live.Seconds {
		sum.Add(p.Figures)
	}
	if live.Err != nil || sum.Allowed != 20 || sum.Denied != 10 {
		t.Errorf("afterwards %+v, %v; want 20 allowed and 10 denied", sum, live.Err)
	}
	denials, err := r.Denials(t.Context(), history.Filter{}, 100)
	if err != nil || len(denials) != 10 {
		t.Errorf("denials afterwards = %d, %v; want 10", len(denials), err)
	}
}

func TestRecorder_IsBounded(t *testing.T) {
	c := newClock()
	board := history.NewMemory(c.now)
	n := newPoster("a", board, c)
	for i := range 30_000 {
		n.Limit(fmt.Sprintf("rule-%d", i), &history.Decided{Allowed: true})
		n.Denied("flood", func() history.Request { return history.Request{Rule: "flood"} })
	}
	n.Post(t.Context())
	c.add(10 * time.Second)
	r := history.NewLiveReader(board, c.now)
	if live := r.Live(t.Context()); len(live.Rules) != 1000 {
		t.Errorf("%d rules are told apart, want the 1000 heaviest", len(live.Rules))
	} else if live.Rules[0].Name != history.Other {
		t.Errorf("the heaviest is %s, want what was not counted apart", live.Rules[0].Name)
	}
}

func TestRun_LeavesTheListAtTheEnd(t *testing.T) {
	c := newClock()
	board := history.NewMemory(c.now)
	n := newPoster("a", board, c)
	n.decide("charges", 1, 0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.Run(ctx)
	c.add(5 * time.Second)
	live := history.NewLiveReader(board, c.now).Live(t.Context())
	if len(live.Nodes) != 0 || len(live.Rules) != 1 {
		t.Errorf("after the end %d nodes and %d rules, want none and the figures", len(live.Nodes), len(live.Rules))
	}
}

func BenchmarkRecorder(b *testing.B) {
	r := history.NewRecorder()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Request(&history.Decided{Allowed: true})
			r.Limit("charges", &history.Decided{Allowed: true, Use: 40})
			if weight := r.Weight(); weight > 0 {
				r.Top("charges", history.ByKey, "user:42", true, weight)
			}
		}
	})
}

// BenchmarkRecorder_DeniedKey is a flood of denials of few keys.
func BenchmarkRecorder_DeniedKey(b *testing.B) {
	r := history.NewRecorder()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.DeniedKey("charges", "{user:42}")
		}
	})
}

// A minute ends two seconds ago, so that a page never says that nobody asked while its list of denials grows.
func TestFigures_TheLastMinuteIsToTheSecond(t *testing.T) {
	c := newClock()
	for name, board := range boards(t, c) {
		t.Run(name, func(t *testing.T) {
			c.reset()
			a := newPoster("a", board, c)
			for _, c2 := range []struct {
				after   time.Duration
				allowed int64
			}{{2 * time.Second, 1}, {60 * time.Second, 1}, {61 * time.Second, 1}, {62 * time.Second, 0}} {
				c.reset()
				a.decide("charges", 1, 0)
				a.Post(t.Context())
				c.add(c2.after)
				live := history.NewLiveReader(board, c.now).Live(t.Context())
				if len(live.Rules) != 1 || live.Rules[0].Minute.Allowed != c2.allowed {
					t.Errorf("after %s: %+v, want %d allowed", c2.after, live.Rules, c2.allowed)
				}
				a = newPoster("a", board, c) // posts the same second again, with one request
			}
		})
	}
}
