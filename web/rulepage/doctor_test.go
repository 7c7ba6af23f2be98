package rulepage

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/attention"
	"sluice/internal/doctor"
)

// The figures since an edit leave out the minute of the edit, in which the rule may have denied.
func TestCalmWords_SayThatTheyCountWholeMinutes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := &doctor.Report{Same: now.Add(-time.Hour), Seen: attention.Counts{Requests: 1_553}}
	if got := calmWords(r, now); !strings.Contains(got, "0 of 1,553 requests denied in whole minutes") {
		t.Error(got)
	}
}
