package rulelist_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/rulefile"
	"sluice/web/webtest"
)

func TestBulk_ChangesEachTickedRuleByItself(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
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
	if page := bulk("off", "1", "2", "11", "999"); !page.Has("2 rules are now disabled.", "1 rule is already disabled.",
		"rule 999 (deleted)") {
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
	if page := bulk("enforce", "1", "2"); !page.Has("2 rules are now enforced.") {
		t.Error("modes are not changed")
	}
	w.Rules.List[2].OverLimit = rules.OverLimitDefer
	if page := bulk("shadow", "3"); !page.Has("Skipped: logins-per-address (over_limit must be deny with mode shadow") {
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
	if page := b.Post("/console/rules/bulk",
		url.Values{"act": {"off"}, "rule": {"1"}}); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestBulkAll_AsksThenChangesWhatIsAsItWasSeen(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(1200)
	b := w.As(access.RoleEditor)
	const back = "/console/rules?fail_mode=closed&q=per&state=on"
	if page := b.Get(back); !page.Has(`name="all"`) {
		t.Error("the list does not offer all")
	}
	want := 0
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		if r.Version = 1; r.FailMode == rules.FailClosed && r.IsActive && strings.Contains(r.Name, "per") {
			want++
		}
	}
	page := b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "all": {"1"}, "back": {back}})
	if count := "Disable " + strconv.Itoa(want) + " rules?"; page.Code != http.StatusOK ||
		!page.Has(count, "with the fail mode closed", "that are enabled", "“per”") {
		t.Fatalf("%d, want %s\n%s", page.Code, count, page.Body)
	}
	for i := range w.Rules.List {
		if r := &w.Rules.List[i]; r.Version != 1 {
			t.Fatalf("asking changed %s", r.Name)
		}
	}
	seen := page.Field("seen")
	first, _, _ := strings.Cut(seen, ".")
	id, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile, err := w.Rules.GetRule(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	meanwhile.Limit = 4711
	if _, err := w.Rules.UpdateRule(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, meanwhile, 0); err != nil {
		t.Fatal(err)
	}
	page = b.Post("/console/rules/bulk", url.Values{"act": {"off"}, "seen": {seen}, "back": {back}})
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != back {
		t.Fatalf("%d to %s", page.Code, page.Header.Get("Location"))
	}
	if page := b.Get(back); !page.Has(strconv.Itoa(want-1)+" rules are now disabled.",
		"Skipped: "+meanwhile.Name+" (changed in the meantime)") {
		t.Errorf("the flash says otherwise\n%s", page.Body)
	}
	off := 0
	for i := range w.Rules.List {
		r := &w.Rules.List[i]
		if r.Version == 2 && !r.IsActive {
			off++
			if r.FailMode != rules.FailClosed || w.Rules.Revisions[r.ID][0].Actor.Name != "edda" {
				t.Fatalf("%s was turned off by %v", r.Name, w.Rules.Revisions[r.ID][0].Actor)
			}
		}
	}
	if now, err := w.Rules.GetRule(t.Context(), id); err != nil || !now.IsActive || now.Limit != 4711 || off != want-1 {
		t.Errorf("%d are off, want %d; what ada changed is %+v", off, want-1, now)
	}
	if w.Changes != 1 {
		t.Errorf("%d changes were told of, want one", w.Changes)
	}
}

func TestBulkAll_IsBoundedAndRefusesNonsense(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for _, seen := range []string{"1", "x.1", "1.x", "1.1.1", "1.1 1.1", "-", strings.Repeat("1.1 ", rules.MaxBulk+1)} {
		if page := b.Post("/console/rules/bulk",
			url.Values{"act": {"off"}, "seen": {seen}}); page.Code != http.StatusBadRequest {
			t.Errorf("%.20q: %d", seen, page.Code)
		}
	}
	w.Rules.Err = rules.ErrUnavailable
	for _, form := range []url.Values{{"act": {"off"}, "seen": {"1.1"}}, {"act": {"off"}, "all": {"1"}}} {
		if page := b.Post("/console/rules/bulk", form); page.Code != http.StatusServiceUnavailable ||
			!page.Has("Send again") {
			t.Errorf("without the database: %d", page.Code)
		}
	}
	w.Rules.Err = nil
	if page := b.Post("/console/rules/bulk",
		url.Values{"act": {"off"}, "all": {"1"}, "back": {"/console/rules?owner=payments"}}); !page.Has(
		"All rules with the owner “payments”.", "charges-per-user") {
		t.Error("the rules of an owner are not named as such")
	}
	if page := b.Post("/console/rules/bulk",
		url.Values{"act": {"enforce"}, "all": {"1"}, "back": {"/console/rules?mode=enforce"}}); !page.Has(
		"Nothing to change") {
		t.Errorf("what is so already: %d", page.Code)
	}
	w.Rules.List = webtest.ManyRules(rules.MaxBulk + 1)
	if page := b.Post("/console/rules/bulk",
		url.Values{"act": {"off"}, "all": {"1"},
			"back": {"/console/rules"}}); page.Code != http.StatusUnprocessableEntity || !page.Has("Too many rules at once") || page.Has(`name="seen"`) {
		t.Errorf("too many: %d", page.Code)
	}
	if w.Changes != 0 {
		t.Error("something was changed")
	}
}

func TestBulk_SetsFailModeAndOwner(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	const owner = `50% <team> & "co"`
	for _, form := range []url.Values{
		{"act": {"fail_mode"}, "to_fail_mode": {"closed"}, "to_owner": {"ignored"}},
		{"act": {"owner"}, "to_owner": {" " + owner + " "}, "to_fail_mode": {"open"}},
	} {
		form["rule"] = []string{"1", "2", "x"}
		if page := b.Post("/console/rules/bulk", form); page.Code != http.StatusSeeOther {
			t.Fatalf("%v: %d", form, page.Code)
		}
	}
	for _, id := range []int64{1, 2} {
		r, err := w.Rules.GetRule(t.Context(), id)
		if err != nil || r.FailMode != rules.FailClosed || r.Owner == nil || *r.Owner != owner {
			t.Errorf("rule %d: %s, %v, %v", id, r.FailMode, r.Owner, err)
		}
	}
	page := b.Post("/console/rules/bulk", url.Values{"act": {"owner"}, "to_owner": {owner}, "all": {"1"},
		"back": {"/console/rules?q=per"}})
	if !page.Has("Set the owner of", " to 50% &lt;team&gt; &amp; ") || page.Has("%!") {
		t.Errorf("the question: %s", page.Body)
	}
	page = b.Post("/console/rules/bulk", url.Values{"act": {"owner"}, "to_owner": {page.Field("to_owner")},
		"seen": {page.Field("seen")}})
	if page.Code != http.StatusSeeOther || *w.Rules.Named("logins-per-address").Owner != owner {
		t.Errorf("the owner of all: %d", page.Code)
	}
	b.Post("/console/rules/bulk", url.Values{"act": {"owner"}, "to_owner": {"  "}, "rule": {"1"}})
	if r, err := w.Rules.GetRule(t.Context(), 1); err != nil || r.Owner != nil {
		t.Errorf("without an owner: %v, %v", r.Owner, err)
	}
	for want, form := range map[string]url.Values{
		"Fail mode: choose one of": {"act": {"fail_mode"}, "to_fail_mode": {"ajar"}, "rule": {"1"}},
		"Owner: must":              {"act": {"owner"}, "to_owner": {strings.Repeat("o", 101)}, "all": {"1"}},
	} {
		if page := b.Post("/console/rules/bulk", form); page.Code != http.StatusUnprocessableEntity || !page.Has(want) {
			t.Errorf("%s: %d", want, page.Code)
		}
	}
}

func TestBulk_DeletesOnlyWhatWasConfirmed(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	count := len(w.Rules.List)
	page := b.Post("/console/rules/bulk", url.Values{"act": {"delete"}, "rule": {"1", "2", "999"},
		"back": {"/console/rules?q=per"}})
	if page.Code != http.StatusOK || !page.Has("Delete 2 rules?", "charges-per-user", "overrides are deleted too",
		`action="/console/rules/delete"`) || len(w.Rules.List) != count {
		t.Fatalf("%d, %d rules are left", page.Code, len(w.Rules.List))
	}
	seen := page.Field("seen")
	again := b.Post("/console/rules/bulk", url.Values{"act": {"delete"}, "seen": {seen}})
	if again.Code == http.StatusOK || len(w.Rules.List) != count {
		t.Errorf("the route of edits deletes: %d", again.Code)
	}
	meanwhile := w.Rules.List[1].Clone()
	meanwhile.Limit = 4711
	if _, err := w.Rules.UpdateRule(t.Context(), rules.Actor{Kind: "user", Name: "ada"}, meanwhile, 0); err != nil {
		t.Fatal(err)
	}
	page = b.Post("/console/rules/delete", url.Values{"seen": {seen}, "back": {"/console/rules?q=per"}, "reason": {"old"}})
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules?q=per" {
		t.Fatalf("%d to %s", page.Code, page.Header.Get("Location"))
	}
	if page := b.Get("/console/rules"); !page.Has("1 rule is now deleted.",
		"Skipped: "+meanwhile.Name+" (changed in the meantime)") {
		t.Error("the flash says otherwise")
	}
	if len(w.Rules.List) != count-1 || w.Rules.Named("charges-per-user") != nil {
		t.Errorf("%d rules are left of %d", len(w.Rules.List), count)
	}
	if page := b.Post("/console/rules/delete", url.Values{"seen": {"nonsense"}}); page.Code != http.StatusBadRequest {
		t.Errorf("nonsense: %d", page.Code)
	}
	w.Rules.Err = rules.ErrUnavailable
	if page := b.Post("/console/rules/delete", url.Values{"seen": {"3.1"}}); page.Code != http.StatusServiceUnavailable {
		t.Errorf("without the database: %d", page.Code)
	}
}

func TestBulk_ExportsWhatIsSelectedAsAFile(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	for want, form := range map[int]url.Values{
		2: {"rule": {"1", "3"}}, 4: {"all": {"1"}, "back": {"/console/rules?q=POST+/v1/charges"}},
	} {
		form["act"] = []string{"export"}
		page := b.Post("/console/rules/bulk", form)
		file, err := rulefile.Parse([]byte(page.Body))
		if page.Code != http.StatusOK || err != nil || len(file.Rules) != want ||
			!strings.Contains(page.Header.Get("Content-Disposition"), "rules.yaml") {
			t.Errorf("%d, %d rules, %v", page.Code, len(file.Rules), err)
		}
	}
	if page := b.Post("/console/rules/bulk", url.Values{"act": {"export"}}); page.Code != http.StatusSeeOther {
		t.Errorf("nothing is selected: %d", page.Code)
	}
	w.Rules.List = webtest.ManyRules(rules.MaxBulk + 1)
	page := b.Post("/console/rules/bulk", url.Values{"act": {"export"}, "all": {"1"}, "back": {"/console/rules"}})
	if page.Code != http.StatusUnprocessableEntity || !page.Has("Too many rules at once") {
		t.Errorf("too many: %d", page.Code)
	}
}
