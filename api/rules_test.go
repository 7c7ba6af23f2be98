package api

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/rules"
)

const charges = `{"name":"charges-per-user","scope":"user","route":"/v1/charges","method":"POST","limit":5,"window_ms":1000}`

func (a *answered) rule() rules.Rule {
	a.t.Helper()
	var r rules.Rule
	a.decode(&r)
	return r
}

func TestRules_CreateAnswersTheStoredRuleAndIsInForce(t *testing.T) {
	f := newFixture(t, nil)
	a := f.do(http.MethodPost, "/ratelimit/rules", charges).want(201)
	if a.header.Get("Location") != "/ratelimit/rules/1" || a.header.Get("ETag") != `"1"` {
		t.Errorf("headers %v", a.header)
	}
	got := a.object()
	for name, want := range map[string]any{
		"algorithm": "sliding_window_counter", "burst": nil, "align": nil, "buckets": nil, "weight_field": nil,
		"throttle": "hard", "soft_percent": nil,
		"mode": "enforce", "fail_mode": "open", "is_active": true, "description": "", "method": "POST",
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if r := f.check(`{"method":"POST","route":"/v1/charges","user":"42"}`); *r.Rule != "charges-per-user" {
		t.Errorf("the next check does not meet the rule: %+v", r)
	}
}

func TestRules_AChangeThatIsNotInForceYetIsASuccessThatSaysSo(t *testing.T) {
	var inForce atomic.Bool
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) {
		d.Changed = func(ctx context.Context) bool { return ctx != nil && inForce.Load() }
	})
	for i, want := range []string{"false", ""} {
		inForce.Store(want == "")
		path := fmt.Sprintf("/ratelimit/rules/%d", i+1)
		for _, step := range []struct {
			method, path, body string
			status             int
		}{
			{"POST", "/ratelimit/rules", fmt.Sprintf(`{"name":"r%d","scope":"user","limit":5,"window_ms":1000}`, i), 201},
			{"PATCH", path, `{"limit":6}`, 200},
			{"DELETE", path, "", 204},
		} {
			a := f.do(step.method, step.path, step.body)
			if got := a.header.Get("Sluice-In-Force"); a.status != step.status || got != want {
				t.Errorf("%s %s: %d with Sluice-In-Force %q, want %d with %q", step.method, step.path, a.status, got, step.status,
					want)
			}
		}
	}
}

func TestRules_GetAndPutRoundTrip(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	a := f.do(http.MethodGet, "/ratelimit/rules/1", "").want(200)
	b := f.do(http.MethodPut, "/ratelimit/rules/1", strings.Replace(a.body, `"limit":5`, `"limit":7`, 1), "If-Match",
		a.header.Get("ETag")).want(200)
	if r := b.rule(); r.Limit != 7 || r.Version != 2 || *r.Method != "POST" || b.header.Get("ETag") != `"2"` {
		t.Errorf("got %s", b.body)
	}
	f.do(http.MethodGet, "/ratelimit/rules/1", "", "If-None-Match", `"2"`).want(304)
	f.do(http.MethodGet, "/ratelimit/rules/1", "", "If-None-Match", `"1"`).want(200)
	f.do(http.MethodHead, "/ratelimit/rules/1", "").want(200)
}

func TestRules_PutReplacesWhatIsLeftOut(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	r := f.do(http.MethodPut, "/ratelimit/rules/1", `{"name":"x","scope":"ip","limit":1,"window_ms":1}`).want(200).rule()
	if r.Method != nil || r.Route != nil || r.Scope != "ip" {
		t.Errorf("got %+v", r)
	}
	a := f.do(http.MethodPut, "/ratelimit/rules/1", `{"id":2,"name":"x","scope":"ip","limit":1,"window_ms":1}`).want(422)
	if diff := cmp.Diff([]string{"id"}, a.fields()); diff != "" {
		t.Error(diff)
	}
}

