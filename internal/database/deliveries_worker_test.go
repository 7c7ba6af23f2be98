package database

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"sluice/internal/alerts"
	"sluice/internal/alerts/deliver"
	"sluice/rules"
	"sluice/rules/field"
)

// mortal is the database of a node that dies between sending a message and noting that: the note number dies ends the
// node, and nothing that it does afterwards arrives.
type mortal struct {
	*DB
	dies  int64
	notes atomic.Int64
	dead  atomic.Bool
	kill  context.CancelFunc
}

var errKilled = errors.New("the node was killed")

func (m *mortal) EndDelivery(ctx context.Context, id int64, a alerts.Attempt) error {
	if m.notes.Add(1) == m.dies {
		m.dead.Store(true)
		m.kill()
	}
	if m.dead.Load() {
		return errKilled
	}
	return m.DB.EndDelivery(ctx, id, a)
}

func (m *mortal) RetryDelivery(ctx context.Context, id int64, a alerts.Attempt, after time.Duration) error {
	if m.dead.Load() {
		return errKilled
	}
	return m.DB.RetryDelivery(ctx, id, a, after)
}

// signed receives messages, verifies each as Standard Webhooks says, and keeps their ids by subject.
type signed struct {
	verify *standardwebhooks.Webhook
	mu     sync.Mutex
	got    map[string][]string
	wrong  []string
}

func (s *signed) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil { // its sender was killed
		return
	}
	err = s.verify.Verify(body, r.Header)
	id := r.Header.Get("Webhook-Id")
	subject, _, _ := strings.Cut(id, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got[subject] = append(s.got[subject], id)
	if err != nil {
		s.wrong = append(s.wrong, fmt.Sprint(id, ": ", err))
	}
}

