package script

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
)

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

func TestDecode_MalformedReplyIsAnErrorNotADecision(t *testing.T) {
	for _, reply := range []string{"", "x", "\x91\x00", "\x92\x00\x01", "\x91\xc0", "\x92\x02\xdb", "\x93\x02\xa5ab",
		"\x93\x00\xcb\x00"} {
		o := &Request{most: []most{{limit: 1}}}
		Decode(reply, []*Request{o})
		var se *limiter.StoreError
		if !errors.As(o.Err, &se) || se.Cause != limiter.CauseInternal {
			t.Errorf("%q: got %v", reply, o.Err)
		}
	}
}
