package home

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/region"
	"sluice/limiter"
)

func headOf(from, to, prefix string) *region.Head {
	return &region.Head{From: from, To: to, Prefix: prefix, At: 1_795_000_000_000, Set: 7}
}

func someCalls() []limiter.Request {
	return []limiter.Request{
		{Op: limiter.OpTake, ID: "a", Attempt: limiter.MaxExact, Keep: 5, Asks: []limiter.Ask{
			{Key: "{user:ada}|1|fw", Weight: 3, Look: true, Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: 10,
				Window: 1000, Anchor: -5}},
			{Key: "{user:ada}|2|sb", Limit: limiter.Limit{Algorithm: limiter.SlidingWindowBuckets, Count: 1, Window: 60_000,
				Buckets: 60}},
		}},
		{Op: limiter.OpRelease, Asks: []limiter.Ask{{Key: "{user:bob}|3|co",
			Limit: limiter.Limit{Algorithm: limiter.Concurrency, Count: 2, Window: 1000}}}},
	}
}

func encoded(calls []limiter.Request) []byte {
	b := appendStart(headOf("eu", "us", "sl:"), 250*time.Millisecond, len(calls))
	for i := range calls {
		b = appendCall(b, &calls[i])
	}
	return b
}

func TestMessage_ArrivesAsItWasSent(t *testing.T) {
	m, err := decode(encoded(someCalls()))
	if err != nil {
		t.Fatal(err)
	}
	want := &message{Head: *headOf("eu", "us", "sl:"), Wait: 250 * time.Millisecond, Calls: someCalls()}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Error(diff)
	}
	calls := []limiter.Call{
		{Result: limiter.Result{Allowed: true, Replayed: true, At: 9, Limits: []limiter.Decision{
			{Allowed: true, Limit: 10, Remaining: 3, Reset: limiter.Never, Refunded: 2, Rate: 4, Delay: 8, BanBegan: true},
			{RetryAfter: limiter.Never, Delay: limiter.Never}}}},
		{Err: &limiter.StoreError{Cause: limiter.CauseLoading, Unknown: true, Err: errors.New("secret")}},
		{Err: errForeign},
		{Err: &limiter.StoreError{Cause: "made up", Err: errors.New("x")}},
	}
	b := appendNumbers([]byte{Version}, int64(len(calls)))
	for i := range calls {
		b = appendAnswer(b, &calls[i])
	}
	got := make([]limiter.Call, len(calls))
	if !decodeAnswers(b, []int{2, 1, 1, 1}, got) {
		t.Fatal("the answers were not read")
	}
	if diff := cmp.Diff(calls[0].Result, got[0].Result); diff != "" {
		t.Error(diff)
	}
	for i, want := range []struct {
		cause   limiter.Cause
		unknown bool
	}{1: {limiter.CauseLoading, true}, 2: {limiter.CauseInternal, false}, 3: {limiter.CauseInternal, false}} {
		var se *limiter.StoreError
		if i > 0 && (!errors.As(got[i].Err, &se) || se.Cause != want.cause || se.Unknown != want.unknown) {
			t.Errorf("call %d: %v", i, got[i].Err)
		}
	}
	for n := range b {
		if decodeAnswers(b[:n], []int{2, 1, 1, 1}, make([]limiter.Call, 4)) {
			t.Errorf("%d bytes of %d are read as answers", n, len(b))
		}
	}
	if decodeAnswers(b, []int{2, 1, 1}, make([]limiter.Call, 3)) ||
		decodeAnswers(b, []int{1, 1, 1, 1}, make([]limiter.Call, 4)) {
		t.Error("answers to other calls are read")
	}
}

func TestDecode_RefusesWhatNoSenderWrites(t *testing.T) {
	good := encoded(someCalls())
	apply := someCalls()
	apply[0].Op = limiter.OpApply
	for name, b := range map[string][]byte{
		"nothing": nil, "too long": make([]byte, maxBody+1), "another version": append([]byte{Version + 1}, good[1:]...),
		"more behind it": append(append([]byte(nil), good...), 0), "no calls": encoded(nil), "applied sums": encoded(apply),
		"no asks": encoded([]limiter.Request{{}}), "no key": encoded([]limiter.Request{{Asks: make([]limiter.Ask, 1)}}),
		"too many calls": appendStart(headOf("eu", "us", "sl:"), time.Second, maxCalls+1),
	} {
		if _, err := decode(b); !errors.Is(err, region.ErrMessage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range good {
		if _, err := decode(good[:n]); err == nil {
			t.Errorf("%d bytes of %d are a message", n, len(good))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(encoded(someCalls()))
	f.Add([]byte{Version})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		for i := range m.Calls {
			if len(m.Calls[i].Asks) == 0 {
				t.Fatal("a call without an ask")
			}
		}
		again := appendStart(&m.Head, m.Wait, len(m.Calls))
		for i := range m.Calls {
			again = appendCall(again, &m.Calls[i])
		}
		back, err := decode(again)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		if diff := cmp.Diff(m, back); diff != "" {
			t.Error(diff)
		}
	})
}

func FuzzDecodeAnswers(f *testing.F) {
	f.Add([]byte{Version, 1, 2}, 1)
	f.Fuzz(func(_ *testing.T, b []byte, asks int) {
		_ = decodeAnswers(b, []int{asks, 1}, make([]limiter.Call, 2))
	})
}
