package updates

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/region"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

func TestMain(m *testing.M) {
	// The first message makes channels, which must not belong to the bubble of a test.
	_, _ = Decode(encoded(&region.Head{From: "a", To: "b", Prefix: "c"}), 0)
	goleak.VerifyTestMain(m)
}

// board has the arrivals of one region.
type board struct {
	mu       sync.Mutex
	until    map[string]time.Time
	what     map[string]string
	accepted map[string]time.Time
	turn     time.Time
	err      error
}

func (b *board) Accepted(_ context.Context, region string, ttl time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accepted[region] = time.Now().Add(ttl)
	return b.err
}

func (b *board) Received(_ context.Context, region, what string, ttl time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.until[region], b.what[region] = time.Now().Add(ttl), what
	return b.err
}

func (b *board) Connected(_ context.Context, regions []string) (map[string]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[string]string{}
	for _, r := range regions {
		if time.Now().Before(b.until[r]) && time.Now().Before(b.accepted[r]) {
			out[r] = b.what[r]
		}
	}
	return out, b.err
}

func (b *board) Turn(_ context.Context, interval time.Duration, yields bool) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ago := time.Since(b.turn)
	if yields {
		return ago >= interval*19/10, b.err
	}
	if ago < interval*9/10 {
		return false, b.err
	}
	b.turn = time.Now()
	return true, b.err
}

// place is a region of one node in virtual time.
type place struct {
	*Exchange
	store *memstore.Store
	board *board
	log   *strings.Builder
	phase time.Duration // it begins so late
}

// world carries messages between places, without a network.
type world struct {
	t      *testing.T
	places map[string]*place
	mu     sync.Mutex
	closed func(from, to string) bool // says where no message arrives, nil for nowhere
	delay  time.Duration              // of a message and of its answer, 0 for 50 ms and none
	sent   atomic.Int64
	asked  atomic.Int64           // pages that were asked for
	answer atomic.Pointer[string] // what something else answers in place of every region
}

const interval = 200 * time.Millisecond

