package home

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/rules"
	"sluice/rules/match"
)

// onMemory makes regions over memory.
func onMemory(t *testing.T, names ...string) map[string]*place {
	t.Helper()
	stores := map[string]limiter.Store{}
	for _, name := range names {
		m := memstore.New(memstore.Options{})
		t.Cleanup(func() { _ = m.Close() })
		stores[name] = m
	}
	return world(t, 2*time.Second, stores)
}

var names = []string{"eu", "us", "asia"}

// at returns a key that is at home in a region of all three, the i-th or a later one.
func at(region string, i int) limiter.Key {
	for ; ; i++ {
		if Of(keyOf(i), names) == region {
			return keyOf(i)
		}
	}
}

// inUS is a key that is at home in us, also without asia.
var inUS = at("us", 0)

// ask is one of a fixed window of a day.
func ask(key limiter.Key, count, weight int64) limiter.Ask {
	return limiter.Ask{Key: key, Weight: weight,
		Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: count, Window: 86_400_000}}
}

// do runs one request in a region.
func (p *place) do(t *testing.T, op limiter.Op, id string, asks ...limiter.Ask) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := p.Do(t.Context(), &limiter.Request{Op: op, ID: id, Asks: asks}, &res); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	return res
}

// left is what remains of a key at its home.
func left(t *testing.T, w map[string]*place, a limiter.Ask) int64 {
	t.Helper()
	var res limiter.Result
	a.Weight = 0
	home := w[Of(a.Key, slices.Collect(maps.Keys(w)))].inner
	err := home.Do(t.Context(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{a}}, &res)
	if err != nil {
		t.Fatal(err)
	}
	return res.Limits[0].Remaining
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		select {
		case <-t.Context().Done():
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Fatalf("not in time: %s", what)
}

// A request with limits of three homes is all or nothing, whichever of them denies.
func TestStore_LimitsOfSeveralHomesAreAllOrNothing(t *testing.T) {
	w := onMemory(t, names...)
	for i, denies := range append(names, "") {
		var asks []limiter.Ask
		for _, name := range names {
			count := int64(10)
			if name == denies {
				count = 1
			}
			asks = append(asks, ask(at(name, 1000*(i+1)), count, 2))
		}
		for _, id := range []string{"", "x"} {
			res := w["eu"].do(t, limiter.OpTake, id, asks...)
			if res.Allowed != (denies == "") || len(res.Limits) != 3 {
				t.Fatalf("%q denies, id %q: %+v", denies, id, res)
			}
			for k, name := range names {
				if got := res.Limits[k].Allowed; got != (name != denies) {
					t.Errorf("%q denies: the limit at home in %s says %v", denies, name, got)
				}
			}
			if denies == "" {
				break
			}
			for _, a := range asks {
				eventually(t, "nothing is charged", func() bool { return left(t, w, a) == a.Limit.Count })
			}
		}
		if denies != "" {
			continue
		}
		for _, a := range asks {
			if got := left(t, w, a); got != 8 {
				t.Errorf("%d left of 10 after 2", got)
			}
		}
	}
}

// A request can be repeated, refunded and settled by its id in any region.
func TestStore_ARequestIsKnownByItsIDEverywhere(t *testing.T) {
	w := onMemory(t, names...)
	asks := []limiter.Ask{ask(at("eu", 0), 10, 3), ask(at("us", 0), 10, 3)}
	total := func() int64 { return left(t, w, asks[0]) + left(t, w, asks[1]) }
	first := w["eu"].do(t, limiter.OpTake, "one", asks...)
	again := w["eu"].do(t, limiter.OpTake, "one", asks...)
	if first.Replayed || !again.Replayed || !again.Allowed || total() != 14 {
		t.Errorf("first %+v, again %+v, %d left", first, again, total())
	}
	asks[0].Weight, asks[1].Weight = 1, 1
	if res := w["us"].do(t, limiter.OpSettle, "one", asks...); !res.Allowed || total() != 18 {
		t.Errorf("settled to 1: %+v, %d left", res, total())
	}
	if res := w["asia"].do(t, limiter.OpRefund, "one", asks...); total() != 20 || res.Limits[1].Refunded != 1 {
		t.Errorf("refunded: %+v, %d left", res, total())
	}
	w["asia"].do(t, limiter.OpCharge, "", asks...)
	if total() != 18 {
		t.Errorf("%d left after a charge of 1 at two homes", total())
	}
	if w["us"].do(t, limiter.OpReset, "", asks...); total() != 20 {
		t.Errorf("%d left after a reset", total())
	}
}

// Without the home there is a store's error, nothing stays charged elsewhere, and nothing is sent while it is cut off.
func TestStore_AHomeThatDoesNotAnswerIsAStoreError(t *testing.T) {
	w := onMemory(t, names...)
	eu := w["eu"]
	here, there := ask(at("eu", 0), 10, 1), ask(at("us", 0), 10, 1)
	mixed := limiter.Request{Asks: []limiter.Ask{here, there}}
	w["us"].server.Close()
	var res limiter.Result
	var se *limiter.StoreError
	if err := eu.Do(t.Context(), &mixed, &res); !errors.As(err, &se) || se.Unknown || se.Cause != limiter.CauseHome {
		t.Errorf("no connection: %v", err)
	}
	if eu.count(ReasonConnection) != 1 || left(t, w, here) != 10 {
		t.Errorf("%v, %d left here", eu.reasons, left(t, w, here))
	}
	if c := eu.Calls("us"); c.Failed != 1 || c.Failing != ReasonConnection || c.Since.IsZero() {
		t.Errorf("%+v", c)
	}
	eu.mu.Lock()
	eu.cut["us"] = true
	eu.mu.Unlock()
	for range 3 { // the first tries nevertheless
		if err := eu.Do(t.Context(), &mixed, &res); !errors.As(err, &se) || se.Unknown {
			t.Errorf("cut off: %v", err)
		}
	}
	if eu.count(ReasonCutOff) != 2 || left(t, w, here) != 10 {
		t.Errorf("%v, %d left here", eu.reasons, left(t, w, here))
	}
	if eu.do(t, limiter.OpTake, "", here); left(t, w, here) != 9 {
		t.Error("a limit that is at home here is not decided")
	}
	denied := limiter.Request{Asks: []limiter.Ask{ask(here.Key, 10, 10), there}}
	if err := eu.Do(t.Context(), &denied, &res); err != nil || res.Allowed || len(res.Limits) != 2 {
		t.Errorf("denied here, unknown there: %v %+v", err, res)
	}
}

// A region that is not heard of, but answers, decides.
func TestStore_NewsThatIsLateStopsNothing(t *testing.T) {
	w := onMemory(t, "eu", "us")
	eu, there := w["eu"], ask(inUS, 1000, 1)
	eu.mu.Lock()
	eu.cut["us"] = true
	eu.mu.Unlock()
	for range 50 {
		eu.do(t, limiter.OpTake, "", there)
	}
	if eu.count("") != 50 {
		t.Errorf("%v", eu.reasons)
	}
}

// slow answers only when it is let go.
type slow struct {
	limiter.Store

	release chan struct{}
	came    chan struct{}
}

func (s *slow) DoAll(ctx context.Context, calls []limiter.Call) {
	if calls[0].Request.Op == limiter.OpTake {
		s.came <- struct{}{}
		<-s.release
		ctx = context.WithoutCancel(ctx) // it was applied, and the answer is late
	}
	s.Store.DoAll(ctx, calls)
}

// A caller that leaves is no failure of the home region.
func TestStore_ACallerThatLeavesIsCountedAsSuch(t *testing.T) {
	m, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	defer func() { _, _ = m.Close(), other.Close() }()
	frozen := &slow{Store: m, release: make(chan struct{}), came: make(chan struct{}, 10)}
	w := world(t, time.Minute, map[string]limiter.Store{"eu": other, "us": frozen})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-frozen.came
		leave()
	}()
	var res limiter.Result
	err := w["eu"].Do(ctx, &limiter.Request{ID: "x", Asks: []limiter.Ask{ask(inUS, 10, 1)}}, &res)
	close(frozen.release)
	if limiter.CauseOf(err) != limiter.CauseCanceled || w["eu"].count(ReasonLeft) != 1 ||
		w["eu"].count(ReasonTimeout) != 0 {
		t.Errorf("%v, %v", err, w["eu"].reasons)
	}
}

