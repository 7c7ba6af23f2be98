package evaluate

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/alerts"
)

// silence is a silence of the alerts about the use of a key of the rule charges, until a while after noon.
func silence(key string, after time.Duration) alerts.Silence {
	return alerts.Silence{Kind: string(alerts.KindKeyUsage), Rule: "charges", Key: key, Reason: "tests",
		EndsAt: new(noon.Add(after))}
}

// acknowledge acknowledges an alert until a while after noon.
func acknowledge(uid string, after time.Duration) alerts.Silence {
	return alerts.Silence{Acknowledges: uid, Kind: string(alerts.KindKeyUsage), Reason: "seen",
		EndsAt: new(noon.Add(after))}
}

// says are the state of each message.
func says(t *testing.T, r *Result) (out []string) {
	t.Helper()
	for i := range r.Changes.Messages {
		out = append(out, body(t, &r.Changes.Messages[i]).Data.State)
	}
	return out
}

// step reports a state of a key, evaluates after a while, and compares the states of messages with want.
func (tb *table) step(t *testing.T, state, key string, after time.Duration, want ...string) Result {
	t.Helper()
	if state != "" {
		tb.report("a", state, usageOf(key), used)
	}
	r := tb.evaluate(after)
	if got := says(t, &r); !slices.Equal(got, want) {
		t.Fatalf("%s %s at %s: sent %q, want %q", key, state, tb.facts.Now.Sub(noon), got, want)
	}
	return r
}

func TestSilence_OnlyTheEndIsSent(t *testing.T) {
	tb := newTable(t)
	tb.facts.Silences = []alerts.Silence{silence("user:1", time.Hour)}
	r := tb.step(t, alerts.On, "user:1", time.Second)
	if len(r.Changes.Events) != 1 || !r.Changes.Events[0].Silenced {
		t.Errorf("the history has %+v, want one that was silenced", r.Changes.Events)
	}
	tb.step(t, alerts.On, "user:2", time.Second, alerts.On) // another key
	tb.restart()
	tb.step(t, "", "", 10*time.Minute)
	r = tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	if r.Changes.Events[0].Silenced {
		t.Error("the end counts as silenced")
	}
}

// A condition that outlasts its silence is sent at the end of the silence, once, with its text of then.
func TestSilence_EndsWhileTheAlertIsActive(t *testing.T) {
	tb := newTable(t)
	tb.facts.Silences = []alerts.Silence{silence("", 10*time.Minute)}
	first := tb.step(t, alerts.On, "user:1", time.Second)
	tb.step(t, "", "", 9*time.Minute)
	tb.restart()
	r := tb.step(t, "", "", time.Minute, alerts.On) // the silence ended a second ago
	if got, want := r.Changes.Events[0].UID, first.Changes.Events[0].UID; got != want || r.Changes.Events[0].Silenced {
		t.Errorf("told as %s, want as %s: it is the same alert", got, want)
	}
	if since := body(t, &r.Changes.Messages[0]).Data.Since; !since.Equal(noon) {
		t.Errorf("on since %s, want %s", since, noon)
	}
	tb.step(t, "", "", time.Second)
	tb.step(t, "", "", quiet)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
}

// While an alert is silenced its history grows no faster than otherwise. What nobody received makes nobody wait: the
// next beginning after the silence is sent at once.
func TestSilence_DoesNotBeginAQuietTimeForLater(t *testing.T) {
	tb := newTable(t)
	tb.facts.Silences = []alerts.Silence{silence("", 5*time.Minute)}
	tb.step(t, alerts.On, "user:1", time.Second)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	if r := tb.step(t, alerts.On, "user:1", time.Second); len(r.Changes.Events) > 0 {
		t.Errorf("in the quiet time of the silence: %+v", r.Changes.Events)
	}
	tb.step(t, alerts.Off, "user:1", time.Second)
	tb.step(t, "", "", 5*time.Minute)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	tb.step(t, alerts.On, "user:1", time.Second) // a message was sent, so the quiet time counts again
}

