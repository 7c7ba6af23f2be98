package overview

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/region"
	"sluice/internal/region/home"
)

// Every reason for which a home region does not decide has words; a caller that left is no such reason.
func TestFailingWords_EveryReasonHasThem(t *testing.T) {
	for _, reason := range home.Reasons() {
		s := region.Status{Calls: region.Calls{Failing: reason}}
		if got := failingWords(&s); got == reason && reason != home.ReasonLeft {
			t.Errorf("%s has no words", reason)
		}
	}
}

// A region whose token is refused is told so, and is not sent to look at the network.
func TestCutAdvice_SaysThatMessagesAreRefused(t *testing.T) {
	refused := region.Status{Name: "us", Refuses: true, Failure: "the token is refused"}
	if got := cutAdvice(&refused); !strings.Contains(got, refused.Failure) || strings.Contains(got, "network") {
		t.Errorf("refused: %q", got)
	}
	away := region.Status{Name: "us", Failure: "connection refused"}
	if got := cutAdvice(&away); !strings.Contains(got, "network") {
		t.Errorf("not reached: %q", got)
	}
}

// A region is not shown as connected while Redis, which has the news of it, does not answer.
func TestStateWords_NothingIsKnownWithoutRedis(t *testing.T) {
	connected, refusing := region.Status{}, region.Status{Failure: "refused"}
	away := region.Status{CutOff: true, CutFor: time.Minute}
	for _, of := range []struct {
		s       *region.Status
		failing bool
		want    string
	}{
		{&connected, false, "connected"}, {&connected, true, "not known"}, {&refusing, false, "does not take messages"},
		{&refusing, true, "not known"}, {&away, false, "cut off for 1 min"}, {&away, true, "cut off for 1 min"},
	} {
		m := RegionPage{Overview: region.Overview{Failing: of.failing}}
		if _, got := m.stateWords(of.s); got != of.want {
			t.Errorf("failing %v: got %q, want %q", of.failing, got, of.want)
		}
	}
}

func TestClockWords(t *testing.T) {
	for skew, want := range map[time.Duration]string{-2600 * time.Millisecond: "2.6 s behind",
		3 * time.Millisecond: "3 ms ahead", 0: "the same", 4 * time.Minute: "4 min ahead"} {
		if got := clockWords(&region.Status{Skew: skew, SkewKnown: true}); got != want {
			t.Errorf("%v: got %q, want %q", skew, got, want)
		}
	}
}