// A take whose answer is lost is given back, unless the caller knows its id and may repeat it.
func TestStore_ATakeWhoseAnswerIsLostIsGivenBack(t *testing.T) {
	m, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	defer func() { _, _ = m.Close(), other.Close() }()
	frozen := &slow{Store: m, release: make(chan struct{}), came: make(chan struct{}, 10)}
	w := world(t, 100*time.Millisecond, map[string]limiter.Store{"eu": other, "us": frozen})
	there := ask(inUS, 10, 1)
	remaining := func() int64 {
		var res limiter.Result
		look := there
		look.Weight = 0
		_ = m.Do(t.Context(), &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{look}}, &res)
		return res.Limits[0].Remaining
	}
	for _, id := range []string{"known", ""} {
		var res limiter.Result
		var se *limiter.StoreError
		err := w["eu"].Do(t.Context(), &limiter.Request{ID: id, Asks: []limiter.Ask{there}}, &res)
		if !errors.As(err, &se) || !se.Unknown || se.Cause != limiter.CauseHome {
			t.Fatalf("id %q: %v", id, err)
		}
		<-frozen.came
	}
	if w["eu"].Stats().Pending != 1 {
		t.Errorf("%+v: only the take without an id is to be given back", w["eu"].Stats())
	}
	close(frozen.release)
	eventually(t, "both have arrived and one is given back", func() bool {
		return w["eu"].Stats().Undone == 1 && remaining() == 9
	})
}

