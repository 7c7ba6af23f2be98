package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/view"
	"sluice/web/webtest"
)

func TestBegin_TicksWhatIsDone(t *testing.T) {
	w := world(t, webtest.Empty)
	b := w.As(access.RoleAdmin)
	done := func() int { return strings.Count(b.Get("/console").Body, `<li class="done">`) }
	if page := b.Get("/console"); !page.Has("Write the first rule", "Waiting for a gateway to ask.", "/console/connect",
		"Rules to begin with") || done() != 1 { // there are several accounts
		t.Fatalf("%d done of a new installation", done())
	}
	w.Tokens.List = []access.Token{{ID: 1, Name: "ops", Scopes: []access.Scope{access.ScopeRulesRead}}}
	if done() != 1 {
		t.Error("a token that may not check is one for a gateway")
	}
	w.Tokens.List[0].Scopes = []access.Scope{access.ScopeCheck}
	if done() != 2 {
		t.Error("the token is not seen")
	}
	w.Fleet.Allowed = []history.Request{{ID: "a", At: webtest.Now.UnixMilli(), Allowed: true, Mode: rules.ModeEnforce}}
	if done() != 3 {
		t.Error("the first request is not seen")
	}
	w.Rules.List = webtest.SampleRules()[:1]
	if page := b.Get("/console"); page.Has("Begin</h2>") {
		t.Error("the list stays when everything is done")
	}
}

func TestBegin_IsForThoseWhoNeedIt(t *testing.T) {
	w := world(t, webtest.Empty)
	viewer := w.As(access.RoleViewer)
	if page := viewer.Get("/console"); !page.Has("An administrator can do this.", "An editor can do this.") ||
		page.Has("/console/rules/new") {
		t.Error("a viewer is offered what only others may do")
	}
	w.Tokens.Err = rules.ErrUnavailable
	if page := viewer.Get("/console"); page.Has("Connect a gateway") || !page.Has("Write the first rule") {
		t.Error("the list says what is not done although nobody knows")
	}
	w.Tokens.Err = nil
	if page := viewer.Post("/console/begin", nil); page.Code != http.StatusSeeOther {
		t.Errorf("hiding: %d", page.Code)
	}
	if page := viewer.Get("/console"); page.Has("Write the first rule") {
		t.Error("the list is not hidden")
	}
	if page := w.As(access.RoleEditor).Get("/console"); !page.Has("Write the first rule") {
		t.Error("the list is hidden from somebody else")
	}
	if page := world(t, webtest.Full).As(access.RoleAdmin).Get("/console"); page.Has("Write the first rule") {
		t.Error("the list is on an overview with rules")
	}
}

// TestTemplates_AreRulesThatCanBeSaved: each form is complete, and makes the rule of its recipe.
func TestTemplates_AreRulesThatCanBeSaved(t *testing.T) {
	if len(view.Templates) != 6 {
		t.Errorf("%d templates", len(view.Templates))
	}
	w := world(t, webtest.Empty)
	b := w.As(access.RoleEditor)
	for _, template := range view.Templates {
		path := "/console/rules/new?template=" + template.Rule
		page := b.Get(path)
		if page.Code != http.StatusOK {
			t.Fatalf("%s: %d", template.Rule, page.Code)
		}
		form := url.Values{}
		for _, f := range formsOf(t, page.Body, path) {
			if f.action == "/console/rules" {
				form = f.values()
			}
		}
		if page := b.Post("/console/rules", form); page.Code != http.StatusSeeOther {
			t.Errorf("%s: %d of %v", template.Rule, page.Code, form)
			continue
		}
		if r := w.Rules.List[len(w.Rules.List)-1]; r.Name != template.Rule || r.Limit == 0 {
			t.Errorf("%s makes %+v", template.Rule, r)
		}
	}
	if page := b.Get("/console/rules/new?template=none"); page.Code != http.StatusNotFound {
		t.Errorf("a template that does not exist: %d", page.Code)
	}
}

// TestJourney_FromNothingToAFirstAnswer saves a template and sees the request of a gateway come in.
func TestJourney_FromNothingToAFirstAnswer(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	tab := signedIn(t, w, url, access.RoleEditor)
	steps(t, tab, chromedp.Navigate(url+"/console"), chromedp.WaitVisible(".checklist"),
		chromedp.Click(`.templates a[href$="payments-per-user"]`), chromedp.WaitVisible("#f-name"),
		chromedp.Click(".page-head .primary"), chromedp.WaitVisible("[data-flash]"),
		chromedp.Navigate(url+"/console"), chromedp.WaitVisible(".checklist"))
	until(t, tab, live)
	const done = `[...document.querySelectorAll(".checklist .done strong")].map(e => e.innerText).join(", ")`
	if got := value[string](t, tab, done); got != "Write the first rule, Invite a colleague" {
		t.Errorf("done: %s", got)
	}
	w.Fleet.Deny(history.Request{ID: "first", Rule: "payments-per-user", Key: "user:1", Mode: rules.ModeEnforce,
		Status: 429,
		At:     webtest.Now.UnixMilli()})
	until(t, tab, done+`.includes("Send the first request")`)
}
