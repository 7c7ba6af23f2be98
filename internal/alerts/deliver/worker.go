package deliver

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// perWebhook is how many messages are sent to one webhook at once, and maxParallel how many to all webhooks: a
	// receiver that does not answer delays no other receiver.
	perWebhook, maxParallel = 2, alerts.MaxWebhooks * perWebhook
	// pollEvery is how often the worker polls the queue for messages to retry.
	pollEvery = time.Second
	// countEvery is how often queued messages are counted, cleanEvery how often old ones are removed.
	countEvery, cleanEvery = 10 * time.Second, time.Minute
)

// Queue stores the waiting messages. Errors wrap rules.ErrUnavailable.
type Queue interface {
	// DueDeliveries returns up to limit due messages of each active webhook. For each subject it returns only the
	// oldest waiting message. The error is alerts.ErrLeaseLost unless holder has the lease.
	DueDeliveries(ctx context.Context, holder string, limit int) ([]alerts.DueDelivery, error)
	// EndDelivery notes the last attempt to send a message: it was delivered, or is given up.
	EndDelivery(ctx context.Context, id int64, a alerts.Attempt) error
	// RetryDelivery notes a failed attempt to send a message, which is sent again after a while.
	RetryDelivery(ctx context.Context, id int64, a alerts.Attempt, after time.Duration) error
	// DisableWebhook makes a webhook inactive for a reason, unless it has changed since the version.
	DisableWebhook(ctx context.Context, id, version int64, reason string) error
	// AlertBacklog counts the queued messages to active webhooks.
	AlertBacklog(ctx context.Context) (alerts.Backlog, error)
	// CleanAlerts gives up messages that have waited for too long, and deletes data that is no longer shown.
	CleanAlerts(ctx context.Context) (alerts.GivenUp, error)
}

// WorkerOptions configure a Worker. All are required but Trouble.
type WorkerOptions struct {
	Queue Queue
	// Send posts a message once, as Sender.Send does.
	Send    func(ctx context.Context, url string, secrets []string, m *alerts.Message) alerts.Attempt
	Now     func() time.Time
	Log     *slog.Logger
	Trouble *trouble.Registry // nil discards
}

var messagesUnread = trouble.Declare(trouble.Condition{Code: "webhook_messages_unread",
	Starts: "messages to webhooks cannot be read from the rules database; they are sent when it is back",
	Ends:   "messages to webhooks can be read from the rules database again"})

// Worker sends the messages of a queue. Wake and Totals are safe for concurrent use; one Run is under way at a time.
type Worker struct {
	opt  WorkerOptions
	wake chan struct{}

	mu     sync.Mutex
	totals alerts.DeliveryTotals
}

// NewWorker creates a Worker.
func NewWorker(opt WorkerOptions) *Worker {
	return &Worker{opt: opt, wake: make(chan struct{}, 1),
		totals: alerts.DeliveryTotals{Attempts: map[alerts.Result]int64{}}}
}

// Wake says that there are new messages. It never blocks.
func (w *Worker) Wake() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Run sends messages while holder has the lease of alerts, until ctx ends, and has none under way then. What was sent
// but not answered stays in the queue.
func (w *Worker) Run(ctx context.Context, holder string) {
	w.shift(ctx, holder)
	for range tick.Every(ctx, pollEvery) { // the lease was lost, perhaps for a moment
		w.shift(ctx, holder)
	}
}

