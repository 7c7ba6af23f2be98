package ruleedit_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/ruleedit"
	"sluice/web/webtest"
)

func TestNewRule_IsStoredAndInForce(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Post("/console/rules", webtest.RuleForm())
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules/13" {
		t.Fatalf("%d to %s: %s", page.Code, page.Header.Get("Location"), page.Body)
	}
	r := w.Rules.Named("exports-per-user")
	if r == nil || r.WindowMS != 60_000 || *r.Method != "POST" || !r.IsActive {
		t.Fatalf("stored %+v", r)
	}
	if w.Sets.Load().Get(r.ID) == nil {
		t.Error("it is not in force")
	}
	if got := w.Rules.Revisions[r.ID][0].Actor; got != (rules.Actor{Kind: "user", Name: "edda"}) {
		t.Errorf("made by %+v", got)
	}
	if page := b.Get("/console/rules"); !page.Has("Rule &#34;exports-per-user&#34; created.", "exports-per-user") {
		t.Error("the list does not tell")
	}
}

func TestNewRule_KeepsWhatWasTypedAndSaysWhatIsWrong(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	tests := []struct {
		name   string
		form   url.Values
		status int
		has    []string
	}{
		{"nothing", url.Values{}, 422, []string{"Nothing was saved", `href="#f-name"`, `href="#f-limit"`,
			`href="#f-window_ms"`, `href="#f-scope"`}},
		{"a bad number", webtest.RuleForm("limit", "ten<b>"), 422,
			[]string{`value="ten&lt;b&gt;"`, "must be a whole number", `value="exports-per-user"`, `value="/v1/exports"`}},
		{"a name that is taken", webtest.RuleForm("name", "legacy-api"), 409,
			[]string{"is already used by another rule", `value="legacy-api"`}},
		{"a pool that is not there", webtest.RuleForm("pool", "no-such-pool"), 422,
			[]string{`href="#f-pool"`, "does not exist"}},
		{"a tier without a limit", webtest.RuleForm("tiers[3].name", "gold<i>"), 422,
			[]string{`href="#f-tiers[0].limit"`, `value="gold&lt;i&gt;"`}},
		{"a tier twice", webtest.RuleForm("tiers[0].name", "a", "tiers[0].limit", "1", "tiers[1].name", "a", "tiers[1].limit",
			"1"), 422, []string{`href="#f-tiers[1].name"`, "is a duplicate"}},
		{"a window without times", webtest.RuleForm("schedule.windows[0].percent", "50"), 422,
			[]string{`href="#f-schedule.windows[0].from"`}},
		{"a window that says nothing", webtest.RuleForm("schedule.windows[0].from", "08:00", "schedule.windows[0].to",
			"09:00"), 422, []string{`href="#f-schedule.windows[0].percent"`}},
		{"a condition", webtest.RuleForm("when", "tier =="), 422, []string{`href="#f-when"`, "tier ==</textarea>"}},
		{"a condition on a network", webtest.RuleForm("when", `ip == "10.0.0.0/8"`), 422,
			[]string{`href="#f-when"`, "write cidr(ip, &#34;10.0.0.0/8&#34;)"}},
		{"a host with a port", webtest.RuleForm("host", "a.example.com:80"), 422,
			[]string{`href="#f-host"`, `value="a.example.com:80"`}},
		{"soft without how much", webtest.RuleForm("throttle", "soft"), 422,
			[]string{`href="#f-soft_percent"`, "<option value=\"soft\" selected>"}},
		{"a candidate of nothing", webtest.RuleForm("candidate.window_ms", "5"), 422, []string{`href="#f-candidate.limit"`}},
		{"a calendar for a sliding window", webtest.RuleForm("calendar.every", "month"), 422, []string{`href="#f-calendar"`}},
		{"two rules as YAML", url.Values{"as": {"yaml"}, "yaml": {"rules: []"}}, 422,
			[]string{"must contain exactly one rule", "rules: []</textarea>"}},
		{"bad YAML", url.Values{"as": {"yaml"},
			"yaml": {"rules:\n  - name: a\n    scope: nobody\n    limit: 1\n    window_ms: 5"}}, 422, []string{"scope: must be",
			"(line 3)"}},
	}
	for _, tt := range tests {
		page := b.Post("/console/rules", tt.form)
		if page.Code != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, page.Code, tt.status)
		}
		for _, has := range tt.has {
			if !page.Has(has) {
				t.Errorf("%s: lacks %q", tt.name, has)
			}
		}
		for id := range idsOf(page.Body, `href="#f-`) {
			if !page.Has(`id="f-` + id + `"`) {
				t.Errorf("%s: the problem of %q leads nowhere", tt.name, id)
			}
		}
	}
}

func idsOf(body, before string) map[string]bool {
	ids := map[string]bool{}
	for _, part := range strings.Split(body, before)[1:] {
		id, _, _ := strings.Cut(part, `"`)
		ids[id] = true
	}
	return ids
}

