package updates

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/limiter/memstore"
)

// replaceable is a store that can be replaced by an empty one.
type replaceable struct{ atomic.Pointer[memstore.Store] }

func (r *replaceable) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	return r.Load().Do(ctx, req, res)
}

func (r *replaceable) DoAll(ctx context.Context, calls []limiter.Call) { r.Load().DoAll(ctx, calls) }

func (r *replaceable) Changed(ctx context.Context) (int, error) { return r.Load().Changed(ctx) }

func (r *replaceable) Export(ctx context.Context, most int, lease time.Duration) ([]limiter.Exported, error) {
	return r.Load().Export(ctx, most, lease)
}

func (r *replaceable) Confirm(ctx context.Context, sums []limiter.Exported) error {
	return r.Load().Confirm(ctx, sums)
}

func (r *replaceable) BeginRestore(ctx context.Context, name string) (bool, error) {
	return r.Load().BeginRestore(ctx, name)
}

func (r *replaceable) EndRestore(ctx context.Context, name string, but ...limiter.Key) (bool, error) {
	return r.Load().EndRestore(ctx, name, but...)
}

func (r *replaceable) Recall(ctx context.Context, region, cursor string) ([]limiter.Exported, string, error) {
	return r.Load().Recall(ctx, region, cursor)
}

// recall delivers the ask of a region that has lost its data.
func (w *world) recall(r *http.Request, body []byte) (*http.Response, error) {
	ask, err := DecodeAsk(body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	closed := w.closed != nil && w.closed(ask.From, r.URL.Host)
	w.mu.Unlock()
	if closed || r.Header.Get("Authorization") != "Bearer token" {
		return nil, errors.New("no route")
	}
	w.asked.Add(1)
	page, err := w.places[r.URL.Host].Recall(r.Context(), body)
	pass(w.delay)
	status := http.StatusOK
	if err != nil {
		page, status = nil, http.StatusServiceUnavailable
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(page))}, nil
}

// losable lets a place lose its store.
func losable(places ...*place) *replaceable {
	r := &replaceable{}
	r.Store(places[0].store)
	for _, p := range places {
		p.opt.Store, p.opt.Apply = r, r
	}
	return r
}

// lose gives places of one region an empty store.
func (r *replaceable) lose(places ...*place) {
	empty := memstore.New(memstore.Options{Steady: true, Regions: limiter.Regions{Count: 3, Restores: true}})
	for _, p := range places {
		p.store = empty
	}
	_ = r.Swap(empty).Close()
}

// left checks what is left for ada in each region.
func (w *world) left(t *testing.T, when string, want map[string]int64) {
	t.Helper()
	for name, units := range want {
		if left := w.places[name].spend(t, ada, 0); left != units {
			t.Errorf("%s: %d are left in %s, want %d", when, left, name, units)
		}
	}
}

// A region whose store came back empty has what it had spent, and what others had, as soon as they have answered, and
// goes on from there.
func TestRestore_ARegionLearnsFromTheOthersWhatItHasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		eu, us := w.places["eu"], w.places["us"]
		store := losable(us)
		w.run(func() {
			eu.spend(t, ada, 30)
			us.spend(t, ada, 20)
			pass(time.Second)
			for range 2 { // the second time what was restored is lost as well
				store.lose(us)
				us.spend(t, ada, 5)
				pass(time.Second)
				eu.spend(t, ada, 5)
				pass(time.Second)
			}
			w.left(t, "after two losses", map[string]int64{"eu": 30, "us": 30, "asia": 30})
			pass(time.Minute)
			us.spend(t, ada, 30)
			pass(time.Second)
			w.left(t, "at the end", map[string]int64{"eu": 0, "us": 0, "asia": 0})
			if left := us.spend(t, ada, 1); left != 0 {
				t.Errorf("us has %d left after a take too many", left)
			}
		})
		if log := us.log.String(); strings.Count(log, "was empty; the units that other regions know are counted again") != 2 {
			t.Errorf("the log says\n%s", log)
		}
	})
}

