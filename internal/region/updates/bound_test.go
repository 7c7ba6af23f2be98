package updates

import "testing"

func TestBound_IsWhatTheOthersAdmitUnheard(t *testing.T) {
	for _, c := range []struct {
		rate, delay, interval int64
		regions               int
		want                  int64
	}{{120, 100, 200, 3, 24}, {120, 100, 200, 1, 0}, {1, 100, 200, 2, 1}, {0, 100, 200, 5, 0}} {
		if got := Bound(c.rate, c.delay, c.interval, c.regions); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
