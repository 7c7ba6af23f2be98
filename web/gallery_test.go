package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sluice/web"
	"sluice/web/webtest"
)

// notPages are the routes that answer GET with something else than a page, and
// what that is.
var notPages = map[string]string{}

// noForm are the routes of POST that no page of the gallery has a form for, and
// why.
var noForm = map[string]string{}

// TestGallery_HasEveryPage keeps the checks that follow the gallery (accessible,
// small, narrow, inert) from missing a page or a form.
func TestGallery_HasEveryPage(t *testing.T) {
	asked, posted := map[string]bool{}, map[string]bool{}
	for _, s := range webtest.Gallery() {
		page, err := s.Visit()
		if err != nil {
			t.Fatal(err)
		}
		if s.Form == nil {
			if page.Code == http.StatusOK {
				asked[s.Path] = true
			}
		} else {
			posted[s.Path] = true
		}
		for _, f := range formsOf(t, page.Body, s.Path) {
			if f.method == http.MethodPost {
				posted[f.action] = true
			}
			for _, c := range f.controls {
				if c.action != "" {
					posted[c.action] = true
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
		if fits := route(r.Path); !known && !anyOf(in, fits) {
			t.Errorf("%s %s: the gallery has no such %s; add it to webtest.Gallery", r.Method, r.Path, what)
		} else if known && anyOf(in, fits) {
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

// route matches the paths of a route in Echo's notation.
func route(path string) *regexp.Regexp {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, ":") {
			parts[i] = `[^/]+`
		} else {
			parts[i] = regexp.QuoteMeta(p)
		}
	}
	return regexp.MustCompile("^" + strings.Join(parts, "/") + `(\?.*)?$`)
}

func anyOf(paths map[string]bool, fits *regexp.Regexp) bool {
	for p := range paths {
		if fits.MatchString(p) {
			return true
		}
	}
	return false
}
