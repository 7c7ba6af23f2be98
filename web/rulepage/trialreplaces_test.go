package rulepage_test

import (
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/webtest"
)

// TestEvidence_OfAShadowRuleThatReplacesHasBothDirections: it can let through what the replaced rules deny.
func TestEvidence_OfAShadowRuleThatReplacesHasBothDirections(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.List[6].Replaces = []string{w.Rules.List[0].Name}
	w.Figures.Trials[history.Trial{Rule: 7, Version: 3}] = history.TrialCounts{Seen: 4000, Denied: 300, Compared: 3900,
		NewlyDenied: 38, NewlyAllowed: 3, First: webtest.Now.Add(-30 * time.Hour)}
	b := w.As(access.RoleEditor)
	const sentence = "41 of 3,900 requests would change: 38 newly denied, 3 newly allowed."
	if page := b.Get("/console/rules/7"); !page.Has("Would change", sentence) {
		t.Errorf("the page of the rule:\n%s", page.Body)
	}
	page := b.Get("/console/rules/7/turn?to=promote")
	if !page.Has(sentence, "allowed by the rules that it would replace", "denied by the rules that it would replace") {
		t.Errorf("the evidence:\n%s", page.Body)
	}
}
