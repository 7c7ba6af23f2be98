package web_test

import (
	"net/http"
	"strings"
	"testing"

	"sluice/web"
	"sluice/web/webtest"
)

// notPages are the routes that answer GET with something else than a page, and
// what that is.
var notPages = map[string]string{
	"GET /console/audit/download": "a file, CSV or JSON",
	"GET /console/events":         "a stream, which a page listens to",
	"GET /console/export":         "a file, YAML",
	"GET /console/traffic.csv":    "a file, CSV",
	"GET /console/incidents.csv":  "a file, CSV",
	"GET /console/sso/callback":   "takes the provider's answer and leads on",
	"GET /console/sso/go":         "leads to the provider",
}

// noForm are the routes of POST that no page of the gallery has a form for, and
// why.
var noForm = map[string]string{}

// TestGallery_HasEveryPage keeps the checks that follow the gallery (accessible,
// small, narrow, inert) from missing a page or a form.
func TestGallery_HasEveryPage(t *testing.T) {
	asked, posted := map[string]bool{}, map[string]bool{}
	for _, s := range visitGallery(t) {
		if s.Form == nil {
			if s.page.Code == http.StatusOK {
				asked[patternOf(http.MethodGet, s.Path)] = true
			}
		} else {
			posted[patternOf(http.MethodPost, s.Path)] = true
		}
		for _, f := range formsOf(t, s.page.Body, s.Path) {
			if f.method == http.MethodPost {
				posted[patternOf(http.MethodPost, f.action)] = true
			}
			for _, c := range f.controls {
				if c.action != "" {
					posted[patternOf(http.MethodPost, c.action)] = true
				}
			}
		}
	}
	for _, r := range web.Table() {
		in, excused, what := posted, noForm, "form"
		if r.Method == http.MethodGet {
			in, excused, what = asked, notPages, "page"
		}
		_, known := excused[r.Method+" "+r.Path]
		if found := in[r.Path]; !known && !found {
			t.Errorf("%s %s: the gallery has no such %s; add it to webtest.Gallery", r.Method, r.Path, what)
		} else if known && found {
			t.Errorf("%s %s is excused and need not be", r.Method, r.Path)
		}
	}
	for name := range notPages {
		known(t, name)
	}
	for name := range noForm {
		known(t, name)
	}
}

func known(t *testing.T, name string) {
	t.Helper()
	for _, r := range web.Table() {
		if r.Method+" "+r.Path == name {
			return
		}
	}
	t.Errorf("%s is excused and does not exist", name)
}

// patternOf is the path of the route that answers a request, in Echo's notation:
// of those that fit, the one with the fewest parameters.
func patternOf(method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	best, fewest := "", len(path)
	for _, r := range web.Table() {
		if n := strings.Count(r.Path, ":"); r.Method == method && n < fewest && fits(r.Path, path) {
			best, fewest = r.Path, n
		}
	}
	return best
}

func fits(pattern, path string) bool {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !strings.HasPrefix(want[i], ":") && want[i] != got[i] {
			return false
		}
	}
	return true
}

func TestGallery_NamesEachPageOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range webtest.Gallery() {
		if seen[s.Name] {
			t.Errorf("two pages are called %s, and one file would overwrite the other", s.Name)
		}
		seen[s.Name] = true
	}
}
