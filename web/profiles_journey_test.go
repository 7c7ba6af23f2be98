package web_test

import (
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/rules/profile"
	"sluice/web/webtest"
)

// Two people work on profiles: one creates and edits, the other's edit comes second and is not lost.
func TestJourney_AProfileIsCreatedEditedAndNeverOverwrittenSilently(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Empty)
	url := serve(t, w)
	ada, edda := signedIn(t, w, url, access.RoleAdmin), signedIn(t, w, url, access.RoleEditor)
	const user, save = `[name="facts.user"]`, "main form .button.primary"
	steps(t, ada,
		chromedp.Navigate(url+"/console"), chromedp.Click(`.side a[href="/console/profiles"]`),
		chromedp.WaitVisible(".empty"), chromedp.Click(`main a[href="/console/profiles/new"]`),
		chromedp.WaitVisible("#f-name"), chromedp.Click(".more > summary"), chromedp.WaitVisible(user),
		chromedp.SendKeys("#f-name", "shop"), chromedp.SendKeys(user, "header X-User\ncookie uid\nvalue anonymous"),
		chromedp.SendKeys(`[name="facts.attributes"]`, "tenant header X-Tenant"),
		chromedp.SendKeys("#f-routes", "/users/{id}\n/files/*"), chromedp.SendKeys("#f-missing", "attr:tenant deny"),
		chromedp.SendKeys(`[name="proof.networks"]`, "10.0.0.0/8"),
		chromedp.Click(save), chromedp.WaitVisible("[data-flash]"),
	)
	want := profile.New()
	want.Name, want.Routes = "shop", []string{"/users/{id}", "/files/*"}
	want.Facts.User = []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Value: "anonymous"}}
	want.Facts.Attributes["tenant"] = []profile.Source{{Header: "X-Tenant"}}
	want.Missing["attr:tenant"] = profile.MissingFact{Action: profile.MissingDeny}
	want.Proof.Networks = []string{"10.0.0.0/8"}
	if got := w.Profiles.List; len(got) != 1 || len(profile.Diff(&got[0], &want)) > 0 {
		t.Fatalf("stored %+v", got)
	}

	edit := url + "/console/profiles/shop/edit"
	steps(t, edda, chromedp.Navigate(edit), chromedp.WaitVisible(user))
	steps(t, ada,
		chromedp.Navigate(edit), chromedp.WaitVisible(user), chromedp.SetValue("#f-path", profile.PathRaw),
		chromedp.Click(save), chromedp.WaitVisible("[data-flash]"),
	)
	steps(t, edda, chromedp.SetValue("#f-routes", "/v1/charges"), chromedp.Click(save), chromedp.WaitVisible(".diff"))
	edda.Forgive() // of the 409
	if got := w.Profiles.List[0]; got.Version != 2 || got.Path != profile.PathRaw || len(got.Routes) != 2 {
		t.Errorf("ada's version is overwritten: %+v", got)
	}
	if got := value[string](t, edda, `document.querySelector("#f-routes").value`); got != "/v1/charges" {
		t.Errorf("what edda typed became %q", got)
	}
	steps(t, edda, chromedp.Click(save), chromedp.WaitVisible("[data-flash]"))
	if got := w.Profiles.List[0]; got.Version != 3 || !slices.Equal(got.Routes, []string{"/v1/charges"}) {
		t.Errorf("after the second save: %+v", got)
	}
	steps(t, ada,
		chromedp.Navigate(url+"/console/profiles"), chromedp.Click(`.row-actions > [popovertarget="delete-shop"]`),
		chromedp.WaitVisible("#delete-shop .button.danger"), chromedp.Click("#delete-shop .button.danger"),
		chromedp.WaitVisible(".empty"),
	)
	if len(w.Profiles.List) != 0 {
		t.Errorf("left %+v", w.Profiles.List)
	}
}
