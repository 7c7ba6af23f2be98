package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

// TestActs_AreInForceByTheTimeTheyAnswer: whatever changes rules, overrides, pools,
// profiles or tokens has this node load them before its page says that it is done.
func TestActs_AreInForceByTheTimeTheyAnswer(t *testing.T) {
	for name, act := range map[string]struct {
		path string
		form url.Values
	}{
		"a new rule": {"/console/rules", webtest.RuleForm()},
		"an edit": {"/console/rules/1",
			webtest.RuleForm("version", "1", "name", "charges-per-user", "limit", "7")},
		"a deletion":      {"/console/rules/1/delete", url.Values{"version": {"1"}}},
		"turning off":     {"/console/rules/1/state", url.Values{"to": {"off"}, "version": {"1"}}},
		"promoting":       {"/console/rules/7/promote", url.Values{"version": {"3"}}},
		"rolling back":    {"/console/rules/7/rollback", url.Values{"to": {"1"}, "version": {"3"}}},
		"several at once": {"/console/rules/bulk", url.Values{"act": {"off"}, "rule": {"1", "2"}}},
		"a fail mode":     {"/console/fail-modes/1", url.Values{"version": {"1"}, "fail_mode": {"closed"}}},
		"a block": {"/console/keys/override",
			url.Values{"rule": {"charges-per-user"}, "key": {"user:43"}, "does": {"blocked"}}},
		"lifting it": {"/console/keys/lift",
			url.Values{"rule": {"charges-per-user"}, "key": {"user:42"}, "id": {"2"}, "version": {"1"}}},
		"an override":          {"/console/rules/1/overrides", url.Values{"key": {"user:77"}, "kind": {"blocked"}}},
		"deleting an override": {"/console/rules/1/overrides/2/delete", url.Values{"version": {"1"}}},
		"overrides from CSV": {"/console/rules/1/overrides/import",
			url.Values{"do": {"apply"}, "csv": {"key,limit\nuser:77,500\n"}}},
		"a pool": {"/console/pools",
			url.Values{"name": {"nightly"}, "limit": {"9"}, "window_ms": {"60000"}, "normal_percent": {"80"},
				"low_percent": {"50"}}},
		"a profile":          {"/console/profiles", url.Values{"name": {"mail"}, "path": {"normal"}, "claims": {"off"}}},
		"deleting a profile": {"/console/profiles/shop/delete", url.Values{"version": {"1"}}},
		"revoking a token":   {"/console/tokens/1/revoke", url.Values{}},
	} {
		w := world(t, webtest.Full)
		b := w.As(access.RoleAdmin)
		if act.form.Has("csv") { // only what was shown can be applied
			shown := b.Post(act.path, url.Values{"do": {"plan"}, "csv": act.form["csv"]})
			act.form.Set("plan", shown.Field("plan"))
			act.form.Set("of", shown.Field("of"))
		}
		page := b.Post(act.path, act.form)
		if page.Code != http.StatusSeeOther || w.Changes != 1 {
			t.Errorf("%s: %d to %q, loaded %d times", name, page.Code, page.Header.Get("Location"), w.Changes)
		}
	}
}

func TestActs_SayWhatIsNotInForceYet(t *testing.T) {
	for name, act := range map[string]struct {
		path string
		form url.Values
	}{
		"an edit": {"/console/rules/1", webtest.RuleForm("version", "1", "name", "charges-per-user", "limit", "7")},
		"a pool": {"/console/pools",
			url.Values{"name": {"nightly"}, "limit": {"9"}, "window_ms": {"60000"}, "normal_percent": {"80"},
				"low_percent": {"50"}}},
		"several at once":  {"/console/rules/bulk", url.Values{"act": {"off"}, "rule": {"1", "2"}}},
		"revoking a token": {"/console/tokens/1/revoke", url.Values{}},
	} {
		for _, late := range []bool{false, true} {
			w := world(t, webtest.Full)
			w.NotYetInForce = late
			admin := w.As(access.RoleAdmin)
			page := admin.Post(act.path, act.form)
			if page.Code != http.StatusSeeOther {
				t.Fatalf("%s: %d", name, page.Code)
			}
			next := admin.Get(page.Header.Get("Location"))
			if got := strings.Contains(next.Body, "Not in force on this node yet."); got != late {
				t.Errorf("%s, late %t: the next page says so: %t", name, late, got)
			}
			if late && strings.Contains(next.Body, "It is in force.") {
				t.Errorf("%s: the page says that it is in force too", name)
			}
		}
	}
}
