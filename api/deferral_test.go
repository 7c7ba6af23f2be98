package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/deferred/filequeue"
	"sluice/limiter"
	"sluice/rules"
)

// deferring is perUser with a queue.
func deferringRule(name string, limit int64) rules.Rule {
	r := perUser(name, limit)
	r.OverLimit, r.Defer = "defer", &rules.Defer{MaxItems: 100, MaxAgeMS: 60_000}
	return r
}

// withQueue gives the server a queue in files that keeps the fixture's time.
func withQueue(t *testing.T, q *decide.Queue) func(*decide.CheckerOptions, *Deps) {
	return func(o *decide.CheckerOptions, _ *Deps) {
		files, err := filequeue.Open(filequeue.Options{Dir: t.TempDir(), Now: o.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = files.Close() })
		o.Deferred = files
		if q != nil {
			*q = o.Deferred
		}
	}
}

type released struct {
	Items []struct {
		Ticket     string `json:"ticket"`
		Payload    string `json:"payload"`
		Key        string `json:"key"`
		AgeMS      int64  `json:"age_ms"`
		Deliveries int64  `json:"deliveries"`
	} `json:"items"`
	Depth        int64  `json:"depth"`
	OldestAgeMS  *int64 `json:"oldest_age_ms"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

func (f *fixture) release(query string) released {
	f.t.Helper()
	var r released
	f.do(http.MethodGet, "/ratelimit/deferred/"+query, "").want(http.StatusOK).decode(&r)
	return r
}

func (r released) payloads() string {
	var out []string
	for _, it := range r.Items {
		out = append(out, it.Payload)
	}
	return strings.Join(out, " ")
}

func (r released) tickets() string {
	var out []string
	for _, it := range r.Items {
		out = append(out, it.Ticket)
	}
	b, _ := json.Marshal(map[string]any{"tickets": out})
	return string(b)
}

func TestDefer_ATicketNowAndTheRequestLaterAtTheRulesRate(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 2)}, withQueue(t, nil))
	for range 2 {
		if r := f.check(`{"user":"42","payload":"x"}`); !r.Allowed || r.Ticket != "" {
			t.Fatalf("got %+v, want it allowed", r)
		}
	}
	tickets := map[string]bool{}
	for i := range 5 {
		r := f.check(fmt.Sprintf(`{"user":"42","payload":"mail %d"}`, i))
		if r.Allowed || r.Status != http.StatusAccepted || r.Ticket == "" || tickets[r.Ticket] {
			t.Fatalf("got %+v, want a ticket of its own", r)
		}
		if r.Headers["Retry-After"] != "" || r.Body["ticket"] != r.Ticket || r.Body["status"] != float64(202) {
			t.Errorf("headers %v, body %v", r.Headers, r.Body)
		}
		tickets[r.Ticket] = true
	}
	if r := f.release("mails?max=100"); len(r.Items) != 0 || r.Depth != 5 || r.RetryAfterMS != 1000 {
		t.Errorf("released before its turn: %+v", r)
	}
	f.now.Add(1000)
	first := f.release("1?max=100")
	if first.payloads() != "mail 0 mail 1" || first.Depth != 5 || first.Items[0].Key != "user:42" ||
		first.Items[0].AgeMS != 1000 {
		t.Errorf("got %+v", first)
	}
	if f.check(`{"user":"42"}`).Allowed {
		t.Error("live traffic and what was released do not share the limit")
	}
	var acked struct{ Acked int }
	f.post("/ratelimit/deferred/mails/ack", first.tickets()).decode(&acked)
	if acked.Acked != 2 {
		t.Errorf("acked %d, want 2", acked.Acked)
	}
	f.now.Add(1000)
	if !f.check(`{"user":"42"}`).Allowed {
		t.Error("denied in a fresh window")
	}
	if r := f.release("mails?max=100"); r.payloads() != "mail 2" {
		t.Errorf("got %q beside a live request, want one", r.payloads())
	}
}

func TestDefer_OnlyWhoSendsAPayloadIsDeferred(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 0+1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	if r := f.check(`{"user":"42"}`); r.Status != http.StatusTooManyRequests || r.Ticket != "" ||
		r.Headers["Retry-After"] == "" {
		t.Errorf("without payload: %+v", r)
	}
	if r := f.check(`{"user":"42","payload":""}`); r.Status != http.StatusAccepted || r.Ticket == "" {
		t.Errorf("with an empty payload: %+v", r)
	}
	if r := f.check(`{"user":"42","payload":"x","weight":0}`); r.Ticket != "" {
		t.Errorf("a look was deferred: %+v", r)
	}
	if r := f.check(`{"user":"42","payload":"x","weight":2}`); r.Status != http.StatusTooManyRequests {
		t.Errorf("what can never pass was deferred: %+v", r)
	}
}

func TestDefer_AnotherRulesDenialIsADenial(t *testing.T) {
	hard := perUser("hard", 1)
	hard.WindowMS = 60_000
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1), hard}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	if r := f.check(`{"user":"42","payload":"x"}`); r.Status != http.StatusTooManyRequests || r.Ticket != "" {
		t.Errorf("got %+v", r)
	}
	shadow := perUser("trial", 0)
	shadow.Mode = "shadow"
	g := newFixture(t, []rules.Rule{deferringRule("mails", 1), shadow}, withQueue(t, nil))
	g.check(`{"user":"42"}`)
	if r := g.check(`{"user":"42","payload":"x"}`); r.Status != http.StatusAccepted {
		t.Errorf("a shadow rule had a say: %+v", r)
	}
}

func TestDefer_AFullQueueIsADenialWithAReason(t *testing.T) {
	r := deferringRule("mails", 1)
	r.Defer.MaxItems = 2
	f := newFixture(t, []rules.Rule{r}, withQueue(t, nil))
	for range 3 {
		f.check(`{"user":"42","payload":"x"}`)
	}
	got := f.check(`{"user":"42","payload":"x"}`)
	if got.Status != http.StatusTooManyRequests || got.NotDeferred != "full" || got.Headers["Retry-After"] == "" {
		t.Errorf("got %+v", got)
	}
	if want := "mails refused full 1"; !slices.Contains(f.seen.deferrals, want) {
		t.Errorf("counted %q, want %q among them", f.seen.deferrals, want)
	}
	if f.now.Add(60_001); f.release("mails?max=5").Depth != 0 {
		t.Error("what is too old was kept")
	}
}

// awayQueue fails everything.
type awayQueue struct{}

func (awayQueue) Put(context.Context, int64, decide.QueueItem, decide.QueueBounds) (string, error) {
	return "", decide.ErrQueueUnavailable
}

func (awayQueue) Withdraw(context.Context, int64, string) (string, error) {
	return "", decide.ErrQueueUnavailable
}

func (awayQueue) Lease(context.Context, int64, decide.QueueWant) ([]decide.QueueItem, error) {
	return nil, decide.ErrQueueUnavailable
}

func (awayQueue) Finish(context.Context, int64, []string, []string) (int, error) {
	return 0, decide.ErrQueueUnavailable
}

func (awayQueue) Drop(context.Context, int64, int64) (int, error) {
	return 0, decide.ErrQueueUnavailable
}

func (awayQueue) Rules(context.Context, int) ([]int64, error) { return nil, decide.ErrQueueUnavailable }

func (awayQueue) Status(context.Context, int64) (decide.QueueStatus, error) {
	return decide.QueueStatus{}, decide.ErrQueueUnavailable
}

func TestDefer_AQueueThatIsAwayIsADenialWithAReason(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)},
		func(o *decide.CheckerOptions, _ *Deps) { o.Deferred = awayQueue{} })
	f.check(`{"user":"42"}`)
	if r := f.check(`{"user":"42","payload":"x"}`); r.Status != http.StatusTooManyRequests ||
		r.NotDeferred != "unavailable" {
		t.Errorf("got %+v", r)
	}
	for _, path := range []string{"/ratelimit/deferred", "/ratelimit/deferred/mails?max=1",
		"/ratelimit/deferred/mails?max=0"} {
		if a := f.do(http.MethodGet, path, "").want(http.StatusServiceUnavailable); a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", path)
		}
	}
	f.do(http.MethodPost, "/ratelimit/deferred/mails/ack", `{"tickets":["a"]}`).want(http.StatusServiceUnavailable)
}

func TestDefer_ADegradedDecisionNeitherDefersNorReleases(t *testing.T) {
	for _, mode := range []string{"open", "closed", "local"} {
		r := deferringRule("mails", 1)
		r.FailMode = mode
		f := newFixture(t, []rules.Rule{r}, withQueue(t, nil))
		f.check(`{"user":"42"}`)
		if got := f.check(`{"user":"42","payload":"a"}`); got.Ticket == "" {
			t.Fatalf("%s: %+v", mode, got)
		}
		f.store.fail(errAway)
		for range 3 { // more than the local store allows
			if got := f.check(`{"user":"42","payload":"b"}`); got.Ticket != "" || got.Status == http.StatusAccepted {
				t.Errorf("%s: deferred while degraded: %+v", mode, got)
			}
		}
		f.now.Add(1000)
		f.do(http.MethodGet, "/ratelimit/deferred/mails?max=5", "").want(http.StatusServiceUnavailable)
		f.store.fail(nil)
		if got := f.release("mails?max=5"); got.payloads() != "a" || got.Items[0].Deliveries != 1 {
			t.Errorf("%s: afterwards %+v", mode, got)
		}
	}
}

func TestDefer_OneBucketDoesNotWaitForAnother(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"busy"}`)
	for i := range 30 {
		f.check(fmt.Sprintf(`{"user":"busy","payload":"busy%d"}`, i))
	}
	f.check(`{"user":"calm"}`)
	f.check(`{"user":"calm","payload":"calm"}`)
	f.now.Add(1000)
	f.check(`{"user":"busy"}`) // live traffic takes the one there is
	r := f.release("mails?max=100")
	if r.payloads() != "calm" || r.Depth != 31 || r.RetryAfterMS != 1000 {
		t.Errorf("got %q, %+v", r.payloads(), r)
	}
	f.now.Add(1000)
	if r := f.release("mails?max=100"); r.payloads() != "busy0" {
		t.Errorf("got %q: the oldest comes first, though it was passed over", r.payloads())
	}
}