// The message that is sent after a silence says how many alerts were only counted before: no other message said so.
func TestSilence_KeepsWhatWasCounted(t *testing.T) {
	tb := newTable(t)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	for range 2 {
		tb.step(t, alerts.On, "user:1", time.Second)
		tb.step(t, alerts.Off, "user:1", time.Second)
	}
	tb.step(t, alerts.On, "user:1", time.Second)
	tb.facts.Silences = []alerts.Silence{silence("", time.Hour)}
	tb.step(t, "", "", quiet) // would be sent now
	tb.restart()
	tb.facts.Silences = nil
	r := tb.step(t, "", "", time.Second, alerts.On)
	if n := body(t, &r.Changes.Messages[0]).Data.Suppressed; n != 2 {
		t.Errorf("the message says that %d were not sent, want 2", n)
	}
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	r = tb.step(t, alerts.On, "user:1", quiet, alerts.On)
	if n := body(t, &r.Changes.Messages[0]).Data.Suppressed; n != 0 {
		t.Errorf("the next one says %d again", n)
	}
}

// A silence that is deleted, or whose alerts are others, does not count.
func TestSilence_CoversWhatItNames(t *testing.T) {
	s := alerts.Subject{Kind: alerts.KindKeyUsage, Rule: "charges", Key: "user:1", Level: "80"}
	end := new(noon.Add(time.Minute))
	for name, c := range map[string]struct {
		silence alerts.Silence
		at      time.Time
		want    bool
	}{
		"kind":       {alerts.Silence{Kind: "key_usage", EndsAt: end}, noon, true},
		"other kind": {alerts.Silence{Kind: "key_hot", EndsAt: end}, noon, false},
		"all": {alerts.Silence{Kind: "key_usage", Rule: "charges", Key: "user:1", Level: "80", EndsAt: end}, noon,
			true},
		"other rule":    {alerts.Silence{Kind: "key_usage", Rule: "search", EndsAt: end}, noon, false},
		"other key":     {alerts.Silence{Kind: "key_usage", Key: "user:12", EndsAt: end}, noon, false},
		"other level":   {alerts.Silence{Kind: "key_usage", Level: "100", EndsAt: end}, noon, false},
		"at its end":    {alerts.Silence{Kind: "key_usage", EndsAt: end}, *end, false},
		"before":        {alerts.Silence{Kind: "key_usage", EndsAt: end}, end.Add(-time.Millisecond), true},
		"acknowledged":  {alerts.Silence{Acknowledges: "u", EndsAt: end}, noon, true},
		"another alert": {alerts.Silence{Acknowledges: "v", Kind: "key_usage", EndsAt: end}, noon, false},
	} {
		if got := c.silence.Covers(&s, "u", c.at); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An acknowledged alert that began again in its quiet time is not sent at the end of that time. Its acknowledgement
// ends with it.
func TestAcknowledgement_KeepsTheRepetitionFromBeingSent(t *testing.T) {
	tb := newTable(t)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	tb.step(t, alerts.On, "user:1", time.Second)
	active := tb.states.active(10)
	tb.facts.Silences = []alerts.Silence{acknowledge(active[0].UID, 20*time.Minute)}
	tb.step(t, "", "", quiet)
	tb.step(t, alerts.Off, "user:1", time.Minute, alerts.Off)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On) // another alert about the subject
}

// An acknowledgement of an alert that was sent changes no message. One that ends earlier than the repetition that it
// kept from being sent lets it be sent.
func TestAcknowledgement_Ends(t *testing.T) {
	tb := newTable(t)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On)
	tb.facts.Silences = []alerts.Silence{acknowledge(tb.states.active(10)[0].UID, time.Minute)}
	tb.step(t, "", "", 30*time.Second)
	tb.step(t, "", "", quiet)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)

	tb = newTable(t)
	tb.step(t, alerts.On, "user:1", time.Second, alerts.On)
	tb.step(t, alerts.Off, "user:1", time.Second, alerts.Off)
	tb.step(t, alerts.On, "user:1", time.Second)
	tb.facts.Silences = []alerts.Silence{acknowledge(tb.states.active(10)[0].UID, 20*time.Minute)}
	tb.step(t, "", "", quiet)
	tb.step(t, "", "", 5*time.Minute, alerts.On)
}

