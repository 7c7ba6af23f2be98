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