// timed is a store that keeps the deadline of its last call.
type timed struct {
	limiter.Store

	until time.Time
}

func (s *timed) DoAll(ctx context.Context, calls []limiter.Call) {
	s.until, _ = ctx.Deadline()
	s.Store.DoAll(ctx, calls)
}

// A sender that has hardly any time left must not make the store of this region look as if it failed, and it does
// not work for a sender that has stopped waiting.
func TestReceiver_TheStoreHasTimeWhateverTheSenderHas(t *testing.T) {
	here, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	defer func() { _, _ = here.Close(), other.Close() }()
	m := &timed{Store: here}
	w := world(t, time.Second, map[string]limiter.Store{"eu": other, "us": m})
	for _, wait := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 10 * time.Second} {
		start := time.Now()
		head := headOf("eu", "us", "sl:")
		head.At = start.UnixMilli()
		body := appendCall(appendStart(head, wait, 1),
			&limiter.Request{Asks: []limiter.Ask{ask(inUS, 10, 1)}})
		if _, err := w["us"].receiver.Receive(t.Context(), body); err != nil {
			t.Fatal(err)
		}
		if got := m.until.Sub(start); got < leastTime {
			t.Errorf("a sender that waits %s leaves the store %s", wait, got)
		}
		if latest := time.Now().Add(max(wait, leastTime)); m.until.After(latest) {
			t.Errorf("a sender that waits %s is worked for until %s after that", wait, m.until.Sub(latest))
		}
	}
}

// measured remembers until when each call of a store may last, and the most limits of one.
type measured struct {
	*memstore.Store
	until []time.Time
	most  int
}

func (s *measured) DoAll(ctx context.Context, calls []limiter.Call) {
	asks := 0
	for i := range calls {
		asks += len(calls[i].Request.Asks)
	}
	until, _ := ctx.Deadline()
	s.until, s.most = append(s.until, until), max(s.most, asks)
	s.Store.DoAll(ctx, calls)
}

// The largest message must not make one long call of the store, and its later calls have as much time as the first.
func TestReceiver_DecidesALargeMessageSomeAtATime(t *testing.T) {
	here, other := memstore.New(memstore.Options{}), memstore.New(memstore.Options{})
	defer func() { _, _ = here.Close(), other.Close() }()
	m := &measured{Store: here}
	w := world(t, time.Second, map[string]limiter.Store{"eu": other, "us": m})
	head := headOf("eu", "us", "sl:")
	head.At = time.Now().UnixMilli()
	body := appendStart(head, 10*time.Second, maxCalls)
	var asks []int
	for i := range maxCalls {
		req := &limiter.Request{Op: limiter.OpPeek}
		for k := range 8 {
			req.Asks = append(req.Asks, ask(keyOf(8*i+k), 10, 0))
		}
		body, asks = appendCall(body, req), append(asks, len(req.Asks))
	}
	answer, err := w["us"].receiver.Receive(t.Context(), body)
	calls := make([]limiter.Call, maxCalls)
	if err != nil || !decodeAnswers(answer, asks, calls) {
		t.Fatalf("%v, %d bytes of answers", err, len(answer))
	}
	for i := range calls {
		if calls[i].Err != nil {
			t.Fatalf("call %d: %v", i, calls[i].Err)
		}
	}
	if m.most > maxAtOnce {
		t.Errorf("%d calls of the store, of up to %d limits, want at most %d", len(m.until), m.most, maxAtOnce)
	}
	if first, last := m.until[0], m.until[len(m.until)-1]; !last.After(first) {
		t.Errorf("the last call may last until %v, the first until %v", last, first)
	}
}