func TestDefer_WhatIsNotAcknowledgedComesBackAndIsChargedAgain(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	f.check(`{"user":"42","payload":"a"}`)
	f.now.Add(1000)
	if r := f.release("mails?hold_ms=5000"); r.payloads() != "a" {
		t.Fatalf("got %+v", r)
	}
	f.now.Add(4999)
	if r := f.release("mails"); len(r.Items) != 0 || r.RetryAfterMS != -1 || r.Depth != 1 {
		t.Fatalf("given twice within its hold: %+v", r)
	}
	f.now.Add(1)
	r := f.release("mails")
	if r.payloads() != "a" || r.Items[0].Deliveries != 2 {
		t.Fatalf("got %+v", r)
	}
	if f.check(`{"user":"42"}`).Allowed {
		t.Error("the second delivery was not charged")
	}
}

func TestDefer_ALostAnswerOfTheStoreIsNotChargedTwice(t *testing.T) {
	r := deferringRule("mails", 2)
	r.WindowMS = 10_000
	f := newFixture(t, []rules.Rule{r}, withQueue(t, nil))
	f.check(`{"user":"42","weight":2}`)
	f.check(`{"user":"42","payload":"a"}`)
	f.now.Add(10_000)
	f.store.loseAnswers(true)
	f.do(http.MethodGet, "/ratelimit/deferred/mails", "").want(http.StatusServiceUnavailable)
	f.store.loseAnswers(false)
	if r := f.release("mails"); r.payloads() != "a" {
		t.Fatalf("got %+v", r)
	}
	if got := f.check(`{"user":"42"}`); !got.Allowed || *got.Remaining != 0 {
		t.Errorf("got %+v: one unit was spent by one release", got)
	}
}

