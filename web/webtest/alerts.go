package webtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
)

// Alerts are the alerts of a world, active and past. It is safe for concurrent use.
type Alerts struct {
	mu sync.Mutex
	// On are the active alerts, as they were ReadAt.
	On     []alerts.Event
	ReadAt time.Time
	// Past are the events, newest first. Err is what reading them fails with, Reads counts how often they are read.
	Past  []alerts.Event
	Err   error
	Reads int
	// Silences cover the active alerts once Refresh was called.
	Silences *Silences
}

// Change changes the alerts. It is safe while pages are served.
func (f *Alerts) Change(how func(*Alerts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

// Active implements alerts.Board.
func (f *Alerts) Active() []alerts.Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.On)
}

// Waiting implements alerts.Board.
func (f *Alerts) Waiting() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.On {
		if !f.On[i].Handled() {
			n++
		}
	}
	return n
}

// Refresh implements alerts.Board.
func (f *Alerts) Refresh(ctx context.Context) {
	list, err := f.Silences.Silences(ctx)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.On = slices.Clone(f.On) // pages may be reading them
	for i := range f.On {
		f.On[i].Mark(list, Now)
	}
}

// Since implements alerts.Board.
func (f *Alerts) Since() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ReadAt
}

// AlertEvents implements alerts.Events.
func (f *Alerts) AlertEvents(_ context.Context, before int64, limit int) ([]alerts.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Reads++
	if f.Err != nil {
		return nil, f.Err
	}
	var out []alerts.Event
	for i := range f.Past {
		if (before == 0 || f.Past[i].ID < before) && len(out) < limit {
			out = append(out, f.Past[i])
		}
	}
	return out, nil
}

// event is an alert about a subject, since a while ago.
func event(id int64, age time.Duration, state string, s alerts.Subject, text string) alerts.Event {
	since := Now.Add(-age)
	e := alerts.Event{ID: id, UID: fmt.Sprint("event-", id), At: since, Kind: s.Kind, State: state, Subject: s,
		Data: alerts.Data{State: state, Text: text, Rule: s.Rule, Key: s.Key, Since: &since}}
	switch {
	case s.Kind == alerts.KindFailModeEngaged || s.Kind == alerts.KindFailModeEnded:
		e.Data.Path = "/console/incidents"
	case s.Kind == alerts.KindKeyHot:
		e.Data.Path = "/console/hot-keys"
	case s.Rule != "":
		e.Data.Path = "/console/rules/1"
	}
	return e
}

const usageText = "The key user:42 reached 80% of its limit of the rule charges-per-user at 11:58:00 UTC: 83 of 100 " +
	"at 11:59:52 UTC."

func sampleAlerts() *Alerts {
	denials := alerts.Subject{Kind: alerts.KindRuleDenials, Rule: "charges-per-user", Level: "50%,0/s"}
	usage := alerts.Subject{Kind: alerts.KindKeyUsage, Rule: "charges-per-user", Key: "user:42", Level: "80"}
	hot := alerts.Subject{Kind: alerts.KindKeyHot, Rule: "search-per-user", Key: "user:7"}
	fails := alerts.Subject{Kind: alerts.KindFailModeEngaged}
	f := &Alerts{ReadAt: Now}
	f.On = []alerts.Event{
		event(9, 2*time.Minute, alerts.On, usage, usageText),
		event(8, 14*time.Minute, alerts.On, denials, "The rule charges-per-user has denied many requests since "+
			"11:46:00 UTC: 1,080 of 1,742 (62%) in the minute before 11:59:58 UTC."),
		event(7, 3*time.Hour, alerts.On, hot, "The key user:7 of the rule search-per-user has been hot since 09:00:00 UTC: "+
			"1,240 requests a second at 11:59:57 UTC."),
	}
	f.On[1].Data.Suppressed = 2
	off := event(6, 5*time.Hour, alerts.Off, fails, "The counter store decides requests again; fail modes no longer do.")
	on := event(5, 6*time.Hour, alerts.On, fails, "Fail modes have decided requests since 06:00:00 UTC, because the "+
		"counter store cannot: connection refused.")
	on.Data.Cause = "connection refused"
	f.Past = append(slices.Clone(f.On), off, on,
		event(4, 26*time.Hour, alerts.On, alerts.Subject{Kind: alerts.KindRuleIdle, Rule: "export-per-tenant"},
			"The rule export-per-tenant matched no request in the week before 10:00:00 UTC."))
	f.Past[0].Data.Text = "The key user:42 reached 80% of its limit of the rule charges-per-user at 11:58:00 UTC: " +
		"80 of 100."
	f.Past[1].Data.Text = "The rule charges-per-user denied 1,020 of 1,700 requests (60%) in the minute before " +
		"11:46:00 UTC."
	return f
}