// Of two regions one has heard less, and learns the rest from the region that it forgot it.
func TestRestore_TheRegionThatHeardTheMostCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		us := w.places["us"]
		store := losable(us)
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second)
			w.close(func(from, to string) bool { return from == "asia" || to == "asia" })
			us.spend(t, ada, 10)
			pass(time.Second)
			w.left(t, "while asia is cut off", map[string]int64{"eu": 70, "us": 70, "asia": 80})
			us.mu.Lock() // the node that knows it is gone as well
			us.box = NewOutbox(mostWaiting, us.names...)
			us.mu.Unlock()
			store.lose(us)
			w.setCut(false)
			us.spend(t, ada, 1)
			pass(2 * time.Second)
			w.left(t, "after the loss", map[string]int64{"eu": 69, "us": 69, "asia": 69})
		})
	})
}

// What no region has heard of is known to the node that has exported it.
func TestRestore_ANodeRestoresWhatItCouldNotTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		us := w.places["us"]
		store := losable(us)
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second)
			w.setCut(true)
			us.spend(t, ada, 10)
			pass(time.Second)
			store.lose(us)
			us.spend(t, ada, 1)
			pass(time.Second)
			w.left(t, "in the cut", map[string]int64{"eu": 80, "us": 69})
			w.setCut(false)
			pass(time.Second)
			w.left(t, "after the heal", map[string]int64{"eu": 69, "us": 69})
		})
	})
}

// While nobody answers, checks go on, nothing is exported, and after a while the region goes on without.
func TestRestore_ARegionThatDoesNotAnswerIsWaitedForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		us := w.places["us"]
		store := losable(us)
		w.run(func() {
			us.spend(t, ada, 20)
			pass(time.Second)
			w.close(func(from, to string) bool { return from == "us" && to == "eu" })
			us.mu.Lock()
			us.box = NewOutbox(mostWaiting, us.names...)
			us.mu.Unlock()
			store.lose(us)
			us.spend(t, ada, 5)
			pass(askWait - interval)
			w.left(t, "while eu does not answer", map[string]int64{"us": 75, "asia": 80, "eu": 80})
			if us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("the region is in trouble before its time is over")
			}
			pass(8 * interval)
			w.left(t, "after the wait", map[string]int64{"us": 75, "asia": 75, "eu": 80})
			if !us.opt.Trouble.On(restoreFailing, "eu") || us.opt.Trouble.On(restoreFailing, "asia") {
				t.Error("what is wrong is not said")
			}
			w.setCut(false)
			pass(time.Second)
			w.left(t, "after the heal", map[string]int64{"us": 75, "asia": 75, "eu": 75})
			if pass(restoreShown - 10*time.Second); !us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("what was wrong is not shown for long enough")
			}
			if pass(10 * time.Second); us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("what was wrong is shown for too long")
			}
			w.close(func(from, to string) bool { return from == "us" && to == "eu" })
			store.lose(us)
			pass(askWait + time.Second)
			w.setCut(false)
			if pass(time.Second); !us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("a second loss is not shown")
			}
			store.lose(us)
			if pass(time.Second); us.opt.Trouble.On(restoreFailing, "eu") {
				t.Error("the region is in trouble though the other has answered a later restore")
			}
		})
	})
}

// However many nodes restore at once, and whenever the data are lost again, nothing counts twice.
func TestRestore_NodesAndLossesInTheMiddleCountNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		w.delay = 150 * time.Millisecond
		other := w.join("us", "us2", interval/3, us.opt.Client)
		store := losable(us, other)
		w.run(func() {
			eu.spend(t, ada, 30)
			us.spend(t, ada, 20)
			pass(2 * time.Second)
			for i := range 6 {
				store.lose(us, other)
				for _, p := range []*place{us, other} {
					p.lost <- true // both begin, whose turn it is or not
				}
				pass(time.Duration(i) * 60 * time.Millisecond)
			}
			us.spend(t, ada, 5)
			pass(4 * time.Second)
			w.left(t, "after six losses", map[string]int64{"eu": 45, "us": 45})
		})
	})
}

// A region is reset after the loss, or another one is: what was spent before is forgotten.
func TestRestore_AResetMakesVoidWhatWasLost(t *testing.T) {
	for _, at := range []string{"us", "eu"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "eu", "us")
			us := w.places["us"]
			store := losable(us)
			w.run(func() {
				us.spend(t, ada, 20)
				pass(time.Second)
				store.lose(us)
				us.spend(t, ada, 5)
				pass(time.Millisecond)
				req := limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{{Key: ada, Spans: true,
					Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_600_000}}}}
				if err := w.places[at].store.Do(t.Context(), &req, &limiter.Result{}); err != nil {
					t.Fatal(err)
				}
				pass(time.Millisecond)
				us.spend(t, ada, 3)
				pass(2 * time.Second)
				left := int64(97)
				if at == "eu" {
					left = 100 // us did not know of the reset yet
				}
				w.left(t, "after a reset in "+at, map[string]int64{"eu": left, "us": left})
			})
		})
	}
}