func TestDefer_TheSameRequestIDGetsTheSameTicket(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	const body = `{"user":"42","payload":"a","request_id":"r1"}`
	first, again := f.check(body), f.check(body)
	if first.Ticket == "" || first.Ticket != again.Ticket {
		t.Errorf("tickets %q and %q", first.Ticket, again.Ticket)
	}
	if r := f.release("mails?max=0"); r.Depth != 1 || *r.OldestAgeMS != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestDefer_KeepsHostilePayloadsAsTheyAreAndNoCredential(t *testing.T) {
	key := deferringRule("keys", 1)
	key.Scope = "apikey"
	var q decide.Queue
	f := newFixture(t, []rules.Rule{key}, withQueue(t, &q))
	payload := "\x00\x01\r\n\"}{\u2028<script>\\ud800 " + strings.Repeat("é", 4000) + "\x7f"
	sent, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
	f.check(`{"api_key":"` + secret + `"}`)
	if r := f.check(`{"api_key":"` + secret + `","payload":` + string(sent) + `}`); r.Ticket == "" {
		t.Fatalf("got %+v", r)
	}
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 1, Hold: time.Minute})
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	if strings.Contains(string(items[0].Body)+items[0].Bucket, secret) {
		t.Error("the API key is stored in clear")
	}
	if _, err := q.Finish(t.Context(), 1, nil, []string{items[0].Ticket}); err != nil {
		t.Fatal(err)
	}
	f.now.Add(1000)
	if r := f.release("keys"); r.payloads() != payload {
		t.Errorf("got %q", r.payloads())
	}
	if f.check(`{"api_key":"` + secret + `"}`).Allowed {
		t.Error("the release was charged to another bucket than that of the key")
	}
}

