package rulepage_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestRulePage_TellsWhatAndWhom(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	page := w.As(access.RoleViewer).Get("/console/rules/1")
	if page.Code != http.StatusOK || !page.Has("charges-per-user", "100 per minute per user", "POST /v1/charges",
		"user:acme-batch", "1,183", "user:acme-*", "Version 1", "Show as table") {
		t.Fatalf("got %d:\n%s", page.Code, page.Body)
	}
	if page.Has("Disable") || page.Has("/state") {
		t.Error("a viewer is offered what only editors may")
	}
	if page := w.As(access.RoleEditor).Get("/console/rules/1"); !page.Has("Disable", "Switch to shadow") {
		t.Error("an editor is not offered to turn it off")
	}
	for _, path := range []string{"/console/rules/99", "/console/rules/x", "/console/rules/-1"} {
		if page := w.As(access.RoleViewer).Get(path); page.Code != http.StatusNotFound {
			t.Errorf("%s: %d, want 404", path, page.Code)
		}
	}
}

func TestRulePage_SaysWhatOverloadDoes(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for overload, want := range map[string]string{"": "", "deny": "requests are denied",
		"wait": "requests wait for a turn"} {
		if w.Rules.List[0].Overload = nil; overload != "" {
			w.Rules.List[0].Overload = &overload
		}
		page := w.As(access.RoleViewer).Get("/console/rules/1")
		if page.Has("if overloaded") != (want != "") || !page.Has(want) {
			t.Errorf("%q: not said as it is", overload)
		}
	}
}

func TestRulePage_SaysThatAPatternIsTooLarge(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	const notice = "new rules can have at most 2,000"
	if page := w.As(access.RoleViewer).Get("/console/rules/1"); page.Has(notice) {
		t.Error("said of a rule without a condition")
	}
	when := `user matches "^(a?){1000}b$"`
	w.Rules.List[0].When = &when
	if page := w.As(access.RoleViewer).Get("/console/rules/1"); !page.Has("a pattern of 4,005 instructions", notice) {
		t.Errorf("not said: %d", page.Code)
	}
}

func TestRulePage_SaysThatAProfileReadsTheDomain(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	webtest.AddDescriptors(w)
	const notice = "This rule never applies"
	if page := w.As(access.RoleViewer).Get("/console/rules/13"); page.Code != http.StatusOK || page.Has(notice) {
		t.Errorf("said though no profile reads the domain: %d", page.Code)
	}
	w.Profiles.List[1].Domain = "shop"
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	if page := w.As(access.RoleViewer).Get("/console/rules/13"); !page.Has(notice, "<code>shop</code>") {
		t.Errorf("not said: %d", page.Code)
	}
	if page := w.As(access.RoleViewer).Get("/console/rules/1"); page.Has(notice) {
		t.Error("said of a rule without a descriptor")
	}
}