// manyAlerts are n events, newest first.
func manyAlerts(n int) []alerts.Event {
	out := make([]alerts.Event, n)
	for i := range out {
		s := alerts.Subject{Kind: alerts.KindKeyUsage, Rule: "charges-per-user", Key: fmt.Sprintf("user:%d", i%700)}
		if i%10 == 0 {
			s = alerts.Subject{Kind: alerts.KindRuleDenials, Rule: strings.Repeat("long-name.", 7)[:63]}
		}
		state := alerts.On
		if i%2 == 0 {
			state = alerts.Off
		}
		out[i] = event(int64(n-i), time.Duration(i)*time.Minute, state, s, "Key "+s.Key+" of the rule "+s.Rule+".")
	}
	return out
}

// Webhooks are the webhooks of a world, with their deliveries.
type Webhooks struct {
	*Objects[alerts.Webhook]
	rules.Store[alerts.Webhook]
	mu sync.Mutex
	// Sent are the deliveries by the ID of the webhook, newest first. Asked is the largest number that a page asked for.
	Sent  map[int64][]alerts.Delivery
	Asked int
	// Answer is the answer of the receiver to a test, TestErr the error of sending a test.
	Answer  alerts.Attempt
	TestErr error
	// Secrets counts the secrets that were shown.
	Secrets int
}

func newWebhooks() *Webhooks {
	o := &Objects[alerts.Webhook]{kind: alerts.WebhookKind}
	return &Webhooks{Objects: o, Store: o.Store(), Sent: map[int64][]alerts.Delivery{},
		Answer: alerts.Attempt{Took: 34 * time.Millisecond, Status: 200}}
}

// secret is a new secret, the same in every run.
func (f *Webhooks) secret() string {
	f.Secrets++
	return fmt.Sprintf("whsec_%043d=", f.Secrets)
}

// List implements rules.Store.
func (f *Webhooks) List(ctx context.Context) ([]alerts.Webhook, error) { return f.Store.List(ctx) }

// Create implements rules.Store. The returned webhook has its secret.
func (f *Webhooks) Create(ctx context.Context, actor rules.Actor, w alerts.Webhook) (alerts.Webhook, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stored, err := f.Store.Create(ctx, actor, w)
	if err != nil {
		return stored, err
	}
	last := &f.Objects.List[len(f.Objects.List)-1]
	last.ID = int64(len(f.Objects.List))
	stored.ID, stored.Secret = last.ID, f.secret()
	return stored, nil
}

// Rotate implements alerts.Webhooks.
func (f *Webhooks) Rotate(ctx context.Context, actor rules.Actor, name string, ifVersion int64) (alerts.Webhook,
	error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.Get(ctx, name)
	if err != nil {
		return w, err
	}
	w, err = f.Update(ctx, actor, w, ifVersion)
	w.Secret = f.secret()
	return w, err
}