func TestDefer_DropsWhatItCannotReadWithACount(t *testing.T) {
	var q decide.Queue
	f := newFixture(t, []rules.Rule{deferringRule("mails", 5)}, withQueue(t, &q))
	for _, body := range []string{"", "\x02", "\x01\x01\x7f{}", "\x01\x01\x02[]"} {
		if _, err := q.Put(t.Context(), 1, decide.QueueItem{Body: []byte(body)},
			decide.QueueBounds{Items: 9, Age: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if r := f.release("mails?max=9"); len(r.Items) != 0 || r.Depth != 0 {
		t.Errorf("got %+v", r)
	}
	if n := len(f.seen.deferrals); n != 4 || f.seen.deferrals[0] != "mails dropped unreadable 1" {
		t.Errorf("counted %q", f.seen.deferrals)
	}
}

func TestDefer_ARuleThatIsGoneLetsItsQueueRunDry(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	f.check(`{"user":"42","payload":"a"}`)
	if err := f.book.DeleteRule(t.Context(), rules.Actor{Kind: "system", Name: "test"}, 1, 0); err != nil {
		t.Fatal(err)
	}
	f.reload()
	r := f.release("1")
	if r.payloads() != "a" || r.Items[0].Key != "" {
		t.Errorf("got %+v", r)
	}
}

func TestDefer_ListsTheQueues(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("plain", 1), deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	var list struct{ Queues []queueStatus }
	f.do(http.MethodGet, "/ratelimit/deferred", "").want(http.StatusOK).decode(&list)
	if len(list.Queues) != 1 || list.Queues[0].Rule != "mails" || list.Queues[0].RuleID != 2 ||
		*list.Queues[0].MaxItems != 100 || list.Queues[0].OldestAgeMS != nil {
		t.Errorf("got %+v", list.Queues)
	}
}

func TestDefer_HeadReleasesNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	f.check(`{"user":"42"}`)
	f.check(`{"user":"42","payload":"a"}`)
	f.now.Add(1000)
	f.do(http.MethodHead, "/ratelimit/deferred/mails", "").want(http.StatusOK)
	if r := f.release("mails"); r.payloads() != "a" || r.Items[0].Deliveries != 1 {
		t.Errorf("got %+v", r)
	}
}

func TestDefer_RefusesWhatMakesNoSense(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1)}, withQueue(t, nil))
	long := strings.Repeat("x", decide.MaxPayload+1)
	for path, body := range map[string]string{
		"/ratelimit/check":   `{"user":"42","payload":"` + long + `"}`,
		"/ratelimit/charge":  `{"user":"42","payload":"x"}`,
		"/ratelimit/refund":  `{"user":"42","payload":"x"}`,
		"/ratelimit/explain": `{"user":"42","payload":"x"}`,
	} {
		if got := f.do(http.MethodPost, path, body).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got,
			[]string{"payload"}) {
			t.Errorf("%s: complained about %v", path, got)
		}
	}
	f.do(http.MethodPost, "/ratelimit/check",
		`{"key":"k","limit":1,"window_ms":1000,"payload":"x"}`).want(http.StatusUnprocessableEntity)
	f.do(http.MethodPost, "/ratelimit/check/batch",
		`{"checks":[{"user":"42","payload":"x"}]}`).want(http.StatusUnprocessableEntity)
	for _, query := range []string{"mails?max=101", "mails?max=-1", "mails?max=x", "mails?hold_ms=0",
		"mails?hold_ms=3600001", "mails?other=1"} {
		f.do(http.MethodGet, "/ratelimit/deferred/"+query, "").want(http.StatusUnprocessableEntity)
	}
	for _, body := range []string{`{}`, `{"tickets":[]}`, `{"tickets":"a"}`, `{"tickets":[1]}`, `{"tickets":[""]}`} {
		f.do(http.MethodPost, "/ratelimit/deferred/mails/ack", body).want(http.StatusUnprocessableEntity)
	}
	f.do(http.MethodPost, "/ratelimit/deferred/mails/ack", `{"tickets":["a"],"x":1}`).want(http.StatusBadRequest)
	f.do(http.MethodGet, "/ratelimit/deferred/other", "").want(http.StatusNotFound)
	var acked struct{ Acked int }
	f.post("/ratelimit/deferred/7/ack", `{"tickets":["\u0000","zz"]}`).decode(&acked)
	if acked.Acked != 0 {
		t.Errorf("acked %d strange tickets", acked.Acked)
	}
}

