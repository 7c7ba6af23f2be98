package evaluate

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/alerts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pass lets virtual time pass.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

var errDown = errors.New("the rule database is unavailable")

// desk is a rule database in memory, with a lease by its own clock.
type desk struct {
	mu      sync.Mutex
	down    bool
	holder  string
	until   time.Time
	reports []alerts.Report
	states  map[string]alerts.State
	events  []alerts.Event
	sent    []alerts.Message
	// silences are those that a Board reads.
	silences []alerts.Silence
	// lose makes the next save succeed without an answer.
	lose bool
}

func (d *desk) HoldAlerts(_ context.Context, holder string, length time.Duration) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.down:
		return false, errDown
	case d.holder != holder && time.Now().Before(d.until):
		return false, nil
	}
	d.holder, d.until = holder, time.Now().Add(length)
	return true, nil
}

func (d *desk) ReleaseAlerts(_ context.Context, holder string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return errDown
	}
	if d.holder == holder {
		d.holder, d.until = "", time.Time{}
	}
	return nil
}

func (d *desk) AlertReports(_ context.Context, limit int) ([]alerts.Report, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, errDown
	}
	return slices.Clone(d.reports[:min(limit, len(d.reports))]), nil
}

func (d *desk) AlertStates(context.Context) ([]alerts.State, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, errDown
	}
	out := make([]alerts.State, 0, len(d.states))
	for _, s := range d.states {
		out = append(out, s)
	}
	return out, nil
}

func (d *desk) Silences(context.Context) ([]alerts.Silence, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down {
		return nil, errDown
	}
	return slices.Clone(d.silences), nil
}

func (d *desk) SaveAlerts(_ context.Context, holder string, c *alerts.Changes) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.down:
		return errDown
	case d.holder != holder || !time.Now().Before(d.until):
		return alerts.ErrLeaseLost
	}
	for _, e := range c.Events {
		if !slices.ContainsFunc(d.events, func(o alerts.Event) bool { return o.UID == e.UID }) {
			d.events = append(d.events, e)
		}
	}
	for _, m := range c.Messages {
		if !slices.ContainsFunc(d.sent, func(o alerts.Message) bool { return o.ID == m.ID }) {
			d.sent = append(d.sent, m)
		}
	}
	for _, s := range c.States {
		if d.states[s.Subject] = s; s.Data == nil {
			delete(d.states, s.Subject)
		}
	}
	d.reports = slices.DeleteFunc(d.reports, func(r alerts.Report) bool { return slices.Contains(c.Read, r.ID) })
	if d.lose {
		d.lose = false
		return errDown
	}
	return nil
}

// report stores a report that a key reached a level.
func (d *desk) report(id int64, state, key string) {
	s := Sighting{Subject: usageOf(key), State: state, Node: "n", Seq: id, At: time.Now().UnixMilli(),
		LifeMS: time.Hour.Milliseconds(), Details: used}
	r := s.Report(key)
	r.ID = id
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reports = append(d.reports, r)
}

// is sets whether the database is unavailable.
func (d *desk) is(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// told is how many events and messages there are.
func (d *desk) told() (events, messages int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.events), len(d.sent)
}

// office is a node that evaluates, if it holds the lease.
type office struct {
	*Runner
	postman
	stop func()
}

// postman is a worker that sends nothing.
type postman struct {
	delivers atomic.Bool
	wakes    atomic.Int64
}

// Run is that of the worker.
func (p *postman) Run(ctx context.Context, _ string) {
	p.delivers.Store(true)
	<-ctx.Done()
	p.delivers.Store(false)
}

func (p *postman) Wake() { p.wakes.Add(1) }

func open(d *desk, name string) *office {
	o := &office{}
	w := alerts.NewWebhook()
	w.ID, w.Name = 1, "pager"
	o.Runner = NewRunner(RunnerOptions{Store: d, Holder: name, Lease: 5 * time.Second, Quiet: quiet, Now: time.Now,
		Log: slog.New(slog.DiscardHandler),
		Facts: func(context.Context) (Facts, error) {
			if d.mu.Lock(); d.down {
				d.mu.Unlock()
				return Facts{}, errDown
			}
			d.mu.Unlock()
			return Facts{Webhooks: []alerts.Webhook{w}, Rules: map[string]int64{"charges": 7}}, nil
		},
		Deliver: &o.postman,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o.Runner.Run(ctx)
	}()
	o.stop = func() {
		cancel()
		<-done
	}
	return o
}

// holds reports whether a node evaluates and delivers, and fails the test if it does only one of both.
func (o *office) holds(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	held := o.Stats().Held
	if o.delivers.Load() != held {
		t.Fatalf("evaluates: %t, delivers: %t", held, o.delivers.Load())
	}
	return held
}

func TestRunner_OneNodeEvaluatesAndAnotherTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}}
		a := open(d, "a")
		a.holds(t)
		b := open(d, "b")
		defer b.stop()
		d.report(1, alerts.On, "user:1")
		for range 60 {
			pass(time.Second)
			if !a.holds(t) || b.holds(t) {
				t.Fatal("not node a evaluates")
			}
		}
		if events, messages := d.told(); events != 1 || messages != 1 {
			t.Fatalf("%d events, %d messages", events, messages)
		}
		a.stop() // gives the lease back
		d.report(2, alerts.Off, "user:1")
		pass(3 * time.Second)
		if a.Stats().Held || !b.holds(t) {
			t.Fatal("node b did not take over")
		}
		if a.wakes.Load() != 1 || b.wakes.Load() != 1 {
			t.Errorf("the workers were woken %d and %d times, want once each", a.wakes.Load(), b.wakes.Load())
		}
		if events, messages := d.told(); events != 2 || messages != 2 {
			t.Fatalf("%d events, %d messages after the change", events, messages)
		}
	})
}

