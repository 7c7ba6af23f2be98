package memstore_test

import (
	"bytes"
	"fmt"
	"testing"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

func TestSnapshot_ManySlotsAreHeldAfterIt(t *testing.T) {
	clock := storetest.NewClock(noon)
	l := limiter.Limit{Algorithm: limiter.Concurrency, Count: 5000, Window: 60_000}
	first, second := newStore(t, memstore.Options{Clock: clock.Now}), newStore(t, memstore.Options{Clock: clock.Now})
	for i := range 1000 {
		req := request(limiter.OpTake, fmt.Sprint("slot-", i), 1, l)
		req.Asks[0].Weight = int64(1 + i%3)
		mustDo(t, first, req)
		clock.Advance(int64(i % 2))
	}
	clock.Advance(-70_000) // the slots are moved to this time
	mustDo(t, first, request(limiter.OpPeek, "", 1, l))
	var buf bytes.Buffer
	if err := first.Snapshot(&buf); err != nil {
		t.Fatal(err)
	}
	if err := second.Restore(&buf); err != nil {
		t.Fatal(err)
	}
	for _, req := range []*limiter.Request{
		request(limiter.OpPeek, "", 1, l), request(limiter.OpTake, "slot-500", 1, l),
		request(limiter.OpRelease, "slot-500", 1, l),
		request(limiter.OpRelease, "", 1, l), request(limiter.OpRenew, "slot-1", 1, l), request(limiter.OpTake, "new", 1, l),
	} {
		want, got := mustDo(t, first, req), mustDo(t, second, req)
		if got.Limits[0] != want.Limits[0] || !got.Allowed {
			t.Errorf("%s %q: got %+v, want %+v", req.Op, req.ID, got, want)
		}
	}
	if got := mustDo(t, second, request(limiter.OpPeek, "", 1, l)).Limits[0].Remaining; got != 5000-1999+3+1-1 {
		t.Errorf("%d units remain", got)
	}
}