// RoundTrip delivers a message to the place that is the host of its address, after 50 ms.
func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.sent.Add(1)
	if a := w.answer.Load(); a != nil {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(*a))}, nil
	}
	pass(cmp.Or(w.delay, 50*time.Millisecond))
	if r.Header.Get("Content-Type") == RecallType {
		return w.recall(r, body)
	}
	m, err := Decode(body, time.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	closed := w.closed != nil && w.closed(m.From, r.URL.Host)
	w.mu.Unlock()
	if closed || r.Header.Get("Authorization") != "Bearer token" {
		return nil, errors.New("no route")
	}
	a, err := w.places[r.URL.Host].Receive(r.Context(), body)
	pass(w.delay)
	if err != nil {
		return &http.Response{StatusCode: http.StatusUnprocessableEntity,
			Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"detail":%q}`, err)))}, nil
	}
	text, err := json.Marshal(a)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(text))}, err
}

// setOf is the rules of version v, of which the first spans three regions.
func setOf(t *testing.T, v int64, names ...string) *match.Set {
	t.Helper()
	var rs []rules.Rule
	for i, name := range names {
		rs = append(rs, rules.Rule{ID: int64(i + 1), Name: name, Scope: "user", Limit: 100, WindowMS: 3_600_000,
			Algorithm: "fixed_window", Span: rules.SpanGlobal, IsActive: true})
	}
	set, err := match.Compile(rs, v, match.Options{Regions: 3})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// newWorld makes two regions; a third is in their list and does not exist.
func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	w := &world{t: t, places: map[string]*place{}}
	for _, name := range names {
		store := memstore.New(memstore.Options{Steady: true,
			Regions: limiter.Regions{Count: int64(len(names)), Parts: limiter.WorthParts(int64(len(names)))}})
		p := &place{store: store, log: &strings.Builder{},
			board: &board{until: map[string]time.Time{}, what: map[string]string{},
				accepted: map[string]time.Time{}}}
		sets := &match.Current{}
		sets.Store(setOf(t, 7, "r"))
		opt := Options{Self: name, Interval: interval, Prefix: "sl:", Token: func() string { return "token" }, Store: p.store,
			Apply: p.store, Arrivals: p.board, Sets: sets, Client: &http.Client{Transport: w}, Now: time.Now,
			Log: slog.New(slog.NewTextHandler(p.log, nil))}
		opt.Trouble = trouble.New(opt.Log, time.Now, nil)
		for _, to := range names {
			if to != name {
				opt.Peers = append(opt.Peers, region.Peer{Name: to, Addresses: []string{"http://" + to}})
			}
		}
		var err error
		if p.Exchange, err = New(opt); err != nil {
			t.Fatal(err)
		}
		w.places[name] = p
	}
	return w
}

// run runs all places while do does something.
func (w *world) run(do func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var wg sync.WaitGroup
	for _, p := range w.places {
		wg.Go(func() { pass(p.phase); p.Run(ctx) })
	}
	do()
	cancel()
	wg.Wait()
	for _, p := range w.places {
		_ = p.store.Close()
	}
}

// setCut cuts all links, or connects them again.
func (w *world) setCut(cut bool) { w.close(func(string, string) bool { return cut }) }

// setDeaf lets nothing reach a place.
func (w *world) setDeaf(place string, deaf bool) {
	w.close(func(_, to string) bool { return deaf && to == place })
}

// close says where no message arrives.
func (w *world) close(closed func(from, to string) bool) {
	w.mu.Lock()
	w.closed = closed
	w.mu.Unlock()
}

// pass lets virtual time pass, and what is due in it happen.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a bubble
}

const ada = limiter.Key("{user:ada}|1|fw")

// spend takes units of ada and returns how many remain.
func (p *place) spend(t *testing.T, key limiter.Key, units int64) int64 {
	t.Helper()
	var res limiter.Result
	req := limiter.Request{Op: limiter.OpTake, Asks: []limiter.Ask{{Key: key, Spans: true, Weight: units,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_600_000}}}}
	if err := p.store.Do(t.Context(), &req, &res); err != nil {
		t.Fatal(err)
	}
	return res.Limits[0].Remaining
}

func TestExchange_SendsWhatWasSpentWithinAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us", "asia")
		w.run(func() {
			pass(interval / 2)
			w.places["eu"].spend(t, ada, 30)
			pass(interval + 100*time.Millisecond)
			for name, p := range w.places {
				if left := p.spend(t, ada, 0); left != 70 {
					t.Errorf("%s has %d left, want 70", name, left)
				}
			}
			pass(time.Second)
			o := w.places["eu"].Overview()
			if p := o.Peers[0]; p.LagNow != interval+25*time.Millisecond || p.Accepted != 1 ||
				p.CutOff || p.Set != 7 || o.Waiting != 0 {
				t.Errorf("%+v of %+v", p, o)
			}
			sent := w.sent.Load()
			pass(10 * interval)
			if n := w.sent.Load() - sent; n < 54 || n > 66 {
				t.Errorf("%d messages in ten intervals without updates, want one an interval and pair of regions", n)
			}
		})
	})
}

func TestExchange_NoticesACutAfterThreeIntervalsAndReconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		w.run(func() {
			pass(time.Second)
			if eu.CutOff() {
				t.Error("cut off without a cut")
			}
			w.setCut(true)
			eu.spend(t, ada, 20)
			us.spend(t, ada, 10)
			pass(2 * interval)
			if eu.CutOff() {
				t.Error("cut off before three intervals")
			}
			pass(3 * interval)
			if !eu.CutOff() || !us.CutOff() {
				t.Error("not cut off after five intervals")
			}
			three := limiter.Limit{Count: 3}
			a, _ := eu.Part(ada, three)
			b, _ := us.Part(ada, three)
			if a.Count+b.Count != 3 || min(a.Count, b.Count) != 1 {
				t.Errorf("parts of 3 units: %d and %d", a.Count, b.Count)
			}
			pass(20 * time.Second) // leases of exports end, and they are exported again
			if p := eu.Overview().Peers[0]; p.Failure == "" || p.Failures < 10 || p.CutFor < 20*time.Second {
				t.Errorf("%+v", p)
			}
			w.setCut(false)
			pass(3 * interval)
			for name, p := range w.places {
				if left := p.spend(t, ada, 0); left != 70 || p.CutOff() {
					t.Errorf("three intervals after the cut %s has %d left, want 70; cut off %v", name, left, p.CutOff())
				}
			}
		})
		if log := eu.log.String(); strings.Count(log, "does not accept") != 1 ||
			strings.Count(log, "accepts the spent units of this one again") != 1 {
			t.Errorf("the log says\n%s", log)
		}
	})
}

// Something that is no region of that name, and answers 200 nevertheless, has not taken anything.
func TestExchange_WaitsForTheAnswerOfTheRegion(t *testing.T) {
	for _, answer := range []string{`{}`, `{"status":"ok"}`, `{"from":"asia","set":7}`, `null`} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, "eu", "us")
			eu, us := w.places["eu"], w.places["us"]
			w.run(func() {
				pass(time.Second)
				w.answer.Store(&answer)
				eu.spend(t, ada, 30)
				pass(5 * interval)
				if p := eu.Overview().Peers[0]; p.Failure == "" || p.Accepted > 0 {
					t.Errorf("%s: %d accepted buckets, failure %q", answer, p.Accepted, p.Failure)
				}
				w.answer.Store(nil)
				pass(3 * interval)
				if left := us.spend(t, ada, 0); left != 70 {
					t.Errorf("%s: us has %d left afterwards, want 70", answer, left)
				}
			})
		})
	}
}

// A bucket of a rule that the other region does not have yet is told again until it has it.
func TestExchange_WaitsForTheRulesOfTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		eu.opt.Sets.Store(setOf(t, 8, "r", "new"))
		w.run(func() {
			eu.spend(t, "{user:ada}|2|fw", 40)
			eu.spend(t, ada, 10)
			pass(5 * interval)
			if left := us.spend(t, ada, 0); left != 90 {
				t.Errorf("of the rule that both have %d are left, want 90", left)
			}
			if o := eu.Overview(); o.Waiting != 1 || o.Peers[0].Accepted != 1 {
				t.Errorf("%d buckets wait, %d are told, want one of each", o.Waiting, o.Peers[0].Accepted)
			}
			if us.spend(t, "{user:ada}|2|fw", 0) != 100 {
				t.Error("a region has made a bucket of a rule that it does not have")
			}
			if eu.CutOff() {
				t.Error("a region whose rules are behind counts as cut off")
			}
			us.opt.Sets.Store(setOf(t, 8, "r", "new"))
			pass(15 * interval)
			if left := us.spend(t, "{user:ada}|2|fw", 0); left != 60 {
				t.Errorf("with the rule %d are left, want 60", left)
			}
		})
	})
}

// unreadable is a store in which one bucket is not readable.
type unreadable struct {
	limiter.Store

	key limiter.Key
}

func (s *unreadable) DoAll(ctx context.Context, calls []limiter.Call) {
	s.Store.DoAll(ctx, calls)
	for i := range calls {
		if calls[i].Request.Asks[0].Key == s.key {
			calls[i].Err = &limiter.StoreError{Cause: limiter.CauseBadState, Err: errors.New("junk")}
		}
	}
}

// A bucket that the store cannot read is left out. The others are applied, and nobody is cut off.
func TestReceive_ABucketThatIsNotReadableStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		us.opt.Apply = &unreadable{Store: us.store, key: ada}
		w.run(func() {
			pass(time.Second)
			eu.spend(t, ada, 10)
			eu.spend(t, "{user:bob}|1|fw", 20)
			pass(5 * interval)
			if left := us.spend(t, "{user:bob}|1|fw", 0); left != 80 || eu.CutOff() {
				t.Errorf("us has %d left, want 80; cut off %v: %s", left, eu.CutOff(), eu.Overview().Peers[0].Failure)
			}
			if here := us.Overview().Peers[0].Here; here.Applied != 1 || here.Shrunk != 1 {
				t.Errorf("%+v, want one bucket applied and one left out", here)
			}
		})
	})
}

// A bucket that claims to be born at the end of time leaves no later time for the next incarnation here. Nothing of it
// may be kept, or what this region tells from then on is refused, with all other buckets.
func TestReceive_ABucketFromTheEndOfTimeStopsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "eu", "us")
		eu, us := w.places["eu"], w.places["us"]
		w.run(func() {
			pass(time.Second)
			eu.spend(t, ada, 10)
			for name, sums := range map[string]limiter.Sums{
				"reset": {Born: limiter.MaxExact, Reset: limiter.MaxExact, Taken: 1},
				"born":  {Born: limiter.MaxExact, Taken: 1},
			} {
				head := region.Head{From: "us", To: "eu", Prefix: "sl:", At: time.Now().UnixMilli()}
				_, err := eu.Receive(t.Context(), encoded(&head, Bucket{Key: ada, Sums: sums}))
				if !errors.Is(err, region.ErrMessage) {
					t.Errorf("%s at the end of time: %v", name, err)
				}
			}
			req := limiter.Request{Op: limiter.OpReset, Asks: []limiter.Ask{{Key: ada, Spans: true,
				Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 100, Window: 3_600_000}}}}
			if err := eu.store.Do(t.Context(), &req, &limiter.Result{}); err != nil {
				t.Fatal(err)
			}
			eu.spend(t, "{user:bob}|1|fw", 20)
			pass(5 * interval)
			if left := us.spend(t, "{user:bob}|1|fw", 0); left != 80 {
				t.Errorf("after the reset us has %d left, want 80: %s", left, eu.Overview().Peers[0].Failure)
			}
		})
	})
}

// The sender shows that its token is refused, and whether a region answers at all.
func TestStatus_SaysWhatTheOtherRefuses(t *testing.T) {
	p, now := &peer{Link: region.NewLink(region.Peer{Name: "us"}, nil, nil, 0)}, time.UnixMilli(1_795_000_000_000)
	refusal := func(status int, body string) error {
		return (&region.Reply{Status: status, Body: []byte(body)}).Refusal()
	}
	for _, c := range []struct {
		err     error
		refuses bool
		text    string
	}{
		{refusal(http.StatusUnauthorized, `{"detail":"The token is unknown."}`), true,
			`the token or client certificate of this region is refused with status 401: "The token is unknown."`},
		{errors.New("connection refused"), false, "connection refused"},
		{refusal(http.StatusUnprocessableEntity, `{"errors":[{"field":"to","message":"is another"}]}`), true,
			`refused with status 422: "to is another"`},
		{refusal(http.StatusUnprocessableEntity, `{"detail":"See errors for each field.","errors":[`+
			`{"field":"to","message":"is another"},{"field":"prefix","message":"is wrong"}]}`), true,
			`refused with status 422: "to is another; prefix is wrong"`},
		{refusal(http.StatusServiceUnavailable, `{"detail":"The store is away."}`), false,
			`answered with status 503: "The store is away."`},
		{nil, false, ""},
	} {
		p.sent(nil, "http://us", &Answer{At: now.UnixMilli()}, c.err, now, 0, 1)
		if s := p.status(now); s.Refuses != c.refuses || s.Failure != c.text {
			t.Errorf("after %v: refuses %v, %s", c.err, s.Refuses, s.Failure)
		}
	}
}

// The log says once a minute for each region why its messages are refused.
func TestRefused_IsLoggedOnceAMinute(t *testing.T) {
	w := newWorld(t, "eu", "us", "asia")
	defer func() {
		for _, p := range w.places {
			_ = p.store.Close()
		}
	}()
	eu, now, lines := w.places["eu"], time.UnixMilli(1_795_000_000_000), &strings.Builder{}
	eu.opt.Now = func() time.Time { return now }
	eu.opt.Log = slog.New(slog.NewTextHandler(lines, nil))
	for minute := range 2 {
		for _, from := range []string{"us", "asia", "us", "mars", "us", "venus"} {
			eu.Refused(&region.RefusedError{From: from, Field: "prefix", Message: "is wrong"})
		}
		if got := strings.Count(lines.String(), "because=\"prefix is wrong\""); got != 3*(minute+1) {
			t.Errorf("after minute %d there are %d lines:\n%s", minute, got, lines)
		}
		now = now.Add(refusalPause)
	}
}

func TestReceive_RefusesWhatIsNotForIt(t *testing.T) {
	w := newWorld(t, "eu", "us")
	eu := w.places["eu"]
	defer func() {
		for _, p := range w.places {
			_ = p.store.Close()
		}
	}()
	good := region.Head{From: "us", To: "eu", Prefix: "sl:", At: time.Now().UnixMilli()}
	for field, edit := range map[string]func(*region.Head){
		"from":   func(h *region.Head) { h.From = "mars" },
		"from ":  func(h *region.Head) { h.From = "eu" },
		"to":     func(h *region.Head) { h.To = "us" },
		"prefix": func(h *region.Head) { h.Prefix = "x:" },
	} {
		h := good
		edit(&h)
		_, err := eu.Receive(t.Context(), encoded(&h))
		var refused *region.RefusedError
		if !errors.As(err, &refused) || refused.Field != strings.TrimSpace(field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := eu.Receive(t.Context(), []byte("nonsense")); !errors.Is(err, region.ErrMessage) {
		t.Errorf("nonsense: %v", err)
	}
	if p := eu.Overview(); p.Invalid != 5 || p.Peers[0].Refusal == "" || p.Peers[0].RefusedAt.IsZero() {
		t.Errorf("%+v", p)
	}
	for _, why := range []*region.RefusedError{{From: "us", Field: "regions", Message: "are others"}, {From: "mars"}} {
		eu.Refused(fmt.Errorf("shares: %w", why))
	}
	if p := eu.Overview(); p.Invalid != 7 || p.Peers[0].Refusal != "shares: regions are others" {
		t.Errorf("after messages of other kinds: %+v", p)
	}
	for range mostApplying {
		eu.applying <- struct{}{}
	}
	if _, err := eu.Receive(t.Context(), encoded(&good)); !errors.Is(err, region.ErrBusy) {
		t.Errorf("while others are applied: %v", err)
	}
}

// encoded is a message.
func encoded(head *region.Head, buckets ...Bucket) []byte {
	return Encode(&Message{Head: *head, Buckets: buckets})[0]
}
