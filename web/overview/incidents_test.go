package overview

import (
	"testing"
	"time"
)

func TestLengthWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 20 * time.Millisecond: "0 s", 600 * time.Millisecond: "0.6 s", 3 * time.Second: "3 s",
		8340 * time.Millisecond: "8.3 s", 48900 * time.Millisecond: "48 s", 95 * time.Second: "1 min 35 s",
		125 * time.Minute: "2 h 5 min",
	} {
		if got := lengthWords(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
