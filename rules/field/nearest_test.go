package field

import (
	"strings"
	"testing"
)

func TestNearest_NamesWhatWasMeant(t *testing.T) {
	known := []string{"limit", "limits", "window_ms", "algorithm", "burst", "request_id", "fail_mode"}
	for name, want := range map[string]string{
		"window":    "window_ms",
		"windowms":  "window_ms",
		"limt":      "limit",
		"requestId": "request_id",
		"owner":     "",
		"":          "",
		"x":         "",

		strings.Repeat("window", 1<<20): "",
	} {
		if got := Nearest(name, known); got != want {
			t.Errorf("%.20q: got %q, want %q", name, got, want)
		}
	}
}