// Test implements alerts.Webhooks.
func (f *Webhooks) Test(ctx context.Context, name string) (alerts.Delivery, error) {
	w, err := f.Get(ctx, name)
	if err := cmp.Or(err, f.TestErr); err != nil {
		return alerts.Delivery{}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	d := alerts.Delivery{ID: 1, Message: alerts.TestMessage(&w, Now), State: alerts.DeliveryDelivered, Attempts: 1,
		Status: f.Answer.Status, Error: f.Answer.Error, Took: f.Answer.Took, Tried: Now, Ended: Now}
	d.Message.ID = "msg_TEST"
	if d.Error != "" {
		d.State = alerts.DeliveryFailed
	}
	if sent := f.Sent[w.ID]; len(sent) > 0 {
		d.ID = sent[0].ID + 1
	}
	f.Sent[w.ID] = slices.Insert(f.Sent[w.ID], 0, d)
	return d, nil
}

// Deliveries implements alerts.Webhooks.
func (f *Webhooks) Deliveries(ctx context.Context, name string, before int64, limit int) ([]alerts.Delivery, error) {
	w, err := f.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Asked = max(f.Asked, limit)
	list := f.Sent[w.ID]
	if before > 0 {
		list = slices.DeleteFunc(slices.Clone(list), func(d alerts.Delivery) bool { return d.ID >= before })
	}
	return slices.Clone(list[:min(limit, len(list))]), nil
}

// Statuses implements alerts.Webhooks.
func (f *Webhooks) Statuses(context.Context) (map[int64]alerts.WebhookStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[int64]alerts.WebhookStatus{}
	for id := range maps.Keys(f.Sent) {
		var s alerts.WebhookStatus
		for i := range f.Sent[id] {
			d := &f.Sent[id][i]
			if d.State == alerts.DeliveryWaiting {
				s.Waiting, s.Oldest = s.Waiting+1, d.Message.At
			}
			if d.Attempts > 0 && d.Tried.After(s.Last.Tried) {
				s.Last = *d
			}
		}
		out[id] = s
	}
	return out, f.Err
}

func sampleWebhooks() *Webhooks {
	f := newWebhooks()
	add := func(name, url string, edit func(*alerts.Webhook)) {
		w := alerts.NewWebhook()
		w.Name, w.URL, w.ID = name, url, int64(len(f.Objects.List)+1)
		edit(&w)
		w.Normalize()
		w.Version, w.CreatedAt, w.UpdatedAt = 1, Now.Add(-300*time.Hour), Now.Add(-30*time.Hour)
		f.Objects.List = append(f.Objects.List, w)
	}
	add("chat", "https://hooks.chat.example/services/T0/B0/planted-secret", func(w *alerts.Webhook) {
		w.Format, w.Description = alerts.FormatSlack, "Channel #limits"
		w.Kinds = []string{string(alerts.KindRuleDenials), string(alerts.KindKeyUsage)}
		w.Rules = []string{"charges-per-user"}
	})
	add("old", "https://old.example/hook", func(w *alerts.Webhook) {
		w.IsActive, w.DisabledReason = false, "the receiver answered 410"
	})
	add("pager", "https://pager.example/v1/planted-secret", func(w *alerts.Webhook) {
		w.Description, w.DeniedPerSecond = "Wakes whoever is on call.", 200
	})
	f.Sent[1] = []alerts.Delivery{
		delivery(5, time.Minute, alerts.DeliveryWaiting, alerts.KindKeyUsage, func(d *alerts.Delivery) {
			d.Attempts, d.Status, d.Error, d.Took = 3, 503, "answered 503", 210*time.Millisecond
			d.Tried, d.Next = Now.Add(-10*time.Second), Now.Add(25*time.Second)
		}),
		delivery(4, 2*time.Minute, alerts.DeliveryWaiting, alerts.KindRuleDenials, func(d *alerts.Delivery) { d.Next = Now }),
		delivery(3, 3*time.Hour, alerts.DeliveryDelivered, alerts.KindKeyUsage, func(*alerts.Delivery) {}),
		delivery(2, 26*time.Hour, alerts.DeliveryFailed, alerts.KindKeyUsage, func(d *alerts.Delivery) {
			d.Attempts, d.Status, d.Error, d.Took = 31, 0, "no answer within 5 s", 5*time.Second
		}),
	}
	f.Sent[2] = []alerts.Delivery{delivery(6, 50*time.Hour, alerts.DeliveryFailed, alerts.KindKeyHot,
		func(d *alerts.Delivery) { d.Status, d.Error = 410, "answered 410" })}
	f.Sent[3] = []alerts.Delivery{delivery(7, time.Hour, alerts.DeliveryDelivered, alerts.KindKeyHot,
		func(*alerts.Delivery) {})}
	return f
}

// delivery is a message of an age that was delivered at the first attempt, unless edit says otherwise.
func delivery(id int64, age time.Duration, state string, kind alerts.Kind,
	edit func(*alerts.Delivery)) alerts.Delivery {
	at := Now.Add(-age)
	data := alerts.Data{State: alerts.On, Text: usageText,
		Rule: "charges-per-user", Key: "user:42", Numbers: map[string]int64{"limit": 100, "used": 83}, Since: &at}
	d := alerts.Delivery{ID: id, State: state, Message: alerts.Message{ID: fmt.Sprintf("msg_%026d", id), At: at,
		Type: string(kind), Body: alerts.BodyOf(alerts.FormatStandard, string(kind), at, &data)}}
	if state != alerts.DeliveryWaiting {
		d.Attempts, d.Status, d.Took, d.Tried, d.Ended = 1, 200, 42*time.Millisecond, at, at
	}
	edit(&d)
	return d
}

// ManyDeliveries gives the first webhook n deliveries.
func ManyDeliveries(w *World, n int) {
	list := make([]alerts.Delivery, n)
	for i := range list {
		list[i] = delivery(int64(n-i), time.Duration(i)*time.Minute, alerts.DeliveryDelivered, alerts.KindKeyUsage,
			func(d *alerts.Delivery) { d.Attempts = cmp.Or(int64(i%4), 1) })
	}
	w.Webhooks.Sent[1] = list
}