var errLost = &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}

func TestDefer_AQueueOutlivesItsRule(t *testing.T) {
	f := newFixture(t, []rules.Rule{deferringRule("mails", 1), deferringRule("texts", 1), deferringRule("calls", 1)},
		withQueue(t, nil))
	ofRoute := func(name string) string { return `{"user":"42","payload":"` + name + `"}` }
	for id, name := range []string{"mails", "texts", "calls"} {
		for other := 1; other <= 3; other++ {
			f.do(http.MethodPatch, fmt.Sprint("/ratelimit/rules/", other),
				fmt.Sprintf(`{"is_active":%t}`, other == id+1)).want(http.StatusOK)
		}
		for range 2 {
			f.check(ofRoute(name))
		}
	}
	f.do(http.MethodDelete, "/ratelimit/rules/2", "").want(http.StatusNoContent)
	var got struct {
		Queues []struct {
			Rule     string `json:"rule"`
			RuleID   int64  `json:"rule_id"`
			Depth    int64  `json:"depth"`
			MaxItems *int64 `json:"max_items"`
		} `json:"queues"`
	}
	before := f.book.lookUps
	f.do(http.MethodGet, "/ratelimit/deferred", "").want(http.StatusOK).decode(&got)
	f.do(http.MethodGet, "/ratelimit/deferred/nothing-of-that-name", "").want(http.StatusNotFound)
	if n := f.book.lookUps - before; n != 2 {
		t.Errorf("%d look-ups of names, want one a call", n)
	}
	var lines []string
	for _, q := range got.Queues {
		lines = append(lines, fmt.Sprint(q.RuleID, q.Rule, q.Depth, q.MaxItems != nil))
	}
	if want := "1mails1 false 2texts1 false 3calls1 true"; strings.Join(lines, " ") != want {
		t.Errorf("queues %q, want %q", strings.Join(lines, " "), want)
	}
	for _, name := range []string{"mails", "texts"} { // switched off, deleted
		f.now.Add(1000) // what is released is charged to the rule that is left
		r := f.release(name)
		if r.payloads() != name {
			t.Errorf("released %q from the queue of %s", r.payloads(), name)
		}
		var acked struct{ Acked int }
		f.post("/ratelimit/deferred/"+name+"/ack", r.tickets()).decode(&acked)
		if acked.Acked != 1 {
			t.Errorf("acknowledged %d of %s, want 1", acked.Acked, name)
		}
	}
	f.do(http.MethodGet, "/ratelimit/deferred/texts", "").want(http.StatusNotFound) // nothing waits any more
}