// Three nodes, of which one after the other dies between sending and noting: every message arrives, under its id, and
// those about one subject in their order.
func TestDeliveries_ArriveAtLeastOnceInOrderWhenNodesDie(t *testing.T) {
	const subjects, each = 4, 5
	dsn := backends[0].dsn(t)
	first := open(t, dsn)
	w := sampleWebhook("pager")
	secret := w.Secret
	verifier, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	to := &signed{verify: verifier, got: map[string][]string{}}
	server := httptest.NewServer(to)
	defer server.Close()
	w.URL = server.URL
	stored, err := first.Webhooks().Create(t.Context(), ada, w)
	if err != nil {
		t.Fatal(err)
	}
	var messages []alerts.Message
	for n := range each {
		for s := range subjects {
			messages = append(messages, queued(stored.ID, fmt.Sprint("s", s), fmt.Sprintf("s%d/%d", s, n)))
		}
	}
	mustQueue(t, first, messages...)

	allowed, err := alerts.ParseAllowed([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	sender := deliver.NewSender(deliver.SenderOptions{Guard: deliver.NewGuard(allowed), Now: time.Now})
	for n, holder := range []string{"a", "b", "c"} {
		ctx, kill := context.WithCancel(t.Context())
		d := &mortal{DB: open(t, dsn), dies: int64(4 + n), kill: kill}
		if holder == "c" { // survives, until nothing waits
			d.dies = -1
		}
		mustHold(t, d.DB, holder, time.Minute)
		worker := deliver.NewWorker(deliver.WorkerOptions{Queue: d, Send: sender.Send, Now: time.Now,
			Log: slog.New(slog.DiscardHandler)})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			worker.Run(ctx, holder)
		}()
		for holder == "c" && ctx.Err() == nil {
			backlog, err := d.AlertBacklog(t.Context())
			if err != nil || backlog.Waiting == 0 {
				kill()
			}
		}
		<-ended
		if _, err := d.HoldAlerts(t.Context(), holder, -time.Second); err != nil { // its lease ends
			t.Fatal(err)
		}
	}

	repeated := 0
	for s := range subjects {
		var want []string
		for n := range each {
			want = append(want, fmt.Sprintf("s%d/%d", s, n))
		}
		got := to.got[fmt.Sprint("s", s)]
		var once []string // what a dead node has sent may come late, but then it comes again
		for _, id := range got {
			if !slices.Contains(once, id) {
				once = append(once, id)
			}
		}
		if !slices.Equal(once, want) {
			t.Errorf("subject %d: got %v", s, got)
		}
		repeated += len(got) - each
	}
	if repeated < 2 || repeated > 2*2 { // each of two deaths left one or two messages sent but not noted
		t.Errorf("%d messages came twice", repeated)
	}
	if len(to.wrong) > 0 {
		t.Errorf("signatures: %v", to.wrong)
	}
	list, err := first.ListDeliveries(t.Context(), stored.ID, 0, 100)
	if err != nil || len(list) != subjects*each {
		t.Fatalf("%d deliveries, %v", len(list), err)
	}
	for i := range list {
		if list[i].State != alerts.DeliveryDelivered {
			t.Errorf("%s is %s", list[i].Message.ID, list[i].State)
		}
	}
}

// A test of a webhook is no flood: one at a time, and at least alerts.TestPause apart.
func TestWebhooks_AreTestedOneAfterTheOther(t *testing.T) {
	d := open(t, backends[1].dsn(t))
	came, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-release
	}))
	defer server.Close()
	allowed, err := alerts.ParseAllowed([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	var passed atomic.Int64
	began := time.Now()
	now := func() time.Time { return began.Add(time.Duration(passed.Load())) }
	guard := deliver.NewGuard(allowed)
	hooks := deliver.NewWebhooks(d, guard, deliver.NewSender(deliver.SenderOptions{Guard: guard, Now: now}), now)
	for _, name := range []string{"one", "two"} {
		w := sampleWebhook(name)
		w.URL, w.Secret = server.URL, ""
		if w, err = hooks.Create(t.Context(), ada, w); err != nil || alerts.KeyOf(w.Secret) == nil {
			t.Fatal(w, err)
		}
	}
	test := func(name string) <-chan error {
		out := make(chan error, 1)
		go func() {
			got, err := hooks.Test(t.Context(), name)
			if err == nil && got.State != alerts.DeliveryDelivered {
				err = fmt.Errorf("the test is %+v", got)
			}
			out <- err
		}()
		return out
	}
	tooSoon := func(when string) {
		t.Helper()
		if err := <-test("one"); !errors.Is(err, alerts.ErrTestTooSoon) {
			t.Errorf("%s: %v", when, err)
		}
	}
	first := test("one")
	<-came
	passed.Store(int64(time.Minute))
	tooSoon("while another runs")
	second := test("two") // another webhook
	<-came
	release <- struct{}{}
	release <- struct{}{}
	if err := errors.Join(<-first, <-second); err != nil {
		t.Error(err)
	}
	first = test("one")
	<-came
	release <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	tooSoon("just after another")
	passed.Add(int64(alerts.TestPause))
	first = test("one")
	<-came
	release <- struct{}{}
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := <-test("none"); !errors.Is(err, rules.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}

// A webhook that may no longer be reached can be disabled, but not enabled again.
func TestWebhooks_ThatLeadAstrayCanBeDisabled(t *testing.T) {
	d := open(t, backends[1].dsn(t))
	w := sampleWebhook("pager")
	w.URL = "https://127.0.0.1/" // it was allowed before a restart
	w, err := d.Webhooks().Create(t.Context(), ada, w)
	if err != nil {
		t.Fatal(err)
	}
	guard := deliver.NewGuard(alerts.Allowed{})
	hooks := deliver.NewWebhooks(d, guard, deliver.NewSender(deliver.SenderOptions{Guard: guard, Now: time.Now}), time.Now)
	w.IsActive = false
	if w, err = hooks.Update(t.Context(), ada, w, 1); err != nil || w.IsActive {
		t.Fatal(w, err)
	}
	w.IsActive = true
	var invalid *field.ValidationError
	if _, err := hooks.Update(t.Context(), ada, w, 2); !errors.As(err, &invalid) || invalid.Fields[0].Field != "url" {
		t.Errorf("enabled again: %v", err)
	}
	got, err := hooks.Test(t.Context(), "pager")
	if err != nil || got.State != alerts.DeliveryFailed || !strings.Contains(got.Error, "SLUICE_WEBHOOK_ALLOW") {
		t.Errorf("tested: %+v, %v", got, err)
	}
}
