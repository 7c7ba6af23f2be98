package alerts_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/web/webtest"
)

const (
	path  = "/console/alerts"
	hooks = "/console/alerts/webhooks"
)

func TestAlerts_ListsWhatIsActiveAndWhatHappened(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get(path)
	if !page.Has("Active now: 3", "since 11:46:00 UTC: 1,080 of 1,742 (62%) in the minute before",
		"2 earlier alerts not sent", `href="/console/rules/1"`,
		"/console/keys?key=user%3A42", "Idle rule", `hx-sse:connect="/console/events?of=alerts"`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get(path + "?kind=rule_idle")
	if !page.Has("Active now: 3", "matched no request in the week") || page.Has("Fail modes have decided requests") ||
		!page.Has(`of=alerts`, `<option value="rule_idle" selected>`) {
		t.Errorf("of a kind: %d\n%s", page.Code, page.Body)
	}
	page = b.Get(path + "?rule=search-per-user")
	if n := strings.Count(page.Body, "1,240 requests a second"); n != 4 { // twice each: the text, and the name of the link
		t.Errorf("of a rule it is told %d times", n)
	}
	if page = b.Get(path + "?kind=set_old"); !page.Has("No matching alerts", "Show all alerts") {
		t.Errorf("no match: %d\n%s", page.Code, page.Body)
	}
	w.Alerts.On = nil
	if page = b.Get(path); !page.Has("No alerts.", "Nothing needs attention") {
		t.Errorf("none active: %d\n%s", page.Code, page.Body)
	}
	w.Alerts.ReadAt = time.Time{}
	if page = b.Get(path); !page.Has("Not known yet") || page.Has("Alerts: none") {
		t.Errorf("unknown: %d\n%s", page.Code, page.Body)
	}
}

func TestAlerts_WithoutTheDatabaseTheActiveOnesStay(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Alerts.Err = rules.ErrUnavailable
	page := w.As(access.RoleViewer).Get(path)
	if page.Code != http.StatusOK || !page.Has("Active now: 3", "The rules database is unreachable", "Active alerts as of",
		"Alerts: 3 active") || page.Has("No alerts in the last 30 days") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	w.Webhooks.Err = rules.ErrUnavailable
	if page := w.As(access.RoleAdmin).Get(hooks); page.Code != http.StatusServiceUnavailable {
		t.Errorf("webhooks: %d", page.Code)
	}
}

// Pages follow one another without gaps or repetitions. A filter that matches little does not read everything at once.
func TestAlerts_ArePagedAndAFilterReadsWithinBounds(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i := range 12_000 {
		e := w.Alerts.Past[i%3]
		e.ID, e.UID = int64(12_000-i), "e"
		if e.Data.Text, e.Subject.Rule, e.Data.Path = "told-"+time.Duration(i).String()+".", "many", ""; i == 11_000 {
			e.Subject.Rule = "rare"
		}
		w.Alerts.Past = append(w.Alerts.Past, e)
	}
	w.Alerts.Past = w.Alerts.Past[6:]
	b := w.As(access.RoleViewer)
	seen, next := map[string]bool{}, path
	for range 3 {
		page := b.Get(next)
		for _, part := range strings.Split(page.Body, "told-")[1:] {
			text, _, _ := strings.Cut(part, ".")
			if seen[text] {
				t.Errorf("%s is told twice", text)
			}
			seen[text] = true
		}
		next = olderThan(t, page)
	}
	if len(seen) != 150 || !seen["149ns"] {
		t.Errorf("three pages told %d alerts", len(seen))
	}
	w.Alerts.Reads, next = 0, path+"?rule=rare"
	pages := 0
	for page := b.Get(next); !page.Has("told-11µs."); page = b.Get(next) {
		if pages++; pages > 3 || !page.Has("None of the alerts that were searched matches") {
			t.Fatalf("page %d: %d\n%s", pages, page.Code, page.Body)
		}
		next = olderThan(t, page)
	}
	if pages != 2 || w.Alerts.Reads > 30 {
		t.Errorf("it was found on page %d after %d reads", pages+1, w.Alerts.Reads)
	}
	if page := b.Get(path + "?before=1"); !page.Has("No older alerts.", ">Newest</a>") {
		t.Errorf("the end: %d\n%s", page.Code, page.Body)
	}
	if page := b.Get(path + "?before=nonsense"); page.Code != http.StatusOK {
		t.Errorf("nonsense: %d", page.Code)
	}
}

func olderThan(t *testing.T, page webtest.Page) string {
	t.Helper()
	_, rest, found := strings.Cut(page.Body, `rel="next" href="`)
	link, _, _ := strings.Cut(rest, `"`)
	if !found {
		t.Fatalf("no older page: %d\n%s", page.Code, page.Body)
	}
	return strings.ReplaceAll(link, "&amp;", "&")
}

// Texts come from callers and from rows that somebody may have written: none is markup, and no link leaves the console.
func TestAlerts_HostileTextsAreText(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	const evil = `<script>alert(1)</script>"'`
	e := &w.Alerts.On[0]
	e.Data.Text, e.Data.Cause, e.Subject.Rule, e.Subject.Key, e.Kind = evil, evil, evil, evil, alerts.Kind(evil)
	e.Data.Path = "https://evil.example/console/alerts"
	w.Alerts.On[1].Data.Path = "//evil.example/console"
	w.Alerts.On[2].Data.Path = "javascript:alert(1)"
	w.Alerts.Past[0] = *e
	d := &w.Webhooks.Sent[1][0]
	d.Error, d.Message.Type, d.Message.ID = evil, evil, evil
	d.Message.Body = []byte(`{"data":{"text":"<script>alert(1)</script>"}}`)
	w.Webhooks.Sent[1][1].Message.Body = []byte(evil + "\xff")
	w.Webhooks.Objects.List[0].Description = evil
	b := w.As(access.RoleAdmin)
	for _, from := range []string{path, hooks, hooks + "/chat", hooks + "/chat/edit",
		path + "?kind=" + url.QueryEscape(evil)} {
		page := b.Get(from)
		if page.Code != http.StatusOK || !page.Has("&lt;script&gt;") || page.Has("<script>alert") ||
			page.Has("evil.example") || page.Has("javascript:alert") {
			t.Errorf("%s: %d\n%s", from, page.Code, page.Body)
		}
	}
}

func TestBell_SaysHowManyAreActiveOnEveryPage(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for _, from := range []string{"/console", "/console/rules", "/console/nothing", hooks} {
		if page := b.Get(from); strings.Count(page.Body, `<span class="hidden">Alerts: 3 active</span>`) != 2 {
			t.Errorf("%s: %d\n%s", from, page.Code, page.Body)
		}
	}
	if w.Alerts.Reads != 0 {
		t.Errorf("the bell read the database %d times", w.Alerts.Reads)
	}
	for n := range 150 {
		w.Alerts.On = append(w.Alerts.On, w.Alerts.On[n%3])
	}
	if page := b.Get("/console/settings"); !page.Has("Alerts: 153 active", ">99+<") {
		t.Errorf("many:\n%s", page.Body)
	}
	w.Alerts.On = nil
	if page := b.Get("/console/settings"); !page.Has("Alerts: none active") || page.Has("bell-figure") {
		t.Errorf("none:\n%s", page.Body)
	}
	w.Alerts.ReadAt = time.Time{}
	if page := b.Get("/console/settings"); !page.Has(`<span class="hidden">Alerts</span>`) || page.Has("bell-figure") {
		t.Errorf("unknown:\n%s", page.Body)
	}
}

// The message of a stream has the bell, and for the page of alerts what is active.
func TestAlerts_AMessageHasTheBellAndWhatIsActive(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/events?of=alerts&once=1"); !page.Has(`hx-target="#live-active"`, "Active now: 3",
		`hx-target="#live-past"`, "Fail modes have decided requests", `hx-target="#bell"`, "Alerts: 3 active") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/events?once=1"); !page.Has(`hx-target="#bell-top"`) {
		t.Errorf("of the overview: %d\n%s", page.Code, page.Body)
	}
}