// More buckets than a page has are asked for page by page, and those of which nothing counts any more are left out.
func TestRestore_AsksPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		us := w.places["us"]
		store := losable(us)
		const buckets = 3 * pageBuckets
		key := func(i int) limiter.Key {
			return limiter.Key("{user:" + string(rune('a'+i%26)) + time.Duration(i).String() + "}|1|fw")
		}
		w.run(func() {
			for i := range buckets {
				us.spend(t, key(i), 20)
			}
			pass(5 * time.Second)
			asked := w.asked.Load()
			store.lose(us)
			pass(5 * time.Second)
			if n := w.asked.Load() - asked; n < 3 || n > 5 {
				t.Errorf("%d pages for %d buckets", n, buckets)
			}
			for i := range buckets {
				if left := us.spend(t, key(i), 0); left != 80 {
					t.Fatalf("%d are left of bucket %d, want 80", left, i)
				}
			}
			pass(time.Hour)
			asked = w.asked.Load()
			store.lose(us)
			pass(time.Second)
			if n := w.asked.Load() - asked; n != 1 {
				t.Errorf("%d pages of windows that are over", n)
			}
		})
	})
}

// An answer with sums of anybody else is not applied.
func TestRestore_AnswersAreOfTheRegionThatWasAsked(t *testing.T) {
	for _, head := range []region.Head{{From: "asia", To: "us", Prefix: "sl:"}, {From: "eu", To: "asia", Prefix: "sl:"},
		{From: "us", To: "us", Prefix: "other:"}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "eu", "us")
			us := w.places["us"]
			store := losable(us)
			w.run(func() {
				pass(time.Second)
				sums := limiter.Sums{Born: 5, Shape: 3_600_000 * (limiter.MaxBuckets + 1), Taken: 30}
				page := string(EncodePage(&Page{Messages: []*Message{{Head: head,
					Buckets: []Bucket{{Key: ada, Sums: sums}}}}}))
				w.answer.Store(&page)
				store.lose(us)
				pass(2 * askWait)
				w.left(t, head.From, map[string]int64{"us": 100})
				if !us.opt.Trouble.On(restoreFailing, "eu") {
					t.Error("what is wrong is not said")
				}
				w.answer.Store(nil)
			})
		})
	}
}

func TestRecall_RefusesWhatIsNotForThisRegion(t *testing.T) {
	w := newWorld(t, "eu", "us")
	eu := w.places["eu"]
	ok := Ask{Head: region.Head{From: "us", To: "eu", Prefix: "sl:", At: 1}}
	if _, err := eu.Recall(t.Context(), EncodeAsk(&ok)); err != nil {
		t.Errorf("an ask of another region: %v", err)
	}
	for _, head := range []region.Head{{From: "sa", To: "eu", Prefix: "sl:"}, {From: "us", To: "sa", Prefix: "sl:"},
		{From: "us", To: "eu", Prefix: "other:"}, {From: "eu", To: "eu", Prefix: "sl:"}} {
		var refused *region.RefusedError
		if _, err := eu.Recall(t.Context(), EncodeAsk(&Ask{Head: head})); !errors.As(err, &refused) {
			t.Errorf("%+v: %v", head, err)
		}
	}
	for _, body := range [][]byte{nil, {Version}, {Version + 1}, append(EncodeAsk(&ok), 0)} {
		if _, err := eu.Recall(t.Context(), body); !errors.Is(err, region.ErrMessage) {
			t.Errorf("%q: %v", body, err)
		}
	}
	for range mostApplying {
		eu.applying <- struct{}{}
	}
	if _, err := eu.Recall(t.Context(), EncodeAsk(&ok)); !errors.Is(err, region.ErrBusy) {
		t.Errorf("while others are answered: %v", err)
	}
	for _, p := range w.places {
		_ = p.store.Close()
	}
}