func TestRules_PatchMerges(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	for _, media := range []string{"application/merge-patch+json", "application/json"} {
		a := f.do(http.MethodPatch, "/ratelimit/rules/1", `{"limit":10,"method":null,"mode":"shadow"}`, "Content-Type",
			media).want(200)
		if r := a.rule(); r.Limit != 10 || r.Method != nil || *r.Route != "/v1/charges" || r.Mode != "shadow" {
			t.Errorf("got %s", a.body)
		}
	}
	if r := f.do(http.MethodPatch, "/ratelimit/rules/1",
		`{"mode":null,"is_active":false}`).want(200).rule(); r.Mode != "enforce" || r.IsActive {
		t.Errorf("got %+v", r)
	}
	for body, field := range map[string]string{
		`{"id":1}`: "id", `{"version":9}`: "version", `{"created_at":"x"}`: "created_at", `{"limit":null}`: "limit",
		`{"name":null}`: "name",
		`{"burst":5}`:   "burst", `{"is_active":"yes"}`: "is_active",
	} {
		if diff := cmp.Diff([]string{field},
			f.do(http.MethodPatch, "/ratelimit/rules/1", body).want(422).fields()); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestRules_PatchWithoutIfMatchSurvivesAColleague(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	f.book.beforeUpd = func() {
		f.do(http.MethodPatch, "/ratelimit/rules/1", `{"description":"theirs"}`).want(200)
	}
	r := f.do(http.MethodPatch, "/ratelimit/rules/1", `{"limit":9}`).want(200).rule()
	if r.Limit != 9 || r.Description != "theirs" || r.Version != 3 {
		t.Errorf("got %+v, want both changes", r)
	}
	f.book.beforeUpd = func() {
		f.do(http.MethodPatch, "/ratelimit/rules/1", `{"description":"again"}`).want(200)
	}
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"limit":8}`, "If-Match", `"3"`).want(412)
}

func TestRules_NullMakesARuleActiveAgain(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges).want(201)
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"is_active":false}`).want(200)
	if r := f.do(http.MethodPatch, "/ratelimit/rules/1", `{"is_active":null}`).want(200).rule(); !r.IsActive {
		t.Errorf("got %+v, want the default: active", r)
	}
}

