package deliver

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/alerts"
	"sluice/internal/trouble"
)

// inBubble runs a test in virtual time with a worker that has begun. It is stopped at the end.
func inBubble(t *testing.T, test func(t *testing.T, q *queue, r *receiver, w *Worker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), &receiver{}
		w := newWorker(q, r)
		stop := start(t, w)
		synctest.Wait()
		test(t, q, r, w)
		stop()
	})
}

// pass lets virtual time pass.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

func TestWorker_SendsANewMessageAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		q.add(1, "s", 3)
		w.Wake()
		synctest.Wait() // no time passes
		if got := r.all(); !slices.Equal(got, []string{"1/s/0", "1/s/1", "1/s/2"}) {
			t.Errorf("sent %v", got)
		}
		q.add(1, "s", 1) // nobody says so
		pass(pollEvery)
		synctest.Wait()
		if n := len(r.all()); n != 4 {
			t.Errorf("sent %d messages", n)
		}
		if got := w.Totals().Attempts[alerts.ResultDelivered]; got != 4 {
			t.Errorf("counted %d", got)
		}
	})
}

// However many messages wait for a receiver that does not answer, another gets its own at once.
func TestWorker_ASlowReceiverHoldsUpNobody(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		slow := answers(sendTimeout, 0)
		r.answer = func(ctx context.Context, m *alerts.Message) alerts.Attempt {
			if m.Webhook < alerts.MaxWebhooks {
				return slow(ctx, m)
			}
			return alerts.Attempt{Status: 204}
		}
		for webhook := range int64(alerts.MaxWebhooks) {
			for subject := range 20 {
				q.add(webhook, fmt.Sprint(subject), 1)
			}
		}
		q.add(alerts.MaxWebhooks, "s", 2)
		w.Wake()
		synctest.Wait()
		delivered := 0
		for id, state := range q.states() {
			if state == alerts.DeliveryDelivered && strings.HasPrefix(id, fmt.Sprint(alerts.MaxWebhooks, "/")) {
				delivered++
			}
		}
		// One webhook more than there may be finds all places taken.
		if r.most != perWebhook || len(r.all()) != maxParallel || delivered != 0 {
			t.Errorf("%d at once to one webhook, %d in all, %d delivered", r.most, len(r.all()), delivered)
		}
		q.set(func() { q.disabled[0] = "to make room" })
		pass(sendTimeout)
		synctest.Wait()
		if q.states()[fmt.Sprint(alerts.MaxWebhooks, "/s/1")] != alerts.DeliveryDelivered {
			t.Error("a quick receiver waits for slow ones")
		}
	})
}

func TestWorker_KeepsTheOrderOfASubject(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		fail, n := answers(time.Millisecond, 500), 0
		r.answer = func(ctx context.Context, m *alerts.Message) alerts.Attempt {
			if m.Subject == "s" {
				if n++; n <= 3 {
					return fail(ctx, m)
				}
			}
			return alerts.Attempt{Status: 200}
		}
		q.add(1, "s", 2)
		q.add(1, "t", 2)
		q.add(2, "t", 1)
		w.Wake()
		pass(time.Minute)
		synctest.Wait()
		want := map[string][]string{"1/s": {"1/s/0", "1/s/0", "1/s/0", "1/s/0", "1/s/1"}, "1/t": {"1/t/0", "1/t/1"},
			"2/t": {"2/t/0"}}
		got := map[string][]string{}
		for _, id := range r.all() {
			got[id[:3]] = append(got[id[:3]], id)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		wanted := map[alerts.Result]int64{alerts.ResultDelivered: 5, alerts.ResultStatus: 3}
		if diff := cmp.Diff(wanted, w.Totals().Attempts); diff != "" {
			t.Errorf("counted (-want +got):\n%s", diff)
		}
	})
}

func TestWorker_RetriesForADay(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		r.answer = answers(0, 503)
		q.add(1, "s", 1)
		w.Wake()
		pass(20 * time.Second)
		if n := len(r.all()); n < 2 || n > 3 {
			t.Errorf("%d attempts in 20 s", n)
		}
		pass(25 * time.Hour)
		synctest.Wait()
		r.mu.Lock()
		defer r.mu.Unlock()
		for i := range len(r.at) - 1 {
			if gap := r.at[i+1].Sub(r.at[i]); gap < firstRetry || gap > lastRetry+pollEvery || i > 0 &&
				gap < r.at[i].Sub(r.at[i-1])/2 {
				t.Errorf("attempt %d is %s after the one before", i+1, gap)
			}
			if r.got[i] != r.got[0] {
				t.Errorf("attempt %d has the id %s", i, r.got[i])
			}
		}
		whole := r.at[len(r.at)-1].Sub(r.at[0])
		if state := q.states()["1/s/0"]; state != alerts.DeliveryFailed || whole > retryFor || whole < retryFor-lastRetry {
			t.Errorf("%s after %d attempts in %s", state, len(r.at), whole)
		}
		if given := w.Totals().TooOld; given != 1 {
			t.Errorf("%d given up", given)
		}
	})
}

