package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

var tagOrSpace = regexp.MustCompile(`(<[^>]*>|\s)+`)

// said is the text of a page, without what is above its title.
func said(p webtest.Page) string {
	_, body, _ := strings.Cut(p.Body, "<h1")
	return html.UnescapeString(tagOrSpace.ReplaceAllString(body, " "))
}

func TestDenied_HomeSaysWhoWhyAndSinceWhen(t *testing.T) {
	w := world(t, webtest.Full)
	webtest.Unusual(w)
	page := w.As(access.RoleEditor).Get("/console")
	text := said(page)
	at := 0
	for _, want := range []string{
		"Who is denied",
		"user:flood-9 makes 95% of the denials of charges-per-user since 2026-11-21 11:59 UTC (48/s)",
		"665 of 700 denials in the last minute. The limit is 100 per minute per user.",
		"search-per-user denies 12 × more since version 3 (by API, 2026-11-21 11:57 UTC )",
		"366 of 600 requests denied in the last minute, 61%; before the edit 5%. Changed: limit 60 to 3, burst 20 to 3.",
		"6 rules let everything pass, 2 refuse everything and 2 enforce each node's share while Redis is unreachable, " +
			"since 2026-11-21 11:58:25 UTC",
		"Fail modes denied 140 requests in the last minute.",
		"user:flood-9 charges-per-user 95% 665", "ip:203.0.113.9 logins-per-address",
		"Recent denials",
	} {
		i := strings.Index(text[at:], want)
		if i < 0 {
			t.Fatalf("the page does not say %q after %.60q", want, text[at:])
		}
		at += i
	}
	for _, link := range []string{"/console/rules/1/overrides/new?key=user%3Aflood-9&amp;kind=blocked",
		"/console/rules/1/overrides/new?for=1h&amp;key=user%3Aflood-9&amp;limit=200", "/console/rules/2/rollback?to=2",
		"/console/incidents", "/console/explain?denial="} {
		if !page.Has(`href="` + link) {
			t.Errorf("the page has no link to %s", link)
		}
	}
}

func TestDenied_ANormalMinuteIsOneLine(t *testing.T) {
	w := world(t, webtest.Full)
	text := said(w.As(access.RoleViewer).Get("/console"))
	if !strings.Contains(text, "Nobody was denied in the last minute.") {
		t.Error(text)
	}
	w = world(t, webtest.Full)
	webtest.Flood(w)
	w.Fleet.Keys = w.Fleet.Keys[1:]
	if text := said(w.As(access.RoleViewer).Get("/console")); !strings.Contains(text, "Nobody is denied unusually.") ||
		!strings.Contains(text, "Denied key") {
		t.Error(text)
	}
}

// Who may not change anything is told why in the place of the actions.
func TestDenied_SaysInPlaceWhyNothingCanBeChanged(t *testing.T) {
	for name, tt := range map[string]struct {
		kind    webtest.Kind
		role    access.Role
		prepare func(*webtest.World)
		want    string
	}{
		"a viewer": {webtest.Full, access.RoleViewer, func(*webtest.World) {},
			"Changing something needs the role editor. You have the role viewer."},
		"a replica": {webtest.Replica, access.RoleEditor, func(*webtest.World) {},
			"Nothing can be changed here: the rules database of this region is a read replica."},
		"no database": {webtest.Full, access.RoleEditor, func(w *webtest.World) { w.Sessions.Err = rules.ErrUnavailable },
			"Nothing can be changed while the rules database is unreachable."},
	} {
		w := world(t, tt.kind)
		webtest.Unusual(w)
		b := w.As(tt.role)
		b.Get("/console") // a session that was seen is known while the database is unreachable
		tt.prepare(w)
		page := b.Get("/console")
		if text := said(page); !strings.Contains(text, tt.want) || !strings.Contains(text, "user:flood-9 makes 95%") {
			t.Errorf("%s: %d\n%s", name, page.Code, text)
		}
		if page.HasAny("kind=blocked", "rollback?to=") {
			t.Errorf("%s: the page offers what is refused", name)
		}
		if !page.Has("/console/explain?denial=") {
			t.Errorf("%s: the page does not explain", name)
		}
	}
}

func TestDenied_WhatIsUnknownIsNotNothing(t *testing.T) {
	w := world(t, webtest.Full)
	w.Fleet.KeysErr = rules.ErrUnavailable
	w.Fleet.Change(func(l *history.Live) { l.Err = rules.ErrUnavailable })
	text := said(w.As(access.RoleViewer).Get("/console"))
	if !strings.Contains(text, "Who is denied is not known") || !strings.Contains(text, "Denied keys are unknown") ||
		strings.Contains(text, "Nobody") {
		t.Error(text)
	}
	w = world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	webtest.WrongEdit(w)
	w.Rules.Err = rules.ErrUnavailable
	if text := said(b.Get("/console/events?once=1")); !strings.Contains(b.Get("/console/events?once=1").Body,
		"Whether an edit caused denials is not known") {
		t.Error(text)
	}
}

