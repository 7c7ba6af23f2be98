package limiter

import "testing"

func TestRecordTTL_OfABriefRequestIsShort(t *testing.T) {
	for _, c := range []struct {
		req          Request
		needed, want int64
	}{
		{Request{}, 1, ReplayWindow},
		{Request{}, 2 * RecordTTLMax, RecordTTLMax},
		{Request{Keep: 2 * RecordTTLMax}, 1, 2 * RecordTTLMax},
		{Request{Brief: true}, 1, ReplayWindow},
		{Request{Brief: true}, RecordTTLMax, RecordBrief},
	} {
		if got := c.req.RecordTTL(c.needed); got != c.want {
			t.Errorf("%+v, needed for %d: %d, want %d", c.req, c.needed, got, c.want)
		}
	}
}