// shift sends messages until ctx ends or the lease is lost.
func (w *Worker) shift(ctx context.Context, holder string) {
	ctx, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	defer tasks.Wait()
	defer stop()
	r := flights{busy: map[line]bool{}, each: map[int64]int{}, failing: map[int64]bool{},
		landed: make(chan flight, maxParallel)}
	tidying := false
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	defer w.opt.Trouble.Forget(messagesUnread, "")
	for {
		due, err := w.opt.Queue.DueDeliveries(ctx, holder, 2*perWebhook) // as many again as are under way
		if errors.Is(err, alerts.ErrLeaseLost) {
			return
		}
		if ctx.Err() == nil {
			w.opt.Trouble.Note(messagesUnread, "", err)
		}
		if err == nil && !tidying {
			tidying = true
			tasks.Go(func() { w.tidy(ctx) })
		}
		for i := range due {
			m := &due[i]
			if r.begin(m) {
				tasks.Go(func() { r.landed <- flight{m, w.deliver(ctx, m)} })
			}
		}
		select {
		case <-ctx.Done():
			return
		case f := <-r.landed:
			r.end(f, w.opt.Log)
		case <-w.wake:
		case <-poll.C:
		}
	}
}

// line is where messages wait for each other.
type line struct {
	webhook int64
	subject string
}

// flight is a message that was sent, and the result.
type flight struct {
	m *alerts.DueDelivery
	a alerts.Attempt
}

// flights are the messages in flight. One goroutine uses them.
type flights struct {
	busy    map[line]bool
	each    map[int64]int
	failing map[int64]bool
	landed  chan flight
}

// begin reports whether a message may be sent now, and counts it.
func (r *flights) begin(m *alerts.DueDelivery) bool {
	of := line{m.Message.Webhook, m.Message.Subject}
	if r.busy[of] || r.each[of.webhook] >= perWebhook || len(r.busy) >= maxParallel {
		return false
	}
	r.busy[of] = true
	r.each[of.webhook]++
	return true
}

// end makes room for the next message, and logs that a webhook began to fail or to work.
func (r *flights) end(f flight, log *slog.Logger) {
	webhook := f.m.Message.Webhook
	delete(r.busy, line{webhook, f.m.Message.Subject})
	if r.each[webhook]--; r.each[webhook] == 0 {
		delete(r.each, webhook)
	}
	switch {
	case f.a.Delivered() && r.failing[webhook]:
		delete(r.failing, webhook)
		log.Info("a webhook takes messages again", "webhook", f.m.Name)
	case f.a.Gone:
		log.Warn("the receiver of a webhook answered 410; the webhook is disabled", "webhook", f.m.Name)
	case !f.a.Delivered() && !r.failing[webhook] && len(r.failing) < maxParallel:
		r.failing[webhook] = true
		log.Warn("a message to a webhook failed; it is sent again for a day", "webhook", f.m.Name, "message",
			f.m.Message.ID, "error", f.a.Error)
	}
}

// tidy counts what waits and removes what is old, until ctx ends.
func (w *Worker) tidy(ctx context.Context) {
	defer w.count(func(t *alerts.DeliveryTotals) { t.Backlog = alerts.Backlog{} })
	turn := func(n int) {
		if n%int(cleanEvery/countEvery) == 0 {
			given, err := w.opt.Queue.CleanAlerts(ctx)
			if err != nil {
				w.opt.Log.Debug("cleaning the messages to webhooks failed", "error", err)
			}
			w.count(func(t *alerts.DeliveryTotals) {
				t.TooOld += given.TooOld
				t.TooMany += given.TooMany
			})
		}
		if backlog, err := w.opt.Queue.AlertBacklog(ctx); err == nil {
			w.count(func(t *alerts.DeliveryTotals) { t.Backlog = backlog })
		}
	}
	turn(0)
	n := 0
	for range tick.Every(ctx, countEvery) {
		n++
		turn(n)
	}
}

func (w *Worker) count(fn func(*alerts.DeliveryTotals)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(&w.totals)
}

// Totals returns what became of messages since the start. The backlog is 0 while the worker does not run.
func (w *Worker) Totals() alerts.DeliveryTotals {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.totals
	out.Attempts = make(map[alerts.Result]int64, len(w.totals.Attempts))
	for result, n := range w.totals.Attempts {
		out.Attempts[result] = n
	}
	return out
}
