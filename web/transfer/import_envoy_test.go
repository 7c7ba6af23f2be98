package transfer_test

import (
	"net/http"
	"net/url"
	"testing"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/web/webtest"
)

const envoyShop = `domain: shop
descriptors:
- key: path
  value: pay
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 5}
`

func TestImport_NamesOpenWritesOfEnvoysConfiguration(t *testing.T) {
	b := webtest.Start(t, webtest.Full).As(access.RoleEditor)
	const file = "domain: shop\ndescriptors:\n- key: verb\n  value: POST\n" +
		"  rate_limit: {unit: minute, requests_per_unit: 5}\n"
	page := b.Post("/console/import", url.Values{"text": {file}, "format": {"envoy"}})
	if !page.Has("These rules for writes have the fail mode open", "shop.verb_post") {
		t.Errorf("the plan: %d\n%s", page.Code, page.Body)
	}
}

func TestImport_TakesEnvoysConfiguration(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	old := rules.Rule{ID: 900, Name: "shop.old", Limit: 1, WindowMS: 1000, IsActive: true, Version: 1,
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "old"}}}}
	old.Normalize()
	w.Rules.List = append(w.Rules.List, old)
	form := url.Values{"text": {envoyShop}, "format": {"envoy"}, "algorithm": {"gcra"}, "merge_domains": {"on"},
		"prune": {"on"}}
	page := b.Post("/console/import", form)
	found := planSum.FindStringSubmatch(page.Body)
	if page.Code != http.StatusOK || found == nil || !page.Has("shop.path_pay", "shop.old", "1 rule",
		"<h2>Report</h2>", "line 5", "top keys", `name="format" value="envoy"`, `name="algorithm" value="gcra"`,
		`name="merge_domains" value="on"`) || page.Has(`name="prune"`) {
		t.Fatalf("the plan: %d\n%s", page.Code, page.Body)
	}
	form.Set("sum", found[1])
	if page := b.Post("/console/import/apply", form); page.Code != http.StatusSeeOther || len(w.Book.Applied) != 1 ||
		w.Book.Applied[0] != "edda: 1 created, 0 updated, 0 deleted" {
		t.Errorf("applied without deleting: %d %q", page.Code, w.Book.Applied)
	}
}

// An import that changes nothing does not claim to match a file from which the report says what is left out.
func TestImport_NothingToDoIsNotAMatchBesideAReport(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	w.Rules.List = append(w.Rules.List, rules.Rule{ID: 900, Name: "shop.path_pay", Limit: 5, IsActive: true, Version: 1,
		Algorithm: "fixed_window", Calendar: &rules.Calendar{Every: "month"}, Addend: "charge",
		Descriptor: &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "path", Value: "pay"}}}})
	w.Rules.List[len(w.Rules.List)-1].Normalize()
	page := w.As(access.RoleEditor).Post("/console/import", url.Values{"text": {envoyShop}, "format": {"envoy"}})
	if page.Code != http.StatusOK || !page.Has("a calendar of every month, which stays", "Nothing to do",
		"The report says what differs") || page.Has("already match") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestImport_EnvoysConfigurationIsRefusedWithLines(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Post("/console/import", url.Values{"text": {envoyShop + "- {key: <b>, colour: red}\n"}, "format": {"envoy"}})
	if page.Code != http.StatusUnprocessableEntity || !page.Has("line 7", "unknown key &#34;colour&#34;",
		`<option value="envoy" selected>`) || page.Has("<b>") || len(w.Book.Applied) != 0 {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}
