package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules"
)

const envoyShop = `# the shop
domain: shop
descriptors:
- key: path
  value: pay
  detailed_metric: true
  rate_limit: {unit: minute, requests_per_unit: 5}
- key: user
  rate_limit: {unit: hour, requests_per_unit: 100}
`

func TestImportEnvoy_NamesOpenWrites(t *testing.T) {
	const file = "domain: shop\ndescriptors:\n- key: verb\n  value: POST\n" +
		"  rate_limit: {unit: minute, requests_per_unit: 5}\n" +
		"- key: verb\n  value: GET\n  rate_limit: {unit: minute, requests_per_unit: 5}\n"
	var p importPlan
	newFixture(t, nil).do(http.MethodPost, "/ratelimit/rules/import?format=envoy&dry_run=true", file,
		"Content-Type", "application/yaml").want(200).decode(&p)
	if !slices.Equal(p.OpenWrites, []string{"shop.verb_post"}) {
		t.Errorf("got %q of %d rules", p.OpenWrites, len(p.Create))
	}
}

func TestImportEnvoy_PlansAppliesAndReports(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("ordinary", 1)})
	yaml := []string{"Content-Type", "application/yaml", "Sluice-Reason", "we move"}
	const path = "/ratelimit/rules/import?format=envoy"
	names := func(list []rules.Rule) (out []string) {
		for i := range list {
			out = append(out, list[i].Name)
		}
		return out
	}
	var p importPlan
	f.do(http.MethodPost, path+"&dry_run=true", envoyShop, yaml...).want(200).decode(&p)
	if !p.DryRun || len(p.Create) != 2 || len(f.book.all()) != 1 {
		t.Errorf("the dry run: %+v, stored: %v", p, names(f.book.all()))
	}
	f.do(http.MethodPost, path, envoyShop, yaml...).want(200).decode(&p)
	if diff := cmp.Diff([]string{"ordinary", "shop.path_pay", "shop.user"}, names(f.book.all())); diff != "" {
		t.Error(diff)
	}
	if len(p.Report) != 1 || p.Report[0].Line != 6 || p.Report[0].File != "" || p.Untouched != 1 {
		t.Errorf("the report: %+v, untouched: %d", p.Report, p.Untouched)
	}
	for i := range f.book.all() {
		if r := f.book.all()[i]; r.Name != "ordinary" && (r.Addend != "charge" || *r.Align != "calendar" || r.Version != 1) {
			t.Errorf("stored: %+v", r)
		}
	}
	f.do(http.MethodPost, path, envoyShop, yaml...).want(200).decode(&p)
	if !p.Empty() || len(p.Unchanged) != 2 {
		t.Errorf("importing again: %+v", p)
	}
	user := f.book.all()[2]
	f.do(http.MethodPatch, fmt.Sprintf("/ratelimit/rules/%d", user.ID), `{"is_active":false}`).want(200)
	f.do(http.MethodPost, path, envoyShop, yaml...).want(200).decode(&p)
	if !p.Empty() || len(p.Report) != 2 || p.Report[0].Line != 8 ||
		!strings.HasPrefix(p.Report[0].Message, "the rule shop.user is disabled and stays disabled") {
		t.Errorf("a disabled rule: %+v", p.Report)
	}
	other := "---\n# Source: other.yaml\ndomain: other\n" +
		"descriptors: [{key: a, value_to_metric: true, rate_limit: {unlimited: true}}]\n"
	less, _, _ := strings.Cut(envoyShop, "- key: user")
	smaller := "---\n# Source: shop.yaml\n" + less + other
	f.do(http.MethodPost, path+"&keep=true", smaller, yaml...).want(200).decode(&p)
	if len(p.Create) != 1 || len(p.Delete) != 0 || len(p.Report) != 2 || p.Report[1].File != "other.yaml" ||
		p.Report[1].Line != 2 {
		t.Errorf("with keep: %+v", p)
	}
	f.do(http.MethodPost, path, smaller, yaml...).want(200).decode(&p)
	if diff := cmp.Diff([]string{"shop.user"}, names(p.Delete)); diff != "" || len(p.Create)+len(p.Update) != 0 {
		t.Errorf("without keep: %s %+v", diff, p)
	}
	f.do(http.MethodPost, path+"&algorithm=gcra", smaller, yaml...).want(200).decode(&p)
	if len(p.Update) != 2 || p.Update[0].New.Algorithm != "gcra" {
		t.Errorf("with another algorithm: %+v", p)
	}
	f.do(http.MethodPost, path, smaller+strings.ReplaceAll(other, "key: a", "key: b"), yaml...).want(422)
	f.do(http.MethodPost, path+"&merge_domains=true", smaller+strings.ReplaceAll(other, "key: a", "key: b"),
		yaml...).want(200).decode(&p)
	if len(p.Create) != 1 || p.Create[0].Name != "other.b" {
		t.Errorf("with merge_domains: %+v", p)
	}
}

func TestImportEnvoy_RefusesAllOrNothing(t *testing.T) {
	f := newFixture(t, nil)
	yaml := []string{"Content-Type", "application/yaml"}
	const path = "/ratelimit/rules/import?format=envoy"
	bad := envoyShop + "- {key: c, rate_limit: {unit: eon}}\n---\n# Source: b.yaml\ndomain: b\ndescriptors: [{kee: a}]\n"
	if diff := cmp.Diff([]string{"b.yaml:2", "b.yaml:2", "line 10"}, f.do(http.MethodPost, path, bad,
		yaml...).want(422).fields()); diff != "" {
		t.Error(diff)
	}
	f.do(http.MethodPost, path, "domain: [", yaml...).want(422)
	f.do(http.MethodPost, path, "", yaml...).want(422)
	f.do(http.MethodPost, path, "domain: \xff", yaml...).want(422)
	for query, field := range map[string]string{
		"format=envoy&prune=true": "prune", "keep=true": "keep", "algorithm=gcra": "algorithm", "format=xml": "format",
		"merge_domains=true": "merge_domains", "format=envoy&algorithm=magic": "algorithm", "format=envoy&keep=1": "keep",
	} {
		got := f.do(http.MethodPost, "/ratelimit/rules/import?"+query, envoyShop, yaml...).want(422).fields()
		if !slices.Equal(got, []string{field}) {
			t.Errorf("%s: %v", query, got)
		}
	}
	if len(f.book.all()) != 0 {
		t.Error("a refused import wrote something")
	}
}
