package view

import (
	"net/url"
	"strconv"
	"testing"
	"time"
)

// TestParseRange_IsAsLongAsItsName: a range with a name has that length, and begins no more than one point earlier.
func TestParseRange_IsAsLongAsItsName(t *testing.T) {
	t.Parallel()
	units := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	// A moment at which every point of these ranges begins.
	now := time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)
	for _, l := range rangeLengths {
		last := len(l.name) - 1
		n, err := strconv.Atoi(l.name[:last])
		want := time.Duration(n) * units[l.name[last]]
		if err != nil || l.length != want {
			t.Errorf("%s is %v long, and not %v (%v)", l.name, l.length, want, err)
		}
		r := ParseRange(url.Values{"range": {l.name}}, now, "1h")
		if got := r.To.Sub(r.From); len(r.Problems) > 0 || got < want || got >= want+r.Width {
			t.Errorf("the last %s are %v, and not %v to one point of %v more: %v", l.name, got, want, r.Width, r.Problems)
		}
	}
}