// The form of an override is filled in by its address, and is that of the key's override if it has one.
func TestDenied_TheFormOfAnOverrideIsFilledIn(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Get("/console/rules/1/overrides/new?for=1h&key=user%3Aflood-9&limit=200")
	if !page.Has(`value="user:flood-9"`, `value="200"`, `value="`+webtest.Now.Add(time.Hour).Format("2006-01-02T15:04")) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get("/console/rules/1/overrides/new?key=user%3A42&limit=200")
	if !page.Has("This key has an override: blocked", `action="/console/rules/1/overrides/2"`) ||
		!page.Has(`value="Ticket 8123: card testing."`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/rules/1/overrides/2", url.Values{"key": {"user:42"}, "kind": {"limit"}, "limit": {"200"},
		"version": {page.Field("version")}})
	if page.Code != http.StatusSeeOther || w.Overrides.List[1].Blocked || *w.Overrides.List[1].Limit != 200 {
		t.Errorf("%d, %+v", page.Code, w.Overrides.List[1])
	}
}

// An action that is refused says so on the page that it was sent from, and offers it again.
func TestDenied_ARefusedActionSaysWhy(t *testing.T) {
	w := world(t, webtest.Full)
	webtest.WrongEdit(w)
	b := w.As(access.RoleEditor)
	blocked := url.Values{"key": {"user:flood-9"}, "kind": {"blocked"}}
	back := url.Values{"to": {"2"}, "version": {"2"}}
	refused := func(what string, b *webtest.Browser, path string, form url.Values, code int, texts ...string) {
		t.Helper()
		if page := b.Post(path, form); page.Code != code || !page.Has(texts...) {
			t.Errorf("%s: %d\n%s", what, page.Code, said(page))
		}
	}
	refused("a rollback of a rule that someone else edited", b, "/console/rules/2/rollback", back, http.StatusConflict,
		"Changed in the meantime", `action="/console/rules/2/rollback"`)
	refused("a block of a key that someone else gave an override", b, "/console/rules/1/overrides",
		url.Values{"key": {"user:42"}, "kind": {"blocked"}}, http.StatusConflict, "already has an override")
	w.Overrides.Err, w.Rules.Err = rules.ErrUnavailable, rules.ErrUnavailable
	refused("a rollback without a database", b, "/console/rules/2/rollback", back, http.StatusServiceUnavailable,
		"The rules database is unreachable")
	w.Rules.Err = nil
	refused("a block without a database", b, "/console/rules/1/overrides", blocked, http.StatusServiceUnavailable,
		"Nothing was saved", `value="user:flood-9"`)
	refused("a block by a viewer", w.As(access.RoleViewer), "/console/rules/1/overrides", blocked, http.StatusForbidden,
		"This requires the role editor")
}

// A flood appears on the page while it is open, and is ended with two clicks: Block, and Save.
func TestJourney_BlocksAFloodWithTwoClicks(t *testing.T) {
	t.Parallel()
	w := world(t, webtest.Full)
	at, tab := serve(t, w), tab(t)
	if err := tab.SetCookies(at, w.As(access.RoleEditor).Cookies()); err != nil {
		t.Fatal(err)
	}
	if err := tab.Show(1440, 900, false); err != nil {
		t.Fatal(err)
	}
	steps(t, tab, chromedp.Navigate(at+"/console"), chromedp.WaitVisible("#live-attention"))
	until(t, tab, `document.querySelector("[data-live]").dataset.state === "live"`)
	webtest.Flood(w)
	w.Clock.Add(2 * time.Second)
	until(t, tab, `/user:flood-9 makes 95% of the denials of charges-per-user since .* \(48\/s\)/.test(
		document.querySelector("#live-attention").innerText)`)
	if !value[bool](t, tab, `document.querySelector("#live-attention .remark").getBoundingClientRect().bottom < 900 &&
		document.querySelector("#live-denied-keys tbody tr").getBoundingClientRect().bottom < 900`) {
		t.Error("the finding is not on the first screen")
	}
	steps(t, tab, chromedp.Click(`//*[@id="live-attention"]//a[text()="Block"]`), chromedp.WaitVisible("#f-key"),
		chromedp.Click("main form .button.primary"), chromedp.WaitVisible("[data-flash]"))
	o := w.Overrides.List[len(w.Overrides.List)-1]
	if o.RuleID != 1 || o.Key != "user:flood-9" || !o.Blocked {
		t.Errorf("saved %+v", o)
	}
}
