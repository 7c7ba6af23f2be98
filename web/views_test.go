package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/webtest"
)

const views = "/console/views"

// saving is the form that saves a view.
func saving(name, path, query string) url.Values {
	return url.Values{"name": {name}, "path": {path}, "query": {query}}
}

func TestViews_AreSavedOpenedRenamedAndDeleted(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/rules")
	if page.Has("Save this view") || page.Has("Saved views") {
		t.Errorf("without filters: %s", page.Body)
	}
	page = b.Get("/console/rules?mode=shadow&q=&page=2")
	if !page.Has("Save this view", `name="path" value="/console/rules"`, `name="query" value="mode=shadow"`) {
		t.Errorf("with filters: %s", page.Body)
	}
	page = b.Post(views, saving(` <i>"Mine"</i> `, "/console/rules", "mode=shadow&page=2"))
	if page.Code != http.StatusSeeOther || page.Header.Get("Location") != "/console/rules?mode=shadow" {
		t.Fatalf("saved: %d to %s\n%s", page.Code, page.Header.Get("Location"), page.Body)
	}
	const link, name = `<a href="/console/rules?mode=shadow"`, `&lt;i&gt;&#34;Mine&#34;&lt;/i&gt;`
	if page = b.Get("/console/rules"); !page.Has(link, name) || page.Has("Save this view") {
		t.Errorf("on its page: %s", page.Body)
	}
	if page = b.Get("/console/rules?page=1&mode=shadow"); !page.Has(link+` aria-current="page"`) || page.Has("Save this view") {
		t.Errorf("while it is open: %s", page.Body)
	}
	for _, other := range []string{"/console/audit", "/console/pools"} {
		if page = b.Get(other); page.Has(name) {
			t.Errorf("on %s: %s", other, page.Body)
		}
	}
	if page = w.As(access.RoleEditor).Get("/console/rules"); page.Has(name) {
		t.Error("another person sees it")
	}
	if page = w.As(access.RoleEditor).Post(views+"/1", url.Values{"name": {"theirs"}}); page.Code != http.StatusNotFound {
		t.Errorf("another person renames it: %d", page.Code)
	}
	if page = b.Post(views+"/1", url.Values{"name": {"Shadow"}}); page.Header.Get("Location") != views {
		t.Errorf("renamed: %d\n%s", page.Code, page.Body)
	}
	if page = b.Get(views); !page.Has(link, ">Shadow</a>", "Rules", views+"/1/remove") {
		t.Errorf("the list: %s", page.Body)
	}
	if page = b.Post(views+"/1/remove", nil); page.Header.Get("Location") != views {
		t.Errorf("deleted: %d\n%s", page.Code, page.Body)
	}
	if page = b.Get(views); !page.Has("No saved views.") {
		t.Errorf("the list: %s", page.Body)
	}
	if page = b.Post(views+"/1/remove", nil); page.Code != http.StatusNotFound {
		t.Errorf("deleted twice: %d", page.Code)
	}
}

// Every list with filters can be saved: the form is there as soon as there is a filter.
func TestViews_OfEveryListWithFilters(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for path, query := range map[string]string{"/console/rules": "state=on", "/console/denials": "rule=charges-per-user",
		"/console/requests": "rule=charges-per-user", "/console/audit": "action=create", "/console/incidents": "range=7d",
		"/console/traffic": "range=1h"} {
		if page := b.Get(path + "?" + query); !page.Has("Save this view", `value="`+query+`"`) {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
		if page := b.Post(views, saving("a view", path, query)); page.Header.Get("Location") != path+"?"+query {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
		if page := b.Get(path); !page.Has(">a view</a>") {
			t.Errorf("%s: %d\n%s", path, page.Code, page.Body)
		}
	}
	if page := b.Get(views); !page.Has("Requests", "Denials", "Traffic", "Incidents", "Audit log") {
		t.Errorf("%s", page.Body)
	}
}

// A view is a page of this console with filters, and nothing else.
func TestViews_LeadNowhereElse(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for _, path := range []string{"", "https://evil.example/", "//evil.example", "/console/rules/../../x",
		"/console/sign-out", "/console/rules/1/delete", `/console/rules\`, "javascript:alert(1)", "/console/rules?x=1", "/console/rules "} {
		if page := b.Post(views, saving("n", path, "mode=shadow")); page.Code != http.StatusUnprocessableEntity ||
			!page.Has("View not saved") {
			t.Errorf("%q: %d to %q", path, page.Code, page.Header.Get("Location"))
		}
	}
	for _, query := range []string{"", "page=3", "q=%zz", "q=" + strings.Repeat("x", 1999), "a=1;b=2"} {
		if page := b.Post(views, saving("n", "/console/rules", query)); page.Code != http.StatusUnprocessableEntity {
			t.Errorf("%.20q: %d to %q", query, page.Code, page.Header.Get("Location"))
		}
	}
	for _, query := range []string{"q=" + strings.Repeat("x", 1998), "q=\r\nSet-Cookie: a=b", `q="><script>`, "q=#x", "@evil.example"} {
		page := b.Post(views, saving(fmt.Sprintf("view %d", len(query)), "/console/rules", query))
		to := page.Header.Get("Location")
		if u, err := url.Parse(to); page.Code != http.StatusSeeOther && query != "@evil.example" || err != nil ||
			u.Host != "" || page.Code == http.StatusSeeOther && u.Path != "/console/rules" ||
			strings.ContainsAny(to, "\r\n\"<#") {
			t.Errorf("%.20q: %d to %q", query, page.Code, to)
		}
	}
	for _, name := range []string{"", " ", strings.Repeat("ä", 61), "a\nb"} {
		page := b.Post(views, saving(name, "/console/rules", "mode=shadow"))
		if page.Code != http.StatusUnprocessableEntity || !page.Has("must have 1 to 60 characters") {
			t.Errorf("%q: %d", name, page.Code)
		}
	}
}

func TestViews_The51stIsRefused(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	for i := range access.MaxSavedViews {
		page := b.Post(views, saving(fmt.Sprint("view ", i), "/console/rules", "mode=shadow"))
		if page.Code != http.StatusSeeOther {
			t.Fatalf("view %d: %d\n%s", i, page.Code, page.Body)
		}
	}
	page := b.Post(views, saving("more", "/console/rules", "mode=shadow"))
	if page.Code != http.StatusUnprocessableEntity || !page.Has("you already have 50 saved views; delete one") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page = b.Post(views+"/1", url.Values{"name": {"view 2"}}); page.Code != http.StatusConflict ||
		!page.Has("You have another view of this page with that name.") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	w.Views.Err = rules.ErrUnavailable
	if page := b.Get("/console/rules?mode=shadow"); page.Code != http.StatusOK || page.Has("Saved views") {
		t.Errorf("without the database: %d\n%s", page.Code, page.Body)
	}
}
