package redisstore

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

func TestSlotOf_FollowsTheClusterSpecification(t *testing.T) {
	for key, want := range map[string]int{
		"123456789":            12739, // the specification's own check value, 0x31C3
		"foo":                  12182,
		"{foo}bar":             12182,
		"sl:{foo}|1|sc":        12182,
		"a{}b":                 slotOf("a{}b"),
		"{user1000}.following": 3443,
	} {
		if got := slotOf(key); got != want {
			t.Errorf("%s: got %d, want %d", key, got, want)
		}
	}
}

func TestReader_ReadsBackWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-limiter.MaxExact, limiter.MaxExact).Draw(t, "n")
		s := rapid.StringN(0, 64, 64).Draw(t, "s")
		r := reader{s: string(appendString(appendInt(nil, n), s))}
		if got := r.integer(); got != n {
			t.Fatalf("got %d, want %d", got, n)
		}
		if got := r.text(); got != s || r.bad || r.s != "" {
			t.Fatalf("got %q, want %q, %+v", got, s, r)
		}
	})
}

func TestUnpack_MalformedReplyIsAnErrorNotADecision(t *testing.T) {
	for _, reply := range []string{"", "x", "\x91\x00", "\x92\x00\x01", "\x91\xc0", "\x92\x02\xdb", "\x93\x02\xa5ab", "\x93\x00\xcb\x00"} {
		o := &op{most: []most{{limit: 1}}}
		unpack(reply, []*op{o})
		var se *limiter.StoreError
		if !errors.As(o.err, &se) || se.Cause != limiter.CauseInternal {
			t.Errorf("%q: got %v", reply, o.err)
		}
	}
}
