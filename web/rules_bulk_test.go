package web_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestBulk_ChangesEachTickedRuleByItself(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	before := map[int64]int64{}
	for i := range w.Rules.List {
		before[w.Rules.List[i].ID] = w.Rules.List[i].Version
	}
	bulk := func(act string, ids ...string) webtest.Page {
		t.Helper()
		page := b.Post("/console/rules/bulk", url.Values{"act": {act}, "rule": ids, "back": {"/console/rules?q=per"}})
		if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules?q=per" {
			t.Fatalf("%s: %d to %s", act, page.Code, page.Header.Get("Location"))
		}
		return b.Get("/console/rules")
	}
	if page := bulk("off", "1", "2", "11", "999"); !page.Has("2 rules are off now.", "1 was so already.", "rule 999 (it was deleted)") {
		t.Error("the flash says otherwise")
	}
	for _, id := range []int64{1, 2} {
		r, err := w.Rules.GetRule(t.Context(), id)
		if err != nil || r.IsActive || r.Version != before[id]+1 || w.Rules.Revisions[id][0].Actor.Name != "edda" {
			t.Errorf("rule %d: on %v, version %d after %d", id, r.IsActive, r.Version, before[id])
		}
	}
	if r, err := w.Rules.GetRule(t.Context(), 11); err != nil || r.Version != before[11] {
		t.Error("a rule that was off already has a new version")
	}
	if w.Sets.Load().Get(1) != nil {
		t.Error("a rule that is off is in force")
	}
	bulk("on", "1")
	if w.Sets.Load().Get(1) == nil {
		t.Error("a rule that is on is not in force")
	}
	bulk("shadow", "1", "2")
	if page := bulk("enforce", "1", "2"); !page.Has("2 rules are enforced now.") {
		t.Error("modes are not changed")
	}
	w.Rules.List[2].OverLimit = rules.OverLimitDefer
	if page := bulk("shadow", "3"); !page.Has("Left alone: logins-per-address (over_limit must be deny with mode shadow") {
		t.Error("a rule that may not be in shadow mode")
	}
	if page := bulk("explode", "1"); !page.Has("Nothing was changed") {
		t.Error("an unknown act")
	}
	if page := bulk("off"); !page.Has("Nothing was changed") {
		t.Error("nothing ticked")
	}
	page := b.Post("/console/rules/bulk", url.Values{"back": {"https://evil.example"}})
	if page.Header.Get("Location") != "/console/rules" {
		t.Errorf("led to %s", page.Header.Get("Location"))
	}
	w.Rules.Err = rules.ErrUnavailable
	if page := b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "rule": {"1"}}); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
}