func TestRulePage_StandsWithoutItsFigures(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Stats.Err = errors.New("the board is away")
	if page := w.As(access.RoleViewer).Get("/console/rules/7"); page.Code != http.StatusOK ||
		!page.Has("metrics could not be loaded", "tighter-charges", "Version 3") {
		t.Errorf("got %d", page.Code)
	}
	w.Rules.Err = rules.ErrUnavailable
	if page := w.As(access.RoleViewer).Get("/console/rules/7"); page.Code != http.StatusOK ||
		!page.Has("rules database is unreachable") {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestRulePage_CallersTextIsShownNotRun(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	const evil = `user:<img src=x onerror=alert(1)>"'&`
	w.Stats.Keys = []history.Row{{Key: evil, Denied: 3}}
	w.Rules.List[0].Description = "<script>alert(1)</script>"
	w.Overrides.List[0].Key = evil
	page := w.As(access.RoleEditor).Get("/console/rules/1")
	if page.Has("<img") || page.Has("<script>alert") {
		t.Error("text of a caller is markup")
	}
	if strings.Count(page.Body, "&lt;img src=x onerror=alert(1)&gt;") < 2 {
		t.Error("text of a caller is lost")
	}
}

func TestSwitchRule_TurnsOffAndOnAndBetweenModes(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for i, to := range []string{"off", "on", "shadow", "enforce"} {
		form := url.Values{"to": {to}, "version": {[]string{"1", "2", "3", "4"}[i]}}
		if page := b.Post("/console/rules/1/state", form); page.Code != http.StatusSeeOther ||
			page.Header.Get("Location") != "/console/rules/1" {
			t.Fatalf("%s: %d", to, page.Code)
		}
		r := w.Rules.List[0]
		got := map[string]bool{"off": !r.IsActive, "on": r.IsActive, "shadow": r.Mode == "shadow",
			"enforce": r.Mode == "enforce"}[to]
		if !got || r.Version != int64(i+2) {
			t.Errorf("%s: active %v, mode %s, version %d", to, r.IsActive, r.Mode, r.Version)
		}
	}
	if w.Changes != 4 {
		t.Errorf("%d reloads of 4 changes", w.Changes)
	}
	if page := b.Get("/console/rules/1"); !page.Has("Rule &#34;charges-per-user&#34; enforced.", "edited by edda") {
		t.Error("neither the flash nor the history tells")
	}
	if page := b.Post("/console/rules/1/state",
		url.Values{"to": {"up"}, "version": {"5"}}); page.Code != http.StatusUnprocessableEntity {
		t.Errorf("nonsense: %d", page.Code)
	}
}

func TestRuleActs_OnAStaleVersionDoNothingAndShowWhatChanged(t *testing.T) {
	for path, form := range map[string]url.Values{
		"/state": {"to": {"off"}}, "/promote": {}, "/rollback": {"to": {"1"}},
	} {
		w := webtest.Start(t, webtest.Full)
		form.Set("version", "2")
		page := w.As(access.RoleEditor).Post("/console/rules/7"+path, form)
		if page.Code != http.StatusConflict ||
			!page.Has("Changed in the meantime", "<del>75</del>", "<ins>60</ins>", `name="version" value="3"`) {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
		if r := w.Rules.List[6]; r.Version != 3 || w.Changes != 0 {
			t.Errorf("%s: changed all the same: version %d", path, r.Version)
		}
		form.Del("version")
		if page := w.As(access.RoleEditor).Post("/console/rules/7"+path, form); page.Code != http.StatusConflict {
			t.Errorf("%s without a version: %d", path, page.Code)
		}
	}
}

func TestPromote_MakesTheTrialTheRule(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	told := []string{"Promote", "Would have denied", ">96<", "of 7,399 requests, 1.3%, since version 3"}
	for _, path := range []string{"/console/rules/7", "/console/rules/7/turn?to=promote"} {
		if page := b.Get(path); !page.Has(told...) {
			t.Errorf("%s does not tell of the trial", path)
		}
	}
	page := b.Post("/console/rules/7/promote", url.Values{"version": {"3"}})
	if page.Code != http.StatusSeeOther || w.Rules.List[6].Mode != rules.ModeEnforce || w.Changes != 1 {
		t.Fatalf("got %d, mode %s", page.Code, w.Rules.List[6].Mode)
	}
	if page := b.Post("/console/rules/7/promote",
		url.Values{"version": {"4"}}); page.Code != http.StatusUnprocessableEntity || !page.Has("nothing to promote") {
		t.Errorf("twice: %d", page.Code)
	}
}

func TestRollback_ShowsTheDiffAndGoesBack(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Get("/console/rules/7/rollback?to=1"); page.Code != http.StatusOK ||
		!page.Has("<del>60</del>", "<ins>90</ins>", "Roll back") {
		t.Fatalf("got %d", page.Code)
	}
	for _, to := range []string{"3", "9", "x", ""} {
		if page := b.Get("/console/rules/7/rollback?to=" + to); page.Code != http.StatusSeeOther {
			t.Errorf("to %q: %d", to, page.Code)
		}
	}
	page := b.Post("/console/rules/7/rollback", url.Values{"to": {"1"}, "version": {"3"}})
	if page.Code != http.StatusSeeOther || w.Rules.List[6].Limit != 90 || w.Rules.List[6].Version != 4 {
		t.Fatalf("got %d, limit %d", page.Code, w.Rules.List[6].Limit)
	}
	if page := b.Get("/console/rules/7"); !page.Has("rolled back to version 1", "rolled back by edda") {
		t.Error("the history does not tell")
	}
}

func TestRuleActs_KeepNothingWhenTheDatabaseIsAway(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	w.Rules.Err = rules.ErrUnavailable
	for _, path := range []string{"/state", "/promote", "/rollback"} {
		if page := b.Post("/console/rules/7"+path,
			url.Values{"version": {"3"}, "to": {
				"1"}}); page.Code != http.StatusServiceUnavailable && page.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", path, page.Code)
		}
	}
	if w.Changes != 0 {
		t.Error("a change was told that never was")
	}
}

// TestTrial_BeginsAnewWithItsLimit: versions that try the same add up, an edit of
// what is tried starts from nothing.
func TestTrial_BeginsAnewWithItsLimit(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	actor := rules.Actor{Kind: "user", Name: "ada"}
	edit := func(change func(*rules.Rule)) {
		t.Helper()
		r, err := w.Rules.GetRule(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		change(&r)
		if _, err := w.Rules.UpdateRule(t.Context(), actor, r, r.Version); err != nil {
			t.Fatal(err)
		}
	}
	edit(func(r *rules.Rule) { r.Description = "Said better." })
	w.Figures.Trials[history.Trial{Rule: 7, Version: 4}] = history.TrialCounts{Seen: 1, Denied: 1}
	if page := b.Get("/console/rules/7"); !page.Has(">97<", "of 7,400 requests, 1.3%, since version 3") {
		t.Errorf("after an edit of the description")
	}
	edit(func(r *rules.Rule) { r.Limit = 61 })
	for _, path := range []string{"/console/rules/7", "/console/rules/7/turn?to=promote"} {
		if page := b.Get(path); !page.Has(">0<", "no request seen yet, since version 5") || page.Has("7,399") {
			t.Errorf("%s after an edit of the limit", path)
		}
	}
}

// TestTurns_AreAskedFirst: the rule's page changes nothing at once, and what is so
// already is not asked.
func TestTurns_AreAskedFirst(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for _, path := range []string{"/console/rules/1", "/console/rules/7"} {
		if page := b.Get(path); page.Has(`action="`+path+`/state"`) || page.Has(`action="`+path+`/promote"`) {
			t.Errorf("%s acts without asking", path)
		}
	}
	for _, to := range []string{"off", "shadow"} {
		page := b.Get("/console/rules/1/turn?to=" + to)
		if page.Code != http.StatusOK || !page.Has(`action="/console/rules/1/state"`, `value="`+to+`"`, "Cancel",
			`name="reason"`) {
			t.Errorf("%s: %d", to, page.Code)
		}
	}
	for _, to := range []string{"promote", "on", "x", ""} {
		if page := b.Get("/console/rules/1/turn?to=" + to); page.Code != http.StatusSeeOther {
			t.Errorf("to %q: %d, want back to the rule", to, page.Code)
		}
	}
	if w.Rules.List[0].Version != 1 || w.Rules.List[6].Version != 3 {
		t.Error("asking changed a rule")
	}
}

// TestPages_OfferNoChangeWhileTheDatabaseIsAway: what would be refused is not offered.
func TestPages_OfferNoChangeWhileTheDatabaseIsAway(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	offers := map[string]string{"/console/rules/1": "/console/rules/1/turn?to=off", "/console/rules": "/console/rules/new"}
	for path, offer := range offers {
		if page := b.Get(path); !page.Has(offer) {
			t.Errorf("%s does not offer %s", path, offer)
		}
	}
	w.Rules.Err = rules.ErrUnavailable
	for path, offer := range offers {
		if page := b.Get(path); page.Code != http.StatusOK || page.Has(offer) {
			t.Errorf("%s: %d, offers %s", path, page.Code, offer)
		}
	}
}

func TestRule_ItsPageAndTheListSayThatItBans(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if b.Get("/console/rules/1").Has("bans after") || b.Get("/console/rules").Has("with a ban") {
		t.Error("a rule without a ban is said to ban")
	}
	webtest.BanSome(w)
	if page := b.Get("/console/rules/1"); !page.Has("bans after 2 denials") {
		t.Errorf("the page of the rule: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/rules"); !page.Has("with a ban") {
		t.Errorf("the list: %d\n%s", page.Code, page.Body)
	}
}

// TestRulePage_ShowsWhatTheDoctorFinds: of a rule whose requests are nearly all denied, and of one without figures.
func TestRulePage_ShowsWhatTheDoctorFinds(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.List[0].UpdatedAt = webtest.Now.Add(-2 * history.Day)
	w.Rules.Revisions[1][0].At = w.Rules.List[0].UpdatedAt
	w.Stats.Change(func(s *webtest.Stats) { s.Last.Denied = 100_000_000 })
	page := w.As(access.RoleViewer).Get("/console/rules/1")
	if !page.Has("Denies nearly everything", "Traffic by key",
		"/console/traffic?by=key&amp;range=24h&amp;rule=charges-per-user") {
		t.Errorf("the finding is not shown: %d", page.Code)
	}
	w.Stats.Change(func(s *webtest.Stats) { s.Since = webtest.Now })
	if page := w.As(access.RoleViewer).Get("/console/rules/1"); !page.Has("There are no figures of the last week yet.") ||
		page.Has("Denies nearly everything") {
		t.Errorf("without figures: %d", page.Code)
	}
	w.Stats.Change(func(s *webtest.Stats) {
		s.Since, s.Partial = webtest.Now.Add(-history.Day),
			errors.New("the counters")
	})
	if page := w.As(access.RoleViewer).Get("/console/rules/1"); !page.Has("so the rule was not examined") {
		t.Errorf("with missing figures: %d", page.Code)
	}
}
