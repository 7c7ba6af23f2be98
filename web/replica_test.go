package web_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web"
	"sluice/web/webtest"
)

var (
	linkOf = regexp.MustCompile(`<a [^>]*href="(/console[^"#]*)`)
	formOf = regexp.MustCompile(`(?s)<form[^>]* method="post".*?</form>`)
	sendTo = regexp.MustCompile(`action="([^"#?]+)`)
)

// works reports whether an action changes nothing in the rules database.
func works(action string) bool {
	for _, r := range web.Table() {
		if r.Method == http.MethodPost && r.Offline && r.Path == action {
			return true
		}
	}
	return false
}

// Whoever follows the links of a console at a read replica meets no form that would be refused.
func TestReplica_NoLinkLeadsToAFormThatWouldBeRefused(t *testing.T) {
	for _, role := range access.Roles() {
		b, seen, todo := world(t, webtest.Replica).As(role), map[string]bool{}, []string{"/console"}
		for len(todo) > 0 {
			path := todo[0]
			todo = todo[1:]
			page := b.Get(path)
			if page.Code != http.StatusOK {
				continue
			}
			for _, form := range formOf.FindAllString(page.Body, -1) {
				action := sendTo.FindStringSubmatch(form)
				if strings.Contains(form, "<button") && (len(action) < 2 || !works(action[1])) {
					t.Errorf("%s: %s offers %s", role, path, form)
				}
			}
			for _, m := range linkOf.FindAllStringSubmatch(page.Body, -1) {
				link := html.UnescapeString(m[1])
				if name, _, _ := strings.Cut(link, "?"); !seen[name] {
					seen[name] = true
					todo = append(todo, link)
				}
			}
		}
		if len(seen) < 30 {
			t.Errorf("%s: only %d pages were seen", role, len(seen))
		}
	}
}

// A form is not shown at a read replica, and the link leads to it at the primary.
func TestReplica_AFormIsAtThePrimary(t *testing.T) {
	b := world(t, webtest.Replica).As(access.RoleAdmin)
	paths := map[string]bool{}
	for _, r := range web.Table() {
		if r.Form {
			paths[r.Path] = true
		}
	}
	for _, path := range []string{"/console/rules/1/edit", "/console/rules/new?template=per-user",
		"/console/rules/1/overrides/new", "/console/tokens/new", "/console/people/new", "/console/profiles/shop/edit",
		"/console/alerts/webhooks/new", "/console/rules/1/rollback?version=1", "/console/rules/1/overrides/import"} {
		page := b.Get(path)
		if page.Code != http.StatusServiceUnavailable || !page.Has(webtest.Primary+html.EscapeString(path)+`"`) ||
			formOf.FindString(page.Body) != "" && page.Has("Save") {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
	}
	if len(paths) < 14 {
		t.Errorf("only %d routes are forms", len(paths))
	}
	if page := b.Get("/console/rules?q=charges"); !page.Has(webtest.Primary + `/console/rules?q=charges"`) {
		t.Error("the banner does not lead to the same page")
	}
}

// What was typed before the database became a replica is given back, but for passwords.
func TestReplica_WhatWasTypedIsGivenBack(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	b.Header = http.Header{"Referer": {"http://example.com/console/rules/1/edit"}}
	w.Node.Replica = true
	page := b.Post("/console/rules/1", url.Values{"name": {"charges"}, "reason": {"two\nlines"}, "version": {"3"},
		"current": {"a password"}})
	if page.Code != http.StatusServiceUnavailable || !page.Has("This page keeps your input. Copy it",
		"<dt>reason</dt>", "two\nlines", `name="version" value="3"`, webtest.Primary+`/console/rules/1/edit"`) ||
		page.HasAny("a password", "<dt>version</dt>") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	b.Header = http.Header{"Referer": {"https://other.example/console/people"}}
	page = b.Post("/console/rules/1/delete", url.Values{"version": {"3"}})
	if page.Code != http.StatusServiceUnavailable || page.Has("Send again") || !page.Has(webtest.Primary+`/console"`) {
		t.Errorf("a button: %d\n%s", page.Code, page.Body)
	}
	w.Node.Replica = false // the database is a primary again
	if page := b.Post("/console/rules/1", url.Values{"name": {"charges"}}); page.Code == http.StatusServiceUnavailable {
		t.Errorf("afterwards: %d", page.Code)
	}
}

func TestReplica_WhatChangesNothingWorks(t *testing.T) {
	b := world(t, webtest.Replica).As(access.RoleAdmin)
	page := b.Post("/console/keys", url.Values{"rule": {"charges-per-user"}, "key": {"user:42"}})
	if page.Code != http.StatusSeeOther || !strings.Contains(page.Header.Get("Location"), "key=user%3A42") {
		t.Errorf("looking up a key: %d to %q", page.Code, page.Header.Get("Location"))
	}
	if page := b.Get("/console/import"); page.Has("requires the role") {
		t.Error("an administrator is told to lack a role")
	}
	viewer := world(t, webtest.Full).As(access.RoleViewer)
	if page := viewer.Get("/console/import"); !page.Has("Importing requires the role editor.") {
		t.Error("a viewer is not told which role imports")
	}
}