// A colleague's change between the look at If-Match and the write is stale too.
func TestRules_IfMatchHoldsUntilTheWrite(t *testing.T) {
	for _, w := range [][3]string{
		{http.MethodPut, "/ratelimit/rules/1", charges},
		{http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":1}`},
		{http.MethodDelete, "/ratelimit/rules/1", ""},
	} {
		f := newFixture(t, nil)
		f.do(http.MethodPost, "/ratelimit/rules", charges).want(201)
		f.book.beforeUpd = func() {
			f.do(http.MethodPatch, "/ratelimit/rules/1", `{"description":"theirs"}`).want(200)
		}
		f.do(w[0], w[1], w[2], "If-Match", `"1"`).want(412)
		if r := f.do(http.MethodGet, "/ratelimit/rules/1", "").rule(); r.Description != "theirs" || r.Version != 2 {
			t.Errorf("%s %s: got %+v, want the colleague's change", w[0], w[1], r)
		}
	}
}

func TestRules_IfMatch(t *testing.T) {
	tests := []struct {
		header string
		status int
	}{
		{`"2"`, 200}, {`*`, 200}, {`"1", "2"`, 200}, {`"1","2"`, 200}, {`"1"`, 412}, {`W/"2"`, 412}, {`"1", W/"2"`, 412},
		{`2`, 400}, {`"2`, 400}, {`"2" "3"`, 400}, {`"02"`, 412}, {`""`, 412}, {`W/`, 400}, {`"2",`, 200},
	}
	for _, tt := range tests {
		f := newFixture(t, nil)
		f.do(http.MethodPost, "/ratelimit/rules", charges)
		f.do(http.MethodPatch, "/ratelimit/rules/1", `{"limit":6}`).want(200)
		for _, w := range [][3]string{
			{http.MethodPatch, "/ratelimit/rules/1", `{}`}, {http.MethodPut, "/ratelimit/rules/1", charges},
			{http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":1}`}, {http.MethodDelete, "/ratelimit/rules/1", ""},
		} {
			header := strings.ReplaceAll(tt.header, "2", fmt.Sprint(f.book.all()[0].Version))
			want := tt.status
			if w[0] == http.MethodDelete && want == 200 {
				want = 204
			}
			if a := f.do(w[0], w[1], w[2], "If-Match", header); a.status != want {
				t.Errorf("%s with If-Match %s: status %d, want %d: %s", w[0], header, a.status, want, a.body)
			}
		}
	}
}

func TestRules_MissingOnesAre404(t *testing.T) {
	f := newFixture(t, nil)
	for _, id := range []string{"1", "0", "-1", "01", "+1", "abc", "9223372036854775808", "%31x", "1.0"} {
		path := "/ratelimit/rules/" + id
		f.do(http.MethodGet, path, "").want(404)
		f.do(http.MethodPut, path, charges).want(404)
		f.do(http.MethodPatch, path, `{}`).want(404)
		f.do(http.MethodDelete, path, "").want(404)
		f.do(http.MethodDelete, path, "", "If-Match", "*").want(404)
		f.do(http.MethodGet, path+"/history", "").want(404)
		f.do(http.MethodPost, path+"/rollback", `{"version":1}`).want(404)
	}
}

func TestRules_NameTaken(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges).want(201)
	a := f.do(http.MethodPost, "/ratelimit/rules", charges).want(409)
	if diff := cmp.Diff([]string{"name"}, a.fields()); diff != "" {
		t.Error(diff)
	}
}

func TestRules_ListFiltersAndPages(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 7 {
		r := perUser(fmt.Sprintf("r%d", i), 1)
		r.IsActive = i%2 == 0
		if _, err := f.book.CreateRule(t.Context(), rules.Actor{}, r); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	path := "/ratelimit/rules?page_size=2&active=true"
	for page := path; ; {
		var p rulePage
		f.do(http.MethodGet, page, "").want(200).decode(&p)
		for _, r := range p.Rules {
			names = append(names, r.Name)
		}
		if p.NextPageToken == "" {
			break
		}
		page = path + "&page_token=" + p.NextPageToken
	}
	if diff := cmp.Diff([]string{"r0", "r2", "r4", "r6"}, names); diff != "" {
		t.Error(diff)
	}
	for query, field := range map[string]string{
		"page_size=0": "page_size", "page_size=501": "page_size", "page_size=x": "page_size", "page_token=zzz": "page_token",
		"active=yes": "active", "mode=both": "mode",
		"pagesize=1": "pagesize", "q=" + strings.Repeat("a", 1025): "q", "scope=a&scope=b": "scope",
	} {
		if diff := cmp.Diff([]string{field},
			f.do(http.MethodGet, "/ratelimit/rules?"+query, "").want(422).fields()); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	f.do(http.MethodGet, "/ratelimit/rules?q=%zz", "").want(400)
}

func TestRules_HistoryAndRollback(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"limit":9}`)
	var h historyPage
	f.do(http.MethodGet, "/ratelimit/rules/1/history?page_size=1", "").want(200).decode(&h)
	if len(h.History) != 1 || h.History[0].Version != 2 || h.History[0].Changes[0].Field != "limit" ||
		h.NextPageToken == "" {
		t.Fatalf("got %+v", h)
	}
	f.do(http.MethodGet, "/ratelimit/rules/1/history?page_token="+h.NextPageToken, "").want(200).decode(&h)
	if len(h.History) != 1 || h.History[0].Version != 1 || h.NextPageToken != "" {
		t.Errorf("second page %+v", h)
	}
	f.do(http.MethodGet, "/ratelimit/rules/1/history?page_size=2", "").want(200).decode(&h)
	if len(h.History) != 2 || h.NextPageToken != "" {
		t.Errorf("a page that holds everything %+v", h)
	}
	if r := f.do(http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":1}`).want(200).rule(); r.Limit != 5 ||
		r.Version != 3 {
		t.Errorf("got %+v", r)
	}
	f.do(http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":77}`).want(404)
	for _, body := range []string{`{}`, `{"version":0}`, `{"version":1.0}`, `{"version":"1"}`, `{"version":null}`,
		`{"version":9007199254740992}`} {
		f.do(http.MethodPost, "/ratelimit/rules/1/rollback", body).want(422)
	}
	f.do(http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":1,"x":1}`).want(400)
	f.do(http.MethodDelete, "/ratelimit/rules/1", "").want(204)
	f.do(http.MethodGet, "/ratelimit/rules/1/history", "").want(200)
}

func TestRules_ExportImportRoundTrip(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", charges)
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"other","scope":"global","limit":1,"window_ms":5,"algorithm":"gcra","burst":3}`)
	for format, media := range map[string]string{"yaml": "application/yaml", "json": "application/json"} {
		file := f.do(http.MethodGet, "/ratelimit/rules/export?format="+format, "").want(200).body
		var p importPlan
		f.do(http.MethodPost, "/ratelimit/rules/import?prune=true", file, "Content-Type", media).want(200).decode(&p)
		if !p.Empty() || len(p.Unchanged) != 2 {
			t.Errorf("%s: a fresh export differs: %+v\n%s", format, p, file)
		}
		g := newFixture(t, nil)
		g.do(http.MethodPost, "/ratelimit/rules/import", file, "Content-Type", media).want(200).decode(&p)
		if len(p.Create) != 2 || len(g.book.all()) != 2 || g.sets.Load().Len() != 2 {
			t.Errorf("%s: into an empty book: %+v", format, p)
		}
	}
}

func TestRules_AnOwnerIsForPeopleAlone(t *testing.T) {
	f := newFixture(t, nil)
	hundred := strings.Repeat("é", rules.MaxOwner)
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"ours","owner":"`+hundred+`","scope":"global","limit":0,"window_ms":1000}`).want(201)
	f.do(http.MethodPost, "/ratelimit/rules", `{"name":"nobodys","scope":"ip","limit":9,"window_ms":1000}`).want(201)
	for body, field := range map[string]string{`""`: "owner", `"` + hundred + `x"`: "owner", `" a"`: "owner",
		`"a\nb"`: "owner", `7`: "owner"} {
		if got := f.do(http.MethodPatch, "/ratelimit/rules/1", `{"owner":`+body+`}`).want(422).fields(); !slices.Equal(got,
			[]string{field}) {
			t.Errorf("owner %s: fields %v", body, got)
		}
	}
	var p rulePage
	f.do(http.MethodGet, "/ratelimit/rules?owner="+url.QueryEscape(hundred), "").want(200).decode(&p)
	if len(p.Rules) != 1 || *p.Rules[0].Owner != hundred {
		t.Errorf("of the owner there are %+v", p.Rules)
	}
	f.do(http.MethodGet, "/ratelimit/rules?owner=%C3%A9", "").want(200).decode(&p)
	if len(p.Rules) != 0 {
		t.Errorf("a part of the owner finds %+v", p.Rules)
	}
	export := f.do(http.MethodGet, "/ratelimit/rules/export?owner="+url.QueryEscape(hundred), "").want(200)
	if !strings.Contains(export.body, "name: ours\n") || strings.Contains(export.body, "nobodys") {
		t.Errorf("the export of the owner is\n%s", export.body)
	}
	denied := f.post("/ratelimit/check", `{"ip":"203.0.113.7"}`)
	if strings.Contains(denied.body, "owner") || strings.Contains(denied.body, "é") {
		t.Errorf("a caller sees the owner: %s", denied.body)
	}
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"owner":null}`).want(200)
	history := f.do(http.MethodGet, "/ratelimit/rules/1/history", "").want(200)
	if !strings.Contains(history.body, `{"field":"owner","old":"`+hundred+`","new":null}`) {
		t.Errorf("the history says %s", history.body)
	}
}

// A mistake in one field is not blamed on others.
func TestRules_BlamesTheFieldThatIsWrong(t *testing.T) {
	f := newFixture(t, nil)
	for more, want := range map[string][]string{
		`"throttle":" soft","soft_percent":5`:                {"throttle"},
		`"algorithm":" fixed_window","align":"calendar"`:     {"algorithm"},
		`"hot_keys":"leased ","hot_raise_percent":5`:         {"hot_keys"},
		`"soft_percent":5000`:                                {"soft_percent", "soft_percent"},
		`"over_limit":" defer","defer":{"max_items":5}`:      {"over_limit"},
		`"pool":" p","priority":"low","retry_jitter_ms":1.5`: {"pool", "retry_jitter_ms"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules",
			`{"name":"r","scope":"user","limit":1,"window_ms":1000,`+more+`}`).want(422)
		if got := a.fields(); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v: %s", more, got, want, a.body)
		}
	}
}

func TestRules_ExportTakesTheFiltersOfTheList(t *testing.T) {
	f := newFixture(t, nil)
	f.post("/ratelimit/rules/import", `{"pools":[{"name":"shop","limit":9,"window_ms":1000},{"name":"bar","limit":9,"window_ms":1000},{"name":"unused","limit":9,"window_ms":1000}],"rules":[
		{"name":"one","scope":"user","limit":1,"window_ms":1000,"mode":"shadow","pool":"shop"},
		{"name":"two","scope":"user","limit":1,"window_ms":1000,"pool":"bar"},
		{"name":"three","scope":"ip","limit":1,"window_ms":1000,"mode":"shadow"}]}`)
	for query, want := range map[string]string{
		"mode=shadow": "pools:\n  - name: shop\n    limit: 9\n    window_ms: 1000\nrules:\n  - name: one\n    " +
			"scope: user\n    limit: 1\n    window_ms: 1000\n    pool: shop\n    mode: shadow\n  - name: three\n    scope: " +
			"ip\n    limit: 1\n    window_ms: 1000\n    mode: shadow\n",
		"mode=shadow&scope=ip": "rules:\n  - name: three\n    scope: ip\n    limit: 1\n    window_ms: 1000\n    mode: " +
			"shadow\n",
		"scope=nobody&mode=": "",
		"scope=apikey":       "rules: []\n",
		"scope=": "pools:\n  - name: bar\n    limit: 9\n    window_ms: 1000\n  - name: shop\n    limit: " +
			"9\n    window_ms: 1000\n  - name: unused\n    limit: 9\n    window_ms: 1000\nrules:\n  - name: one\n    scope: " +
			"user\n    limit: 1\n    window_ms: 1000\n    pool: shop\n    mode: shadow\n  - name: three\n    scope: ip\n    " +
			"limit: 1\n    window_ms: 1000\n    mode: shadow\n  - name: two\n    scope: user\n    limit: 1\n    window_ms: " +
			"1000\n    pool: bar\n",
		"colour=red":             "",
		"scope=user&scope=other": "",
	} {
		a := f.do(http.MethodGet, "/ratelimit/rules/export?"+query, "")
		if want == "" {
			a.want(http.StatusUnprocessableEntity)
		} else if a.want(http.StatusOK); a.body != want {
			t.Errorf("%s gives\n%s", query, a.body)
		}
	}
}

func TestRules_ImportPlansPrunesAndIsAllOrNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("old", 1), perUser("kept", 1)})
	file := "rules:\n  - {name: kept, scope: user, limit: 2, window_ms: 1000, algorithm: fixed_window}\n  - {name: " +
		"new, scope: ip, limit: 1, window_ms: 1}\n"
	yaml := []string{"Content-Type", "application/yaml"}
	var p importPlan
	f.do(http.MethodPost, "/ratelimit/rules/import?dry_run=true&prune=true", file, yaml...).want(200).decode(&p)
	if !p.DryRun || len(p.Create) != 1 || len(p.Update) != 1 || len(p.Delete) != 1 || len(f.book.revisions) != 2 {
		t.Errorf("plan %+v after %d writes", p, len(f.book.revisions))
	}
	a := f.do(http.MethodPost, "/ratelimit/rules/import", file+"  - {name: Bad, scope: nobody, limit: 1, window_ms: 0}\n",
		yaml...).want(422)
	if diff := cmp.Diff([]string{"rules[2].name", "rules[2].scope", "rules[2].window_ms"}, a.fields()); diff != "" {
		t.Error(diff)
	}
	reason := append([]string{"Sluice-Reason", strings.Repeat("x", rules.MaxReason+1)}, yaml...)
	f.do(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file, reason...).want(422)
	if len(f.book.revisions) != 2 {
		t.Error("a refused import wrote something")
	}
	f.book.beforeUpd = func() {
		f.do(http.MethodPatch, "/ratelimit/rules/2", `{"description":"meanwhile"}`).want(200)
	}
	f.do(http.MethodPost, "/ratelimit/rules/import?prune=true", file, yaml...).want(200).decode(&p)
	if len(p.Delete) != 1 || len(f.book.all()) != 2 {
		t.Errorf("got %+v", p)
	}
	for _, bad := range []string{"rules: [", "\t- x", "{", "7", "{\"rules\":[]} x"} {
		f.do(http.MethodPost, "/ratelimit/rules/import", bad, yaml...).want(400)
		f.do(http.MethodPost, "/ratelimit/rules/import", bad).want(400)
	}
	f.do(http.MethodPost, "/ratelimit/rules/import", `{"rules":[],"rules":[]}`).want(400)
	f.do(http.MethodPost, "/ratelimit/rules/import?prune=maybe", file, yaml...).want(422)
	f.do(http.MethodPost, "/ratelimit/rules/import", file, "Content-Type", "text/plain").want(415)
}

func TestRules_DatabaseAwayIs503AndChecksGoOn(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	f.book.err = fmt.Errorf("dial: %w", rules.ErrUnavailable)
	for _, w := range [][3]string{
		{http.MethodGet, "/ratelimit/rules", ""}, {http.MethodGet, "/ratelimit/rules/1", ""},
		{http.MethodPost, "/ratelimit/rules", charges},
		{http.MethodPut, "/ratelimit/rules/1", charges}, {http.MethodPatch, "/ratelimit/rules/1", `{}`},
		{http.MethodDelete, "/ratelimit/rules/1", ""},
		{http.MethodGet, "/ratelimit/rules/1/history", ""}, {http.MethodGet, "/ratelimit/rules/export", ""},
	} {
		a := f.do(w[0], w[1], w[2]).want(503)
		if strings.Contains(a.body, "dial") || !strings.Contains(a.body, "/problems/database-unavailable") {
			t.Errorf("%s %s: %s", w[0], w[1], a.body)
		}
	}
	if !f.check(`{"user":"42"}`).Allowed {
		t.Error("checks stopped")
	}
	for kind, says := range map[error]string{rules.ErrDiskFull: "is full", rules.ErrDiskFailing: "reports errors",
		rules.ErrBusy: "Another change, such as a large import, is in progress"} {
		f.book.err = fmt.Errorf("%w: %w: /var/lib/secret", rules.ErrUnavailable, kind)
		a := f.do(http.MethodPost, "/ratelimit/rules", charges).want(503)
		if !strings.Contains(a.body, says) || strings.Contains(a.body, "/var/lib") ||
			!strings.Contains(a.body, "/problems/database-unavailable") {
			t.Errorf("%v: %s", kind, a.body)
		}
	}
}
