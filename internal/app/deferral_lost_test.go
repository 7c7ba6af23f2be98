package app

import (
	"context"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/deferred/redisqueue"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/redisstore"
	"sluice/rules"
	"sluice/rules/match"
)

// TestDeferred_OnlyWhatHasATicketRuns: answers of Redis are late or lost, and in the end the queue holds the requests
// with a ticket and no other.
func TestDeferred_OnlyWhatHasATicketRuns(t *testing.T) {
	t.Parallel()
	url, add, heal := through(t, testenv.Redis(t).Addr)
	client, err := redisstore.NewClient(url, redisstore.ClientOptions{PoolSize: queueConnections,
		DialTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	q, err := redisqueue.New(redisqueue.Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	withdrawals := decide.NewWithdrawals(q)
	t.Cleanup(withdrawals.Close)
	set, err := match.Compile([]rules.Rule{{ID: 1, Name: "mails", Scope: "user", Limit: 1, WindowMS: 1000, IsActive: true,
		Algorithm: "fixed_window", Mode: "enforce", OverLimit: "defer",
		Defer: &rules.Defer{MaxItems: 1000, MaxAgeMS: 3_600_000}}}, 1, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var sets match.Current
	sets.Store(set)
	counters := memstore.New(memstore.Options{Clock: func() int64 { return 1_795_260_000_000 }})
	t.Cleanup(func() { counters.Close() })
	checker, err := decide.NewChecker(decide.CheckerOptions{Sets: &sets, Store: counters, Now: time.Now,
		Timeout: 40 * time.Millisecond, Deferred: q, Withdrawals: withdrawals})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() (a decide.Answer) {
		t.Helper()
		if err := checker.Do(t.Context(), &decide.Question{Op: limiter.OpTake, Weight: 1, Deferrable: true,
			Descriptor: match.Descriptor{User: "42"}}, &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	ask()
	add(`{"name":"late","type":"latency","stream":"downstream","attributes":{"latency":30,"jitter":30}}`)
	add(`{"name":"cut","type":"reset_peer","toxicity":0.1,"attributes":{"timeout":0}}`)
	tickets := map[string]bool{}
	kinds := map[string]int{}
	for range 120 {
		switch a := ask(); {
		case a.Ticket != "":
			tickets[a.Ticket] = true
		case a.DeferralUnknown():
			kinds["unknown"]++
		default:
			kinds[a.NotDeferred]++
		}
	}
	heal()
	if kinds["unavailable"]+kinds["unknown"] == 0 {
		t.Errorf("%d tickets and %v: no answer was lost", len(tickets), kinds)
	}
	eventually(t, "the queue holds what has a ticket", func() bool {
		st, err := q.Status(context.Background(), 1)
		return err == nil && st.Depth == int64(len(tickets))
	})
	items, err := q.Lease(t.Context(), 1, decide.QueueWant{Max: 1000, Hold: time.Hour})
	if err != nil || len(items) != len(tickets) {
		t.Fatalf("%d leased, %v; want %d", len(items), err, len(tickets))
	}
	for i := range items {
		if !tickets[items[i].Ticket] {
			t.Errorf("%s has no ticket and runs", items[i].Ticket)
		}
	}
}
