package sense

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/limiter"
	"sluice/rules"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pass lets virtual time pass.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

// shelf is a store of reports.
type shelf struct {
	mu   sync.Mutex
	err  error
	uids map[string]bool
	got  []evaluate.Sighting
}

func (s *shelf) AddAlertReports(_ context.Context, reports []alerts.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reports {
		if s.err != nil && s.uids[reports[i].UID] {
			return s.err
		}
		if s.uids[reports[i].UID] {
			continue // stored by a call whose answer was lost
		}
		s.uids[reports[i].UID] = true
		var one evaluate.Sighting
		if err := json.Unmarshal(reports[i].Data, &one); err != nil {
			return err
		}
		s.got = append(s.got, one)
	}
	return s.err
}

// told is what was reported since the last call, in words.
func (s *shelf) told() (out []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.got {
		sub := r.Subject
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", sub.Kind, sub.Key, sub.Level, r.State)))
	}
	s.got = nil
	return out
}

type fixture struct {
	*Sensor
	shelf *shelf
	met   []Condition
}

func newFixture() *fixture {
	f := &fixture{shelf: &shelf{uids: map[string]bool{}}}
	f.Sensor = New(Options{Store: f.shelf, Node: "n1", Address: func() string { return "10.0.0.1:8080" },
		Conditions: func() []Condition { return f.met },
		Cause:      func(c limiter.Cause) string { return "because of " + string(c) },
		Now:        time.Now})
	return f
}

// decision is one of a limit of 100 a minute of which so much is used, with some levels.
func decision(user string, used int64, levels ...int64) *decide.Decision {
	a := &decide.Answer{Op: limiter.OpTake}
	allowed := used <= 100
	if !allowed {
		a.Verdict = decide.Denied
	}
	a.Limits = []decide.LimitAnswer{{Rule: "charges", Known: true, Notify: levels, Weight: 1,
		Key: limiter.Key("{user:" + user + "}|7|sc"), Limit: limiter.Limit{Count: 100, Window: 60_000},
		Decision: limiter.Decision{Allowed: allowed, Limit: 100, Remaining: max(0, 100-used), Used: min(used, 100)}}}
	return &decide.Decision{Answer: a}
}

func (f *fixture) use(user string, used int64) { f.ObserveDecision(decision(user, used, 80, 100)) }

func (f *fixture) expect(t *testing.T, want ...string) {
	t.Helper()
	f.Tick(t.Context())
	if got := f.shelf.told(); !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}

// A user such as token:sk_live_… is no credential as a whole, but has one in it.
func TestUsage_TheKeyHasNoCredentialWithinIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.use("token%3Ask_live_4eC39HqLyjWDarjtT1zdp7dc", 80)
		f.use("token:sk_live_4eC39HqLyjWDarjtT1zdp7dd", 80)
		f.Tick(t.Context())
		told := f.shelf.told()
		if len(told) != 2 || told[0] == told[1] || strings.Contains(strings.Join(told, " "), "sk_live_") {
			t.Errorf("reported %q", told)
		}
	})
}

// The figures of a level that lasts are those of now: it is reported again after its use changed, but few at once.
func TestUsage_ReportsChangedUseAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		for i := range mostMoved + 3 {
			f.use(fmt.Sprint(i), 80)
		}
		f.Tick(t.Context())
		f.shelf.told()
		pass(moved)
		f.expect(t)
		for i := range mostMoved + 3 {
			f.use(fmt.Sprint(i), 97)
		}
		for _, want := range []int{mostMoved, 3, 0} {
			f.Tick(t.Context())
			for _, s := range f.shelf.got {
				if s.Numbers["used"] != 97 || s.State != alerts.On {
					t.Errorf("reported %+v", s)
				}
			}
			if got := len(f.shelf.told()); got != want {
				t.Errorf("%d are reported at once, want %d", got, want)
			}
		}
	})
}

func TestUsage_ReportsEachLevelOnceUntilItIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.use("42", 79)
		f.expect(t)
		f.use("42", 80)
		f.expect(t, "key_usage user:42 80 on")
		for _, used := range []int64{81, 85, 79, 72, 99, 80} { // 72 is not clearly below 80
			f.use("42", used)
		}
		f.expect(t)
		f.use("42", 100)
		f.use("42", 101) // denied
		f.expect(t, "key_usage user:42 100 on")
		f.use("42", 89)
		f.expect(t, "key_usage user:42 100 off")
		f.use("42", 71)
		f.expect(t, "key_usage user:42 80 off")
		f.use("42", 101) // denied, at once
		f.expect(t, "key_usage user:42 80 on", "key_usage user:42 100 on")
		if n := f.usage.keys.Load(); n != 1 {
			t.Errorf("%d keys are known", n)
		}
	})
}