func TestEditRule_ChangesWhatTheFormSays(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	before := w.Rules.List[1].Clone()
	if page := b.Get("/console/rules/2/edit"); page.Code != http.StatusOK ||
		!page.Has("Edit search-per-user", `name="version" value="2"`, `value="20"`) {
		t.Fatalf("%d", page.Code)
	}
	form := ruleedit.ValuesOf(&before)
	form.Set("limit", "61")
	form.Set("version", "2")
	if page := b.Post("/console/rules/2", form); page.Code != http.StatusSeeOther {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	got := w.Rules.Named("search-per-user")
	if c := rules.Diff(&before, got); len(c) != 1 || c[0].Field != "limit" || got.Limit != 61 || got.Version != 3 {
		t.Errorf("changed %v, version %d", c, got.Version)
	}
	for _, missing := range []string{"/console/rules/999/edit", "/console/rules/x/edit", "/console/rules/-1/edit"} {
		if page := b.Get(missing); page.Code != http.StatusNotFound {
			t.Errorf("%s: %d", missing, page.Code)
		}
	}
}

func TestEditRule_WithoutTheDatabaseKeepsWhatWasTyped(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	w.Rules.Err = rules.ErrUnavailable
	for _, path := range []string{"/console/rules", "/console/rules/2"} {
		page := b.Post(path, webtest.RuleForm("version", "2", "description", "kept & safe"))
		if page.Code != http.StatusServiceUnavailable ||
			!page.Has("The rules database is unreachable", "kept &amp; safe", `value="exports-per-user"`) {
			t.Errorf("%s: %d", path, page.Code)
		}
	}
	w.Rules.Err = errors.New("disk on fire")
	if page := b.Post("/console/rules", webtest.RuleForm()); page.Code != http.StatusInternalServerError ||
		page.Has("disk on fire") {
		t.Errorf("an unknown error: %d", page.Code)
	}
}

func TestEditRule_OfTwoPeopleOverwritesNothing(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	ours := w.Rules.List[0].Clone()
	form := ruleedit.ValuesOf(&ours)
	if err := w.Rules.Meanwhile(func(r *rules.Rule) { r.Limit, r.Description = 120, "For the <sale>" }); err != nil {
		t.Fatal(err)
	}
	form.Set("version", "1")
	form.Set("limit", "90")
	form.Set("fail_mode", "closed")
	page := b.Post("/console/rules/1", form)
	if page.Code != http.StatusConflict ||
		!page.Has("ada saved this rule", "For the &lt;sale&gt;", "you and they changed it", "only you changed it",
			"only they changed it", `name="version" value="2"`) {
		t.Fatalf("%d: %s", page.Code, page.Body)
	}
	if r := w.Rules.Named("charges-per-user"); r.Version != 2 || r.Limit != 120 {
		t.Fatalf("stored %d, version %d", r.Limit, r.Version)
	}
	ours.Limit, ours.FailMode = 90, rules.FailClosed
	choice := url.Values{"version": {"2"}, "ours": {jsonOf(t, &ours)}, "take.limit": {"ours"}, "take.fail_mode": {"ours"},
		"take.description": {"theirs"}}
	if err := w.Rules.Meanwhile(func(r *rules.Rule) { r.WindowMS = 30_000 }); err != nil {
		t.Fatal(err)
	}
	if page = b.Post("/console/rules/1", choice); page.Code != http.StatusConflict ||
		!page.Has(`name="version" value="3"`, "window ms") {
		t.Fatalf("changed once more: %d", page.Code)
	}
	choice.Set("version", "3")
	if page = b.Post("/console/rules/1", choice); page.Code != http.StatusSeeOther {
		t.Fatalf("the choice: %d", page.Code)
	}
	r := w.Rules.Named("charges-per-user")
	if r.Limit != 90 || r.FailMode != rules.FailClosed || r.Description != "For the <sale>" || r.WindowMS != 30_000 ||
		r.Version != 4 {
		t.Errorf("merged %+v", r)
	}
	for _, bad := range []string{"{", `{"limit":"x"}`} {
		if page = b.Post("/console/rules/1",
			url.Values{"version": {"4"}, "ours": {bad}}); page.Code != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, page.Code)
		}
	}
	ours.Scope = "nonsense"
	choice = url.Values{"version": {"4"}, "ours": {jsonOf(t, &ours)}, "take.scope": {"ours"}}
	if page = b.Post("/console/rules/1", choice); page.Code != http.StatusUnprocessableEntity ||
		!page.Has(`value="nonsense"`) {
		t.Errorf("a choice that is not valid: %d", page.Code)
	}
}

func TestEditRule_OfADeletedOneOffersToMakeItAnew(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	form := ruleedit.ValuesOf(&w.Rules.List[0])
	form.Set("version", "1")
	w.Rules.List = w.Rules.List[1:]
	page := b.Post("/console/rules/1", form)
	if page.Code != http.StatusConflict ||
		!page.Has("Someone deleted this rule", `action="/console/rules"`, `value="charges-per-user"`) {
		t.Errorf("%d", page.Code)
	}
}

func TestDeleteRule_AsksForThePasswordAndMindsTheVersion(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	if page := b.Post("/console/rules/2/delete", url.Values{"version": {"1"}}); page.Code != http.StatusConflict {
		t.Errorf("an old version: %d", page.Code)
	}
	if page := b.Post("/console/rules/2/delete", url.Values{}); page.Code != http.StatusConflict {
		t.Errorf("no version: %d", page.Code)
	}
	w.Clock.Add(11 * time.Minute)
	if page := b.Post("/console/rules/2/delete",
		url.Values{"version": {"2"}}); page.Code != http.StatusUnprocessableEntity || w.Rules.Named(
		"search-per-user") == nil {
		t.Fatalf("without the password: %d", page.Code)
	}
	if page := b.Post("/console/rules/2/delete",
		url.Values{"version": {"2"}, "confirm_password": {
			webtest.Password}}); page.Code != http.StatusSeeOther || w.Rules.Named("search-per-user") != nil {
		t.Errorf("with it: %d", page.Code)
	}
}