// More than five beginnings and ends at once: the summary has only the ends if the beginnings are silenced.
func TestSilence_LeavesBeginningsOutOfSummaries(t *testing.T) {
	tb := newTable(t)
	tb.facts.Silences = []alerts.Silence{silence("", time.Hour)}
	keys := []string{"1", "2", "3", "4", "5", "6", "7"}
	for _, k := range keys {
		tb.report("a", alerts.On, usageOf(k), used)
	}
	if r := tb.evaluate(time.Second); len(r.Changes.Messages) > 0 || len(r.Changes.Events) != 7 {
		t.Fatalf("sent %d messages about %d events", len(r.Changes.Messages), len(r.Changes.Events))
	}
	for _, k := range keys {
		tb.report("a", alerts.Off, usageOf(k), Details{})
	}
	r := tb.evaluate(time.Second)
	if len(r.Changes.Messages) != 1 || body(t, &r.Changes.Messages[0]).Data.Count != 7 {
		t.Errorf("the ends are %+v", r.Changes.Messages)
	}
}

// A Board says what is silenced and acknowledged, and counts what is neither, until the end of each.
func TestBoard_CountsWhatNobodyHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &desk{states: map[string]alerts.State{}}
		a := open(d, "a")
		defer a.stop()
		b := NewBoard(d, time.Now, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { b.Run(ctx) })
		defer running.Wait()
		defer cancel()
		d.report(1, alerts.On, "user:1")
		pass(time.Second)
		d.report(2, alerts.On, "user:2")
		pass(5 * time.Second)
		if active := b.Active(); len(active) != 2 || b.Waiting() != 2 || active[0].Handled() {
			t.Fatalf("%d of %d wait", b.Waiting(), len(active))
		}
		now := time.Now()
		d.mu.Lock()
		d.silences = []alerts.Silence{
			{ID: 1, Acknowledges: b.Active()[0].UID, EndsAt: new(now.Add(50 * time.Second))},
			{ID: 2, Kind: "key_usage", Key: "user:1", EndsAt: new(now.Add(110 * time.Second))},
		}
		d.mu.Unlock()
		b.Refresh(ctx)
		active := b.Active()
		if by := active[0].AcknowledgedBy; by == nil || by.ID != 1 || active[0].SilencedBy != nil {
			t.Errorf("the acknowledged one: %+v", active[0])
		}
		if by := active[1].SilencedBy; by == nil || by.ID != 2 || active[1].AcknowledgedBy != nil {
			t.Errorf("the silenced one: %+v", active[1])
		}
		for after, want := range []int{0, 1, 2} {
			if b.Waiting() != want || len(b.Active()) != 2 {
				t.Errorf("after %d minutes %d of %d wait, want %d", after, b.Waiting(), len(b.Active()), want)
			}
			pass(time.Minute)
		}
	})
}

// slowDesk answers the first question for silences when it may, with what they were when it was asked.
type slowDesk struct {
	*desk
	again      atomic.Bool
	asked, may chan struct{}
}

func (d *slowDesk) Silences(ctx context.Context) ([]alerts.Silence, error) {
	list, err := d.desk.Silences(ctx)
	if !d.again.Swap(true) {
		close(d.asked)
		<-d.may
	}
	return list, err
}

// A read that began before a silence was stored, and that ends after the Board has read the silence, hides nothing.
func TestBoard_ASlowReadDoesNotReplaceALaterOne(t *testing.T) {
	tb := newTable(t)
	tb.report("a", alerts.On, usageOf("user:1"), used)
	d := &slowDesk{desk: &desk{states: map[string]alerts.State{}}, asked: make(chan struct{}), may: make(chan struct{})}
	for _, s := range tb.evaluate(time.Second).Changes.States {
		d.states[s.Subject] = s
	}
	b := NewBoard(d, func() time.Time { return noon }, nil)
	var slow sync.WaitGroup
	slow.Go(func() { b.Refresh(t.Context()) })
	<-d.asked
	d.mu.Lock()
	d.silences = []alerts.Silence{silence("user:1", time.Hour)}
	d.mu.Unlock()
	b.Refresh(t.Context())
	if b.Waiting() != 0 || len(b.Active()) != 1 {
		t.Fatalf("%d of %d wait after the silence", b.Waiting(), len(b.Active()))
	}
	close(d.may)
	slow.Wait()
	if b.Waiting() != 0 {
		t.Errorf("%d wait after a slow read of before the silence", b.Waiting())
	}
}
