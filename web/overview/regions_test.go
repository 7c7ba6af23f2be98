package overview

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/region"
	"sluice/internal/region/exchange"
	"sluice/internal/region/home"
)

// Every reason for which a home region does not decide has words; a caller that left is no such reason.
func TestFailingWords_EveryReasonHasThem(t *testing.T) {
	for _, reason := range home.Reasons() {
		s := exchange.Status{Calls: region.Calls{Failing: reason}}
		if got := failingWords(&s); got == reason && reason != home.ReasonLeft {
			t.Errorf("%s has no words", reason)
		}
	}
}

// A region whose token is refused is told so, and is not sent to look at the network.
func TestCutAdvice_SaysThatMessagesAreRefused(t *testing.T) {
	refused := exchange.Status{Name: "us", Refuses: true, Failure: "the token is refused"}
	if got := cutAdvice(&refused); !strings.Contains(got, refused.Failure) || strings.Contains(got, "network") {
		t.Errorf("refused: %q", got)
	}
	away := exchange.Status{Name: "us", Failure: "connection refused"}
	if got := cutAdvice(&away); !strings.Contains(got, "network") {
		t.Errorf("not reached: %q", got)
	}
}

func TestClockWords(t *testing.T) {
	for skew, want := range map[time.Duration]string{-2600 * time.Millisecond: "2.6 s behind",
		3 * time.Millisecond: "3 ms ahead", 0: "the same", 4 * time.Minute: "4 min ahead"} {
		if got := clockWords(&exchange.Status{Skew: skew, SkewKnown: true}); got != want {
			t.Errorf("%v: got %q, want %q", skew, got, want)
		}
	}
}
