package deliver

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"sluice/internal/alerts"
	"sluice/rules"
)

// queue is a Queue in memory. Its clock is that of the test.
type queue struct {
	t  *testing.T
	mu sync.Mutex
	// holder has the lease.
	holder string
	rows   []*alerts.DueDelivery
	// away refuses all calls, unnoted those that note attempts.
	away, unnoted bool
	disabled      map[int64]string
	cleaned       int
}

func newQueue(t *testing.T) *queue { return &queue{t: t, holder: "a", disabled: map[int64]string{}} }

// add appends messages of a webhook about a subject, with ids such as 1/s/0.
func (q *queue) add(webhook int64, subject string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range n {
		m := &alerts.DueDelivery{URL: fmt.Sprint("https://", webhook, ".example/"), Version: 1}
		m.ID, m.State = int64(len(q.rows)+1), alerts.DeliveryWaiting
		m.Message = alerts.Message{ID: fmt.Sprint(webhook, "/", subject, "/", i), Webhook: webhook, Subject: subject,
			At: time.Now(), Body: []byte("{}")}
		q.rows = append(q.rows, m)
	}
}

// set changes the queue while it is in use.
func (q *queue) set(fn func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	fn()
}

func (q *queue) DueDeliveries(_ context.Context, holder string, limit int) (due []alerts.DueDelivery, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away {
		return nil, rules.ErrUnavailable
	}
	if holder != q.holder {
		return nil, alerts.ErrLeaseLost
	}
	first, each := map[line]bool{}, map[int64]int{}
	for _, m := range q.rows {
		of := line{m.Message.Webhook, m.Message.Subject}
		if m.State != alerts.DeliveryWaiting || first[of] {
			continue
		}
		first[of] = true
		if m.Next.After(time.Now()) || q.disabled[of.webhook] != "" || each[of.webhook] == limit {
			continue
		}
		each[of.webhook]++
		due = append(due, *m)
	}
	return due, nil
}

func (q *queue) noted(id int64, a alerts.Attempt, state string, next time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.away || q.unnoted {
		return rules.ErrUnavailable
	}
	m := q.rows[id-1]
	m.State, m.Next, m.Status, m.Error = state, next, a.Status, a.Error
	m.Attempts++
	return nil
}

func (q *queue) EndDelivery(_ context.Context, id int64, a alerts.Attempt) error {
	state := alerts.DeliveryFailed
	if a.Delivered() {
		state = alerts.DeliveryDelivered
	}
	return q.noted(id, a, state, time.Time{})
}

func (q *queue) RetryDelivery(_ context.Context, id int64, a alerts.Attempt, after time.Duration) error {
	if after < firstRetry || after > lastRetry {
		q.t.Errorf("the next attempt is after %s", after)
	}
	return q.noted(id, a, alerts.DeliveryWaiting, time.Now().Add(after))
}

func (q *queue) DisableWebhook(_ context.Context, id, version int64, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if version == 1 && q.disabled[id] == "" {
		q.disabled[id] = reason
	}
	return nil
}

func (q *queue) AlertBacklog(context.Context) (b alerts.Backlog, _ error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.rows {
		if m.State == alerts.DeliveryWaiting {
			b.Waiting++
			b.Oldest = max(b.Oldest, time.Since(m.Message.At))
		}
	}
	return b, nil
}

func (q *queue) CleanAlerts(context.Context) (alerts.GivenUp, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cleaned++
	return alerts.GivenUp{TooMany: 1}, nil
}

// states are those of all messages.
func (q *queue) states() map[string]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	out := map[string]string{}
	for _, m := range q.rows {
		out[m.Message.ID] = m.State
	}
	return out
}

// receiver is what messages are sent to.
type receiver struct {
	mu sync.Mutex
	// got are the ids of all messages, in the order in which they came.
	got  []string
	at   []time.Time
	busy map[int64]int
	most int
	// answer makes the answer to a message; nil means 200 at once.
	answer func(ctx context.Context, m *alerts.Message) alerts.Attempt
}

func (r *receiver) send(ctx context.Context, _ string, _ []string, m *alerts.Message) alerts.Attempt {
	r.mu.Lock()
	r.got, r.at = append(r.got, m.ID), append(r.at, time.Now())
	if r.busy == nil {
		r.busy = map[int64]int{}
	}
	r.busy[m.Webhook]++
	r.most = max(r.most, r.busy[m.Webhook])
	answer := r.answer
	r.mu.Unlock()
	a := alerts.Attempt{At: time.Now(), Status: 200}
	if answer != nil {
		a = answer(ctx, m)
	}
	r.mu.Lock()
	r.busy[m.Webhook]--
	r.mu.Unlock()
	return a
}

func (r *receiver) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// answers makes every message wait for a while, and then have a status; 0 means no answer.
func answers(after time.Duration, status int) func(context.Context, *alerts.Message) alerts.Attempt {
	return func(ctx context.Context, _ *alerts.Message) alerts.Attempt {
		a := alerts.Attempt{At: time.Now(), Status: status}
		select {
		case <-ctx.Done():
			return alerts.Attempt{At: a.At, Error: "stopped before an answer came"}
		case <-time.After(after):
		}
		switch {
		case status == 0:
			a.Error = "no answer within 5 s"
		case status >= 300:
			a.Error = fmt.Sprint("answered ", status)
		}
		a.Gone = status == 410
		return a
	}
}

func newWorker(q Queue, r *receiver) *Worker {
	return NewWorker(WorkerOptions{Queue: q, Send: r.send, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
}

// start runs a worker as holder a until stop is called.
func start(t *testing.T, w *Worker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx, "a")
	}()
	return func() {
		cancel()
		<-ended
	}
}