// corrected is what an operation that corrects a charge says.
func (f *fixture) corrected(op limiter.Op, used int64) {
	d := decision("42", min(used, 100), 80, 100)
	d.Answer.Op, d.Answer.Limits[0].Decision.Used = op, used
	d.Answer.Limits[0].Decision.Allowed = used <= 100
	f.ObserveDecision(d)
}

func TestUsage_FollowsWhatSettlementsAndRefundsLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.use("42", 85) // an estimate
		f.expect(t, "key_usage user:42 80 on")
		f.corrected(limiter.OpSettle, 30)
		f.expect(t, "key_usage user:42 80 off")
		f.corrected(limiter.OpSettle, 125)
		f.Tick(t.Context())
		if got := f.shelf.got; len(got) != 2 || got[1].Numbers["used"] != 125 || got[1].Numbers["limit"] != 100 {
			t.Errorf("reported %+v", got)
		}
		if got := f.shelf.told(); !slices.Equal(got, []string{"key_usage user:42 80 on", "key_usage user:42 100 on"}) {
			t.Errorf("reported %q", got)
		}
		f.corrected(limiter.OpRefund, 85)
		f.expect(t, "key_usage user:42 100 off")
		f.corrected(limiter.OpReset, 0)
		f.expect(t, "key_usage user:42 80 off")
	})
}

// A denied estimate uses nothing.
func TestUsage_OfADenialIsWhatIsUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		d := decision("42", 30, 80, 100)
		d.Answer.Verdict, d.Answer.Limits[0].Weight = decide.Denied, 90
		d.Answer.Limits[0].Decision.Allowed = false
		f.ObserveDecision(d)
		f.expect(t)
	})
}

func TestUsage_AFloodIsReportedOnceAndAgainAfterAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		var got []string
		for range 299 { // five minutes, but for a second
			for range 200 {
				f.use("42", 101)
			}
			f.Tick(t.Context())
			got = append(got, f.shelf.told()...)
			pass(time.Second)
		}
		if want := []string{"key_usage user:42 80 on", "key_usage user:42 100 on"}; !slices.Equal(got, want) {
			t.Fatalf("reported %q, want %q", got, want)
		}
		f.use("42", 101)
		pass(2 * time.Second)
		f.expect(t, "key_usage user:42 80 on", "key_usage user:42 100 on") // it lasts
		pass(59 * time.Second)
		f.expect(t, "key_usage user:42 80 off", "key_usage user:42 100 off") // no request for a window
		if n := f.usage.keys.Load(); n != 0 {
			t.Errorf("%d keys are known", n)
		}
	})
}

func TestUsage_IgnoresWhatNobodyAskedForOrKnows(t *testing.T) {
	f := newFixture()
	for name, edit := range map[string]func(*decide.Decision){
		"no levels":     func(d *decide.Decision) { d.Answer.Limits[0].Notify = nil },
		"shadow":        func(d *decide.Decision) { d.Answer.Limits[0].Shadow = true },
		"replayed":      func(d *decide.Decision) { d.Answer.Replayed = true },
		"unknown":       func(d *decide.Decision) { d.Answer.Limits[0].Known = false },
		"by local":      func(d *decide.Decision) { d.Answer.Limits[0].Degraded = rules.FailLocal },
		"no capacity":   func(d *decide.Decision) { d.Answer.Limits[0].Decision.Limit = 0 },
		"another op":    func(d *decide.Decision) { d.Answer.Op = limiter.OpPeek },
		"a lower level": func(d *decide.Decision) { d.Answer.Limits[0].Decision.Used = 79 },
	} {
		d := decision("42", 100, 80)
		edit(d)
		f.ObserveDecision(d)
		f.Tick(t.Context())
		if got := f.shelf.told(); got != nil {
			t.Errorf("%s: reported %q", name, got)
		}
	}
}

func TestUsage_LargestLimitsDoNotOverflow(t *testing.T) {
	const most = limiter.MaxExact
	if !rules.Reached(most, most, 100) || rules.Reached(most-1, most, 100) ||
		left(most, most, 100) || !left(most*8/10, most, 100) {
		t.Error("levels of the largest limit are wrong")
	}
}

func TestUsage_BoundsTheKeys(t *testing.T) {
	f := newFixture()
	for i := range maxKeys + 25 {
		f.ObserveDecision(decision(fmt.Sprint(i), 80, 80))
		if i%500 == 0 {
			f.Tick(t.Context())
		}
	}
	f.Tick(t.Context())
	of, waiting := f.Counts()
	if n := of["key_usage"]; n.Stored != maxKeys || n.Dropped != 25 || waiting != 0 {
		t.Errorf("%+v, %d wait", n, waiting)
	}
}