// What was sent but cannot be noted is not sent again, and is noted when the database is back.
func TestWorker_ALostDatabaseRepeatsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		var log bytes.Buffer // read while the worker waits
		w.opt.Trouble = trouble.New(slog.New(slog.NewTextHandler(&log, nil)), time.Now, nil)
		q.set(func() { q.unnoted = true })
		q.add(1, "s", 2)
		q.add(1, "t", 1)
		w.Wake()
		pass(time.Hour)
		if got := r.all(); len(got) != 2 {
			t.Errorf("sent %v", got)
		}
		q.set(func() { q.away = true })
		pass(time.Hour)
		q.set(func() { q.away, q.unnoted = false, false })
		pass(2 * noteAgain)
		synctest.Wait()
		want := map[string]string{"1/s/0": "delivered", "1/s/1": "delivered", "1/t/0": "delivered"}
		if diff := cmp.Diff(want, q.states()); diff != "" || len(r.all()) != 3 {
			t.Errorf("sent %v, states (-want +got):\n%s", r.all(), diff)
		}
		for _, text := range []string{"cannot be read from the rules database", "can be read from the rules database again"} {
			if n := strings.Count(log.String(), text); n != 1 {
				t.Errorf("%d lines have %q:\n%s", n, text, log.String())
			}
		}
	})
}

func TestWorker_StopsWithoutNotingWhatItCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), &receiver{answer: answers(time.Second, 200)}
		q.add(1, "s", 2)
		w := newWorker(q, r)
		stop := start(t, w)
		synctest.Wait()
		stop()
		if got := r.all(); !slices.Equal(got, []string{"1/s/0"}) || q.rows[0].Attempts != 0 {
			t.Errorf("sent %v, noted %+v", got, q.rows[0])
		}
		if b := w.Totals().Backlog; b != (alerts.Backlog{}) {
			t.Errorf("a worker that was stopped has the backlog %+v", b)
		}
		stop = start(t, newWorker(q, r)) // on another node
		pass(3 * time.Second)
		stop()
		if got := r.all(); !slices.Equal(got, []string{"1/s/0", "1/s/0", "1/s/1"}) {
			t.Errorf("sent %v", got)
		}
	})
}

func TestWorker_SendsOnlyWithTheLease(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		r.answer = answers(time.Minute, 200)
		q.add(1, "s", 1)
		w.Wake()
		synctest.Wait()
		q.set(func() { q.holder = "b" })
		pass(time.Hour)
		synctest.Wait()
		if got := r.all(); len(got) != 1 || q.states()["1/s/0"] != alerts.DeliveryWaiting || w.Totals().Waiting != 0 {
			t.Errorf("sent %v, states %v, totals %+v", got, q.states(), w.Totals())
		}
		q.set(func() { q.holder = "a" }) // it was only late
		pass(pollEvery + time.Minute)
		synctest.Wait()
		if q.states()["1/s/0"] != alerts.DeliveryDelivered {
			t.Errorf("states %v", q.states())
		}
	})
}

func TestWorker_410DisablesTheWebhook(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		r.answer = answers(0, 410)
		q.add(1, "s", 1)
		q.add(1, "t", 1)
		q.add(1, "u", 1)
		w.Wake()
		pass(time.Hour)
		synctest.Wait()
		if got := r.all(); len(got) > perWebhook || q.disabled[1] != goneReason {
			t.Errorf("sent %v, disabled: %q", got, q.disabled[1])
		}
		for id, state := range q.states() {
			if state != alerts.DeliveryWaiting {
				t.Errorf("%s is %s", id, state)
			}
		}
		if n := w.Totals().Attempts[alerts.ResultGone]; n != int64(len(r.all())) {
			t.Errorf("counted %d", n)
		}
	})
}

func TestWorker_CountsAndCleans(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		r.answer = answers(0, 500)
		q.add(1, "s", 3)
		pass(2*cleanEvery + countEvery)
		synctest.Wait()
		total := w.Totals()
		if total.Waiting != 3 || total.Oldest < 2*cleanEvery || q.cleaned != 3 || total.TooMany != 3 {
			t.Errorf("totals %+v, cleaned %d times", total, q.cleaned)
		}
	})
}

// Each time that a webhook begins to fail, or takes messages again, is one line in the log.
func TestWorker_LogsWhenAWebhookBeginsToFail(t *testing.T) {
	inBubble(t, func(t *testing.T, q *queue, r *receiver, w *Worker) {
		var log bytes.Buffer // read while the worker waits
		w.opt.Log = slog.New(slog.NewTextHandler(&log, nil))
		status := 500
		r.answer = func(ctx context.Context, m *alerts.Message) alerts.Attempt { return answers(0, status)(ctx, m) }
		const failed, again, gone = "a message to a webhook failed", "a webhook takes messages again", "is disabled"
		for _, step := range []struct {
			status int
			want   map[string]int // lines so far
		}{
			{500, map[string]int{failed: 1}},
			{200, map[string]int{failed: 1, again: 1}},
			{200, map[string]int{failed: 1, again: 1}},
			{503, map[string]int{failed: 2, again: 1}},
			{200, map[string]int{failed: 2, again: 2}},
			{410, map[string]int{failed: 2, again: 2, gone: 1}},
		} {
			q.set(func() { status = step.status })
			q.add(1, "s", 2)
			w.Wake()
			pass(5 * time.Minute)
			synctest.Wait()
			for _, text := range []string{failed, again, gone} {
				if n := strings.Count(log.String(), text); n != step.want[text] {
					t.Errorf("after %d: %d lines have %q, want %d:\n%s", step.status, n, text, step.want[text], log.String())
				}
			}
		}
	})
}