// A message of a region with other rules changes nothing.
func TestReceiver_RefusesWhatIsNotAtHome(t *testing.T) {
	m := memstore.New(memstore.Options{})
	defer func() { _ = m.Close() }()
	sets := &match.Current{}
	var rs []rules.Rule
	for i, span := range []string{rules.SpanGlobalExact, rules.SpanRegion} {
		rs = append(rs, rules.Rule{ID: int64(i + 1), Name: span, Scope: "user", Limit: 10, WindowMS: 86_400_000,
			Algorithm: "fixed_window", Span: span, IsActive: true})
	}
	set, err := match.Compile(rs, 1, match.Options{Regions: 2})
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReceiver(ReceiverOptions{Self: "us", Others: []string{"eu"}, Prefix: "sl:", Store: m, Sets: sets,
		Timeout: time.Second, Now: func() time.Time { return time.UnixMilli(headOf("", "", "").At) }})
	if err != nil {
		t.Fatal(err)
	}
	log := limiter.Limit{Algorithm: limiter.SlidingWindowLog, Count: 10, Window: 86_400_000}
	good := ask("{user:ada}|1|fw", 10, 1)
	for name, c := range map[string]struct {
		ask  limiter.Ask
		want bool
	}{
		"good": {good, true}, "unknown rule": {ask("{user:ada}|3|fw", 10, 1), false},
		"another span": {ask("{user:ada}|2|fw", 10, 1), false}, "another kind": {ask("{user:ada}|1|sl", 10, 1), false},
		"another algorithm": {limiter.Ask{Key: good.Key, Limit: log, Weight: 1}, false},
		"its candidate":     {ask("{user:ada}|1.c|fw", 10, 1), false}, "a pool": {ask("{pool:x}", 10, 1), false},
		"a ban without one": {limiter.Ask{Key: limiter.BanKey(good.Key), Limit: limiter.BanLimit(1, 1, 1, 1, 1)}, false},
	} {
		for _, loaded := range []bool{true, false} {
			if sets.Store(nil); loaded {
				sets.Store(set)
			}
			body := appendCall(appendStart(headOf("eu", "us", "sl:"), time.Second, 1),
				&limiter.Request{Asks: []limiter.Ask{c.ask}})
			answer, err := r.Receive(t.Context(), body)
			calls := make([]limiter.Call, 1)
			if err != nil || !decodeAnswers(answer, []int{1}, calls) {
				t.Fatalf("%s: %v %x", name, err, answer)
			}
			if got := calls[0].Err == nil; got != (c.want && loaded) {
				t.Errorf("%s, rules loaded %v: %v", name, loaded, calls[0].Err)
			}
		}
	}
	if m.Keys() != 1 {
		t.Errorf("%d buckets, want that of the good one", m.Keys())
	}
	for name, h := range map[string][3]string{"itself": {"us", "us", "sl:"}, "an unknown one": {"asia", "us", "sl:"},
		"for another": {"eu", "asia", "sl:"}, "another prefix": {"eu", "us", "x:"}} {
		body := appendCall(appendStart(headOf(h[0], h[1], h[2]), time.Second, 1),
			&limiter.Request{Asks: []limiter.Ask{good}})
		if _, err := r.Receive(t.Context(), body); err == nil {
			t.Errorf("a message of %s is taken", name)
		}
	}
	for age, taken := range map[time.Duration]bool{maxAge: true, maxAge + time.Millisecond: false, -maxAge: true,
		-maxAge - time.Minute: false} {
		head := headOf("eu", "us", "sl:")
		head.At -= age.Milliseconds()
		_, err := r.Receive(t.Context(), appendCall(appendStart(head, time.Second, 1),
			&limiter.Request{Asks: []limiter.Ask{ask("{user:ada}|3|fw", 10, 1)}}))
		if (err == nil) != taken {
			t.Errorf("a message that is %v old: %v", age, err)
		}
	}
	if a := r.Answered(); a.Decided != 1 || a.Foreign != 17 || a.Invalid != 6 || a.Failed != 0 {
		t.Errorf("%+v", a)
	}
}

// A problem document of Sluice says whether the calls may have been carried out. The status of a proxy does not.
func TestStore_AStatusSaysWhatMayHaveHappened(t *testing.T) {
	type want struct {
		reason  string
		unknown bool
	}
	for status, own := range map[int]want{
		http.StatusForbidden: {ReasonRefused, false}, http.StatusServiceUnavailable: {ReasonBusy, false},
		http.StatusUnprocessableEntity: {ReasonRefused, false}, http.StatusInternalServerError: {ReasonAnswer, true},
		http.StatusOK: {ReasonAnswer, true}, // its body is not an answer
	} {
		for body, want := range map[string]want{`{"type":"/problems/a"}`: own, `{"type":"about:blank"}`: {ReasonAnswer, true},
			"<p>no": {ReasonAnswer, true}, "": {ReasonAnswer, true}} {
			w := onMemory(t, "eu", "us")
			w["us"].server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				if body != "" {
					rw.Header().Set("Content-Type", "application/problem+json")
				}
				rw.WriteHeader(status)
				_, _ = io.WriteString(rw, cmp.Or(body, `{"type":"/problems/a"}`))
			})
			var res limiter.Result
			var se *limiter.StoreError
			err := w["eu"].Do(t.Context(), &limiter.Request{ID: "x", Asks: []limiter.Ask{ask(inUS, 1, 1)}}, &res)
			if !errors.As(err, &se) || se.Cause != limiter.CauseHome || se.Unknown != want.unknown ||
				w["eu"].count(want.reason) != 1 {
				t.Errorf("%d %s: %v, %v", status, body, err, w["eu"].reasons)
			}
		}
	}
}
