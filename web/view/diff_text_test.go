package view_test

import (
	"testing"

	"sluice/rules"
	"sluice/web/view"
)

func TestDiffText_ShowsWhatWasTyped(t *testing.T) {
	ban := &rules.Ban{After: 20, WithinMS: 60_000, ForMS: 90_000, Grow: 2, MostMS: 86_400_000}
	for want, v := range map[string]any{
		"after 20, for 90 seconds, grow 2, most 1 day, within 1 minute": ban,
		`{"gold":{"limit":5}}`:      map[string]any{"gold": map[string]any{"limit": 5}},
		`[{"a<b>&":"x%E2%80%AEy"}]`: []map[string]string{{"a<b>&": "x\u202ey"}},
		`{"team":"%E2%80%8Bpay"}`:   map[string]string{"team": "\u200bpay"},
		`a%E2%81%A6b < c`:           "a\u2066b < c",
		"two\nlines":                "two\nlines",
	} {
		if got := view.DiffText(v); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
