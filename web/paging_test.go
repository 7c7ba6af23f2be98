package web_test

import (
	"fmt"
	"html"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestRules_PagesFollowOnOneAnother(t *testing.T) {
	w := world(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(120)
	var names []string
	for i := range w.Rules.List {
		names = append(names, w.Rules.List[i].Name)
	}
	slices.Sort(names)
	b := w.As(access.RoleViewer)
	for page, from := range map[int]int{1: 0, 2: 50, 3: 100} {
		body := b.Get(fmt.Sprintf("/console/rules?page=%d", page)).Body
		for i, name := range names {
			if shown, want := strings.Contains(body, `<th scope="row" title="`+name), i >= from && i < from+50; shown != want {
				t.Errorf("page %d: %s is shown: %v", page, name, shown)
			}
		}
	}
}

func TestFailModes_AreFilteredAndPaged(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	if page := b.Get("/console/fail-modes?fail_mode=closed"); !page.Has("logins-per-address", "signups-in-all",
		"of 2 rules") || page.Has("search-per-user") {
		t.Error("the filter lets others through")
	}
	if page := b.Get("/console/fail-modes?q=webhooks"); !page.Has("webhooks-paced") || page.Has("search-per-user") {
		t.Error("the search lets others through")
	}
	w.Rules.List = webtest.ManyRules(120)
	first, second := ruleLinks(b.Get("/console/fail-modes").Body), ruleLinks(b.Get("/console/fail-modes?page=2").Body)
	if len(first) != 50 || len(second) != 50 {
		t.Fatalf("pages of %d and %d rules", len(first), len(second))
	}
	for _, link := range second {
		if slices.Contains(first, link) {
			t.Errorf("%s is on both pages", link)
		}
	}
}

var ruleLink = regexp.MustCompile(`<td data-label="Rule"><a href="(/console/rules/[0-9]+)"`)

func ruleLinks(body string) []string {
	var out []string
	for _, m := range ruleLink.FindAllStringSubmatch(body, -1) {
		out = append(out, m[1])
	}
	return out
}

var (
	explainLink = regexp.MustCompile(`/console/explain\?denial=(m[0-9]+)"`)
	nextLink    = regexp.MustCompile(`rel="next" href="([^"]+)"`)
)

func TestDenials_NoneIsLostBetweenPages(t *testing.T) {
	w := world(t, webtest.Full)
	sample := w.Fleet.Denied[0]
	w.Fleet.Denied = nil
	for i := range 250 { // three in each moment
		sample.ID, sample.At = fmt.Sprintf("m%d", i), webtest.Now.UnixMilli()-int64(i/3)*10
		w.Fleet.Denied = append(w.Fleet.Denied, sample)
	}
	b := w.As(access.RoleViewer)
	seen := map[string]bool{}
	for path, n := "/console/denials", 0; path != ""; n++ {
		page := b.Get(path)
		for _, m := range explainLink.FindAllStringSubmatch(page.Body, -1) {
			seen[m[1]] = true
		}
		path = ""
		if next := nextLink.FindStringSubmatch(page.Body); next != nil && n < 9 {
			path = html.UnescapeString(next[1])
		}
	}
	if len(seen) != 250 {
		t.Errorf("%d of 250 denials were on the pages", len(seen))
	}
}
