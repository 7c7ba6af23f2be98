package memstore

import (
	"bytes"
	"context"
	"testing"

	"sluice/limiter"
	"sluice/limiter/storetest"
)

// banned is a request of one unit of a minute, two denials of which begin a ban of 10 s, then 20.
func banned(op limiter.Op, id string) *limiter.Request {
	const key = limiter.Key("{user:42}|7|fw")
	return &limiter.Request{Op: op, ID: id, Asks: []limiter.Ask{
		{Key: key, Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 1, Window: 60_000}, Weight: 1},
		{Key: limiter.BanKey(key), Limit: limiter.BanLimit(2, 1000, 10_000, 2, 40_000)},
	}}
}

func askFor(t *testing.T, s *Store, op limiter.Op, id string) limiter.Result {
	t.Helper()
	var res limiter.Result
	if err := s.Do(context.Background(), banned(op, id), &res); err != nil {
		t.Fatal(err)
	}
	return res
}

func TestSnapshot_KeepsARunningBan(t *testing.T) {
	clock := storetest.NewClock(1_795_000_000_000)
	open := func() *Store {
		s := New(Options{Clock: clock.Now})
		t.Cleanup(func() { s.Close() })
		return s
	}
	first := open()
	for range 3 {
		askFor(t, first, limiter.OpTake, "")
	}
	clock.Advance(4000)
	var buf bytes.Buffer
	if err := first.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	clock.Advance(3000) // the node is down
	second := open()
	if err := second.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	if d := askFor(t, second, limiter.OpTake, "").Limits[1]; d.Allowed || d.RetryAfter != 3000 {
		t.Errorf("got %+v, want the ban for another 3 s", d)
	}
	clock.Advance(3000)
	if d := askFor(t, second, limiter.OpTake, "").Limits[1]; !d.Allowed || d.Remaining != 1 {
		t.Errorf("got %+v, want one counted denial after the ban", d)
	}
	if d := askFor(t, second, limiter.OpTake, "").Limits[1]; !d.BanBegan || d.RetryAfter != 20_000 {
		t.Errorf("got %+v, want a second ban of twice the length", d)
	}
}

// A record settles limits; a ban is not one of them.
func TestRecords_DoNotNameBans(t *testing.T) {
	s := New(Options{Clock: storetest.NewClock(1_795_000_000_000).Now})
	defer s.Close()
	askFor(t, s, limiter.OpTake, "a")
	for range 2 {
		askFor(t, s, limiter.OpTake, "")
	}
	askFor(t, s, limiter.OpCharge, "b")
	askFor(t, s, limiter.OpSettle, "b")
	records := 0
	for i := range s.records {
		for r := s.records[i].book.order.first; r != nil; r = r.links[0].next {
			records++
			if len(r.keys) != 2 || r.charged[1] != (limiter.Charged{}) {
				t.Errorf("%q: got %+v", r.name.id, r.charged)
			}
		}
	}
	if records != 2 {
		t.Errorf("%d records, want 2", records)
	}
}
