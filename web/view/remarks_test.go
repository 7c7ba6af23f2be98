package view

import (
	"testing"

	"sluice/internal/attention"
)

func TestRiseEvidence_SaysOfWhichTimeItIs(t *testing.T) {
	r := attention.Rise{Now: attention.Counts{Requests: 39, Denied: 39}}
	for young, want := range map[bool]string{
		true:  "39 of 39 requests denied since the last edit. Changed: .",
		false: "39 of 39 requests denied in the last minute. Changed: .",
	} {
		if r.Young = young; RiseEvidence(&r) != want {
			t.Errorf("young %v: %s, want %s", young, RiseEvidence(&r), want)
		}
	}
}
