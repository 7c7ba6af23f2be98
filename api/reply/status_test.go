package reply

import (
	"testing"

	"sluice/api/decide"
)

// TestStatus_OfAnAnswerThatNobodyGaveLetsNothingPass, and each verdict has its own.
func TestStatus_OfAnAnswerThatNobodyGaveLetsNothingPass(t *testing.T) {
	var none decide.Answer
	if none.Allowed() || Status(&none) != statusUnavailable {
		t.Errorf("the zero answer is %s with status %d", none.Verdict, Status(&none))
	}
	for verdict, want := range map[decide.Verdict]int{
		decide.Allowed: 200, decide.Denied: 429, decide.Deferred: 202, decide.Unavailable: 503,
	} {
		a := decide.Answer{Verdict: verdict}
		if got := Status(&a); got != want || a.Allowed() != (want == 200) {
			t.Errorf("%s has status %d, want %d", verdict, got, want)
		}
	}
}
