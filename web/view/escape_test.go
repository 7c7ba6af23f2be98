package view_test

import (
	"testing"

	"sluice/web/view"
)

func TestDiffText_ShowsWhatWasTyped(t *testing.T) {
	for want, v := range map[string]any{
		`[{"a<b>&":"x\u202ey"}]`: []map[string]string{{"a<b>&": "x\u202ey"}},
		`{"team":"\u200bpay"}`:   map[string]string{"team": "\u200bpay"},
		`a\u2066b < c`:           "a\u2066b < c",
		"two\nlines":             "two\nlines",
	} {
		if got := view.DiffText(v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