func TestRunner_LosesTheLeaseWithTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}}
		a := open(d, "a")
		defer a.stop()
		pass(time.Second)
		if !a.holds(t) {
			t.Fatal("nobody evaluates")
		}
		d.report(1, alerts.On, "user:1")
		d.is(true)
		pass(6 * time.Second)
		if a.holds(t) {
			t.Fatal("evaluates without a lease")
		}
		pass(10 * time.Minute)
		d.is(false)
		pass(3 * time.Second)
		if !a.holds(t) {
			t.Fatal("does not evaluate again")
		}
		if events, messages := d.told(); events != 1 || messages != 1 {
			t.Errorf("%d events, %d messages", events, messages)
		}
	})
}

func TestRunner_ANodeThatWasPausedChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}}
		a := open(d, "a")
		defer a.stop()
		pass(time.Second)
		d.mu.Lock()
		d.holder, d.until = "b", time.Now().Add(time.Minute) // as if node a had not run for long
		d.mu.Unlock()
		d.report(1, alerts.On, "user:1")
		pass(2 * time.Second)
		if a.holds(t) {
			t.Error("evaluates although another node has the lease")
		}
		if events, messages := d.told(); events+messages != 0 {
			t.Errorf("%d events, %d messages", events, messages)
		}
	})
}

func TestRunner_ALostAnswerTellsNothingTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}, lose: true}
		a := open(d, "a")
		defer a.stop()
		d.report(1, alerts.On, "user:1")
		pass(5 * time.Second)
		if events, messages := d.told(); events != 1 || messages != 1 {
			t.Errorf("%d events, %d messages", events, messages)
		}
	})
}

// The database comes back as it was before an alert was told, after an outage or unnoticed: the node that told it does
// not do so again, and stores again what it knows.
func TestRunner_ADatabaseThatCameBackOlder(t *testing.T) {
	for _, outage := range []time.Duration{0, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			d := &desk{states: map[string]alerts.State{}}
			a := open(d, "a")
			defer a.stop()
			for i := range int64(4) {
				d.report(i+1, alerts.On, "user:"+string(rune('a'+i)))
			}
			d.mu.Lock()
			old := slices.Clone(d.reports)
			d.mu.Unlock()
			pass(3 * time.Second)
			if events, messages := d.told(); events != 4 || messages != 4 {
				t.Fatalf("%d events, %d messages", events, messages)
			}
			d.is(outage > 0)
			pass(outage)
			d.mu.Lock()
			d.states, d.events, d.sent, d.reports = map[string]alerts.State{}, nil, nil, old
			d.holder, d.until = "", time.Time{}
			d.mu.Unlock()
			d.is(false)
			pass(2*compareEvery + time.Second)
			if events, messages := d.told(); events != 0 || messages != 0 {
				t.Errorf("%d events and %d messages were told again", events, messages)
			}
			if d.mu.Lock(); len(d.states) < 4 || len(d.reports) != 0 {
				t.Errorf("after an outage of %s: %d states, %d reports", outage, len(d.states), len(d.reports))
			}
			d.mu.Unlock()
		})
	}
}

func TestBoard_KeepsWhatItKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}}
		a := open(d, "a")
		defer a.stop()
		b := NewBoard(d, time.Now, nil)
		if b.Active() != nil || !b.Since().IsZero() || b.ActiveOf(alerts.KindKeyUsage) != 0 {
			t.Error("knows something before it has read")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		defer running.Wait()
		defer cancel()
		d.report(1, alerts.On, "user:1")
		pass(time.Second)
		d.report(2, alerts.On, "user:2")
		pass(5 * time.Second)
		active := b.Active()
		if len(active) != 2 || active[0].Subject.Key != "user:2" || active[0].State != alerts.On {
			t.Fatalf("on is %+v", active)
		}
		d.is(true)
		since := b.Since()
		pass(time.Minute)
		if len(b.Active()) != 2 || time.Since(b.Since()) < 50*time.Second || b.ActiveOf(alerts.KindKeyUsage) != 2 {
			t.Errorf("during the outage: %d since %s, before since %s", len(b.Active()), b.Since(), since)
		}
	})
}
