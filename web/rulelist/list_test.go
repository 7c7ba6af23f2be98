package rulelist_test

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/rules"
	"sluice/web/webtest"
)

var rowName = regexp.MustCompile(`<th scope="row" title="([a-z0-9-]+)[",:]`)

// names are the rules of a list, in order.
func names(page webtest.Page) []string {
	var out []string
	for _, m := range rowName.FindAllStringSubmatch(page.Body, -1) {
		out = append(out, m[1])
	}
	return out
}

func recompile(t *testing.T, w *webtest.World) {
	t.Helper()
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
}

func TestRules_MostDeniedAreFirstOnEveryPageAndInEveryFilter(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.List = webtest.ManyRules(300)
	recompile(t, w)
	denied := map[string]int64{}
	w.Fleet.Change(func(l *history.Live) {
		l.Rules = nil
		for i := range 70 {
			name := w.Rules.List[299-4*i].Name
			denied[name] = int64(1000 - i)
			l.Rules = append(l.Rules, history.RuleLive{Name: name, Minute: history.Figures{Denied: denied[name]}})
		}
		l.Rules = append(l.Rules, history.RuleLive{Name: "a rule that is gone", Minute: history.Figures{Denied: 5}},
			history.RuleLive{Name: w.Rules.List[0].Name, Minute: history.Figures{Allowed: 9}})
	})
	b := w.As(access.RoleViewer)
	for _, filter := range []string{"", "&fail_mode=closed", "&q=user", "&q=POST+/v1/charges"} {
		var got []string
		for page := 1; page <= 6; page++ {
			got = append(got, names(b.Get(fmt.Sprintf("/console/rules?sort=denied%s&page=%d", filter, page)))...)
		}
		var all []string
		for page := 1; page <= 6; page++ {
			all = append(all, names(b.Get(fmt.Sprintf("/console/rules?sort=name%s&page=%d", filter, page)))...)
		}
		slices.SortStableFunc(all, func(x, y string) int { return int(denied[y] - denied[x]) })
		if len(all) == 0 || !slices.Equal(got, all) {
			t.Errorf("%s: got %d rules %.300v, want %d %.300v", filter, len(got), got, len(all), all)
		}
	}
	page := b.Get("/console/rules?sort=denied")
	if !page.Has(`aria-sort="descending"`, "1–50 of 300 rules") {
		t.Error("the head does not say the order")
	}
	w.Fleet.Change(func(l *history.Live) { l.Err = http.ErrHandlerTimeout })
	if got := names(b.Get("/console/rules?sort=denied")); len(got) != 50 || got[0] != "charges-per-user-00000" {
		t.Errorf("without figures: %v", got)
	}
}

func TestRules_SearchForARequestFindsTheRulesThatApply(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleViewer)
	page := b.Get("/console/rules?q=post+/v1/charges?page=2")
	want := []string{"charges-per-user", "daily-quota-per-tenant", "tighter-charges", "everything-per-address"}
	if got := names(page); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !page.Has("4 rules in force apply to POST /v1/charges.", "/console/explain?method=POST&amp;route=%2Fv1%2Fcharges") {
		t.Error("it does not say what it shows, or how to explain it")
	}
	if page := b.Get("/console/explain?method=POST&route=%2Fv1%2Fcharges"); !page.Has(`value="/v1/charges"`,
		`value="POST"`) {
		t.Error("the form of Explain is empty")
	}
	if page := b.Get("/console/rules?q=POST+/v1/charges&mode=shadow"); !slices.Equal(names(page),
		[]string{"tighter-charges"}) {
		t.Errorf("with a filter: %v", names(page))
	}
	for _, words := range []string{"charges+/v1", "POST", "POST+v1", "POST+/v1+x"} {
		if b.Get("/console/rules?q=" + words).Has("in force") {
			t.Errorf("%s is read as a request", words)
		}
	}
	w.Rules.List = slices.DeleteFunc(w.Rules.List, func(r rules.Rule) bool { return r.Route == nil })
	recompile(t, w)
	if page := b.Get("/console/rules?q=POST+/nowhere"); !page.Has("No rule in force applies to POST /nowhere.",
		"No matching rules") {
		t.Error("no rule applies")
	}
	page = w.As(access.RoleEditor).Post("/console/rules/bulk", map[string][]string{"act": {"off"}, "all": {"1"},
		"back": {"/console/rules?q=POST+/v1/charges"}})
	if !page.Has("Disable 2 rules?", "that apply to POST /v1/charges") {
		t.Error("all of them are not those of the request")
	}
}

func TestRules_AreGroupedByOwner(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for i, owner := range []string{"search", "billing", "search"} {
		w.Rules.List[i+1].Owner = &owner
	}
	page := w.As(access.RoleViewer).Get("/console/rules?group=owner&sort=limit")
	var at []int
	for _, text := range []string{"owner=billing", "logins-per-address", "owner=payments", "charges-per-user",
		"owner=search", "daily-quota-per-tenant", "search-per-user", "No owner", "everything-per-address"} {
		at = append(at, strings.Index(page.Body, text))
	}
	if !slices.IsSorted(at) || at[0] < 0 || page.Has(">owner payments<") {
		t.Errorf("the order is %v", at)
	}
}

func TestRules_ShowTheUseOfALimitWhereItIsKnown(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	tens := make([]history.Point, 60)
	for i := range tens {
		tens[i].Allowed, tens[i].Use = 100, history.UseOf(int64(i), 100)
	}
	w.Fleet.Change(func(l *history.Live) { l.Rules = []history.RuleLive{{Name: w.Rules.List[0].Name, Tens: tens}} })
	b := w.As(access.RoleViewer)
	page := b.Get("/console/rules")
	const cells = 60 / 3
	if n := strings.Count(page.Body, `class="heat-`); n != cells || !page.Has("Use of the limit: up to 59% by one key") {
		t.Errorf("%d cells, want %d with the highest use", n, cells)
	}
	for i := range tens { // as of nodes that do not count uses
		tens[i].Use = 0
	}
	if page := b.Get("/console/rules"); page.Has(`class="heat-`) || !page.Has("Use of the limit: not known") {
		t.Error("an unknown use is drawn")
	}
}