func TestSensor_WhatCannotBeStoredWaitsAndIsStoredOnce(t *testing.T) {
	f := newFixture()
	f.use("1", 80)
	f.shelf.err = errors.New("the answer was lost") // but the report was stored
	f.Tick(t.Context())
	for i := range maxWaiting + 9 {
		f.ObserveDecision(decision(fmt.Sprint("later", i), 80, 80))
	}
	f.Tick(t.Context())
	if of, waiting := f.Counts(); waiting != maxWaiting || of["key_usage"].Dropped != 10 || of["key_usage"].Stored != 0 {
		t.Fatalf("%+v, %d wait", of, waiting)
	}
	f.shelf.err = nil
	f.Tick(t.Context())
	if of, waiting := f.Counts(); waiting != 0 || of["key_usage"].Stored != maxWaiting {
		t.Fatalf("%+v, %d wait", of, waiting)
	}
	if got := f.shelf.told(); len(got) != maxWaiting || got[0] != "key_usage user:1 80 on" {
		t.Errorf("%d reports, the first %q", len(got), got[0])
	}
}

func TestConditions_BeginLastAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		refused := Condition{Subject: alerts.Subject{Kind: alerts.KindSetRefused}, Linger: 10 * time.Second}
		f.met = []Condition{refused}
		f.expect(t, "set_refused   on")
		for range 59 {
			pass(time.Second)
			f.expect(t)
		}
		pass(time.Second)
		f.expect(t, "set_refused   on")
		f.met = nil
		for range 9 {
			pass(time.Second)
			f.expect(t)
		}
		pass(time.Second)
		f.expect(t, "set_refused   off")
		pass(time.Hour)
		f.expect(t)
	})
}

// What fail modes decide because the node lacks CPU says nothing about the counter store.
func TestFailModes_OfALateNodeAreNoAlert(t *testing.T) {
	f := newFixture()
	for range 3 * failMany {
		f.ObserveDegraded(decide.Degraded{FailMode: rules.FailOpen, Cause: limiter.CauseStarved})
		f.ObserveDecision(&decide.Decision{Answer: &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed,
			Degraded: rules.FailOpen, Cause: limiter.CauseStarved}})
	}
	f.expect(t)
	if f.fails.cause.Load() != nil {
		t.Error("the cause of the next alert would be that of a late node")
	}
}

func TestFailModes_ManyOrLongAndNotOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		second := func(n int) {
			for range n {
				f.ObserveDegraded(decide.Degraded{FailMode: rules.FailOpen, Cause: limiter.CauseTimeout})
				f.ObserveDegraded(decide.Degraded{FailMode: rules.FailOpen, Cause: limiter.CauseBreaker})
				f.ObserveDecision(&decide.Decision{Answer: &decide.Answer{Op: limiter.OpTake, Degraded: rules.FailOpen}})
			}
			f.Tick(t.Context())
			pass(time.Second)
		}
		second(0)
		second(1)
		second(8)
		if got := f.shelf.told(); got != nil {
			t.Fatalf("a slow moment: reported %q", got)
		}
		for range 20 {
			second(0)
		}
		second(10)
		f.shelf.mu.Lock()
		if got := f.shelf.got; len(got) != 1 || got[0].Cause != "because of timeout" || got[0].Numbers["open"] != 10 {
			t.Fatalf("reported %+v", got)
		}
		f.shelf.mu.Unlock()
		f.shelf.told()
		for range 30 {
			second(0)
		}
		if got := f.shelf.told(); !slices.Equal(got, []string{"failmode_engaged   off"}) {
			t.Fatalf("reported %q", got)
		}
		second(1)
		second(1)
		second(1)
		if got := f.shelf.told(); !slices.Equal(got, []string{"failmode_engaged   on"}) {
			t.Fatalf("one request a second: reported %q", got)
		}
	})
}

func TestRun_SaysWhatIsOverBeforeItStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		f.met = []Condition{{Subject: alerts.Subject{Kind: alerts.KindSetOld}}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.Run(ctx)
		}()
		f.use("42", 85)
		pass(1500 * time.Millisecond)
		if got := f.shelf.told(); len(got) != 2 {
			t.Fatalf("reported %q", got)
		}
		cancel()
		<-done
		if got := f.shelf.got; len(got) != 2 || got[0].State != alerts.Off || got[1].State != alerts.On ||
			got[1].LifeMS != 58_500 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// On the path of every check, what nobody asked for costs nothing.
func TestObserve_AllocatesNothing(t *testing.T) {
	for name, d := range map[string]*decide.Decision{"without levels": decision("42", 50),
		"below": decision("42", 50, 80, 100), "above": decision("42", 90, 80, 100)} {
		f := newFixture()
		f.ObserveDecision(d) // reports that it is above
		if n := testing.AllocsPerRun(100, func() { f.ObserveDecision(d) }); n != 0 {
			t.Errorf("%s: %g allocations", name, n)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	for name, d := range map[string]*decide.Decision{"without_levels": decision("42", 50),
		"below": decision("42", 50, 80, 100), "above": decision("42", 90, 80, 100)} {
		b.Run(name, func(b *testing.B) {
			f := newFixture()
			b.ReportAllocs()
			for b.Loop() {
				f.ObserveDecision(d)
			}
		})
	}
}
