package inspect_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

func TestSearch_FindsPagesRulesKeysRequestsAndActions(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	for text, want := range map[string][]string{
		"":                 {"Type to search", `href="/console/traffic"`},
		"mode FAIL":        {"Fail modes", `href="/console/fail-modes"`},
		"per-user charges": {`href="/console/rules/1"`, "charges-per-user"},
		"user:42":          {`href="/console/keys?key=user%3A42&amp;rule=`, "counted by"},
		"203.0.113.66":     {`href="/console/keys?key=ip%3A203.0.113.66&amp;rule=`},
		"ada":              {`href="/console/keys?key=user%3Aada&amp;rule=uploads-in-bytes"`},
		"POST /v1/charges": {"Rules that apply to POST /v1/charges", "Explain POST /v1/charges",
			"Requests of POST /v1/charges"},
		"why denied":   {"Explain a request"},
		"create limit": {`href="/console/rules/new"`},
		"<b>":          {"Nothing found", "&lt;b&gt;"},
	} {
		page := b.Post("/console/search", url.Values{"q": {text}})
		if page.Code != http.StatusOK || !page.Has(want...) || page.Has("<b>") {
			t.Errorf("%q: %d lacks one of %q", text, page.Code, want)
		}
	}
	if page := b.Post("/console/search", url.Values{"q": {strings.Repeat("x", 501)}}); page.Code != http.StatusOK ||
		!page.Has("Too long to search for.") {
		t.Errorf("a text that is too long: %d", page.Code)
	}
}

func TestSearch_LeadsNobodyToWhatTheyMayNotDo(t *testing.T) {
	page := webtest.Start(t, webtest.Full).As(access.RoleViewer).Post("/console/search", url.Values{"q": {"new"}})
	if page.HasAny("/console/rules/new", "New rule", "/console/people/new") {
		t.Error("a viewer is offered to make something")
	}
}

// The message about the last action waits for the page that follows it.
func TestSearch_KeepsTheMessageForThePage(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	b.Post("/console/keys/reset", url.Values{"rule": {"charges-per-user"}, "key": {"user:42"}})
	b.Header.Set("HX-Request", "true")
	if page := b.Post("/console/search", url.Values{"q": {"charges"}}); page.Has("Usage reset") {
		t.Error("the results in the dialog have the message")
	}
	b.Header.Del("HX-Request")
	if page := b.Post("/console/search", url.Values{"q": {"charges"}}); !page.Has("Usage reset") {
		t.Error("the page of the search lost the message")
	}
}

func TestSearch_SaysThatResultsMayBeMissing(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.Err, w.Fleet.Err = rules.ErrUnavailable, errors.New("no route to host 10.0.0.7")
	page := w.As(access.RoleViewer).Post("/console/search", url.Values{"q": {"charges"}})
	if page.Code != http.StatusOK || !page.Has("results may be missing", "charges-per-user") || page.Has("10.0.0.7") {
		t.Errorf("%d", page.Code)
	}
}
