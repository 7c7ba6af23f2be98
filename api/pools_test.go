package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
)

const shopJSON = `{"name":"shop","limit":100,"window_ms":60000}`

func TestPools_CreateReadReplaceDelete(t *testing.T) {
	f := newFixture(t, nil)
	a := f.do(http.MethodPost, "/ratelimit/pools", shopJSON).want(http.StatusCreated)
	if a.header.Get("Location") != "/ratelimit/pools/shop" || a.header.Get("ETag") != `"1"` {
		t.Errorf("headers %v", a.header)
	}
	if f.sets.Load().Pool("shop") == nil {
		t.Error("the pool is not in force when the answer comes")
	}
	var p rules.Pool
	f.do(http.MethodGet, "/ratelimit/pools/shop", "").want(http.StatusOK).decode(&p)
	if p.Limit != 100 || p.NormalPercent != 80 || p.LowPercent != 50 || p.Version != 1 {
		t.Errorf("got %+v", p)
	}
	f.do(http.MethodPost, "/ratelimit/pools", shopJSON).want(http.StatusConflict)
	f.do(http.MethodPut, "/ratelimit/pools/shop", `{"limit":7,"window_ms":1000,"low_percent":0}`, "If-Match",
		`"9"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodPut, "/ratelimit/pools/shop", `{"limit":7,"window_ms":1000,"low_percent":0}`, "If-Match",
		`"1"`).want(http.StatusOK).decode(&p)
	if p.Limit != 7 || p.LowPercent != 0 || p.Version != 2 || f.sets.Load().Pool("shop").Limit.Count != 7 {
		t.Errorf("replaced: %+v", p)
	}
	list := f.do(http.MethodGet, "/ratelimit/pools", "").want(http.StatusOK)
	if strings.Count(list.body, `"name":"shop"`) != 1 {
		t.Errorf("list %s", list.body)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		f.do(method, "/ratelimit/pools/nobody", "").want(http.StatusNotFound)
	}
	f.do(http.MethodPut, "/ratelimit/pools/nobody", `{"limit":7,"window_ms":1000}`).want(http.StatusNotFound)
	f.do(http.MethodDelete, "/ratelimit/pools/shop", "", "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodDelete, "/ratelimit/pools/shop", "", "If-Match", "*").want(http.StatusNoContent)
	f.do(http.MethodGet, "/ratelimit/pools/shop", "").want(http.StatusNotFound)
}

func TestPools_BadInputNamesTheField(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/pools", shopJSON).want(http.StatusCreated)
	for body, want := range map[string][]string{
		`{}`:                                    {"limit", "name", "window_ms"},
		`{"name":"A","limit":-1,"window_ms":0}`: {"limit", "name", "window_ms"},
		`{"name":"a","limit":1,"window_ms":1,"normal_percent":101}`:                 {"normal_percent"},
		`{"name":"a","limit":1,"window_ms":1,"normal_percent":10,"low_percent":11}`: {"low_percent"},
		`{"name":"a","limit":1.5,"window_ms":"1","normal_percent":true,"description":"a\nb"}`: {"description", "limit",
			"normal_percent", "window_ms"},
		`{"name":null,"limit":null,"window_ms":1}`: {"limit", "name"},
	} {
		if got := f.do(http.MethodPost, "/ratelimit/pools",
			body).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v", body, got, want)
		}
	}
	f.do(http.MethodPost, "/ratelimit/pools", `{"name":"a","limit":1,"window_ms":1,"size":1}`).want(http.StatusBadRequest)
	f.do(http.MethodPost, "/ratelimit/pools", `[]`).want(http.StatusBadRequest)
	if got := f.do(http.MethodPut, "/ratelimit/pools/shop",
		`{"name":"bar","limit":1,"window_ms":1}`).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got,
		[]string{"name"}) {
		t.Errorf("another name: %v", got)
	}
	f.book.err = rules.ErrUnavailable
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		f.do(method, "/ratelimit/pools/shop", "").want(http.StatusServiceUnavailable)
	}
	f.do(http.MethodPost, "/ratelimit/pools", shopJSON).want(http.StatusServiceUnavailable)
}

func TestPools_StayWhileRulesNameThem(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/pools", shopJSON).want(http.StatusCreated)
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"r","scope":"user","limit":1,"window_ms":1000,"pool":"shop"}`).want(http.StatusCreated)
	a := f.do(http.MethodDelete, "/ratelimit/pools/shop", "").want(http.StatusConflict)
	if !strings.Contains(a.body, "/problems/pool-used") {
		t.Errorf("got %s", a.body)
	}
}

func TestImport_PoolsAndRulesTogether(t *testing.T) {
	f := newFixture(t, nil)
	file := `{"pools":[` + shopJSON + `],"rules":[{"name":"r","scope":"user","limit":1,"window_ms":1000,"throttle":"elastic","elastic_percent":50,"pool":"shop"}]}`
	a := f.do(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file).want(http.StatusOK)
	if !strings.Contains(a.body, `"pools":{"create":[{"name":"shop"`) || f.sets.Load().Pool("shop") != nil {
		t.Errorf("dry run: %s", a.body)
	}
	f.post("/ratelimit/rules/import", file)
	if c := f.sets.Load().At(0); c.Pool == nil || c.ElasticPercent != 50 {
		t.Errorf("in force: %+v", c)
	}
	exported := f.do(http.MethodGet, "/ratelimit/rules/export?format=json", "").want(http.StatusOK)
	again := f.post("/ratelimit/rules/import?prune=true", exported.body)
	if !strings.Contains(again.body, `"pools":{"create":[],"update":[],"delete":[]}`) {
		t.Errorf("importing the export changes pools: %s", again.body)
	}
	yaml := f.do(http.MethodGet, "/ratelimit/rules/export", "").want(http.StatusOK)
	if !strings.HasPrefix(yaml.body, "pools:\n  - name: shop\n") {
		t.Errorf("got %s", yaml.body)
	}
	bad := f.do(http.MethodPost, "/ratelimit/rules/import",
		strings.ReplaceAll(`{"rules":[{"name":"x","scope":"user","limit":1,"window_ms":1000,"pool":"nobody"}]}`, "\n", ""))
	if got := bad.want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"rules[0].pool"}) {
		t.Errorf("fields %v", got)
	}
}

func TestPromote_CandidateThenNothing(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 5)})
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"candidate":{"limit":2}}`).want(http.StatusOK)
	f.do(http.MethodPost, "/ratelimit/rules/1/promote", "", "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	var r rules.Rule
	f.do(http.MethodPost, "/ratelimit/rules/1/promote", "", "If-Match", `"2"`).want(http.StatusOK).decode(&r)
	if r.Limit != 2 || r.Candidate != nil || r.Version != 3 || f.sets.Load().At(0).Limit.Count != 2 {
		t.Errorf("got %+v", r)
	}
	if got := f.do(http.MethodPost, "/ratelimit/rules/1/promote",
		"").want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"candidate"}) {
		t.Errorf("fields %v", got)
	}
	f.do(http.MethodPost, "/ratelimit/rules/9/promote", "").want(http.StatusNotFound)
	history := f.do(http.MethodGet, "/ratelimit/rules/1/history", "").want(http.StatusOK)
	if !strings.Contains(history.body, `"action":"promote"`) {
		t.Errorf("got %s", history.body)
	}
}

// Every composite member is refused with the path of what is wrong in it, and
// what openapi.yaml refuses is refused.
func TestRules_CompositeMembersRefuseBadValues(t *testing.T) {
	f := newFixture(t, nil)
	doc := loadDocument(t).Components.Schemas["RuleInput"].Value
	const base = `{"name":"n","scope":"user","limit":5,"window_ms":1000,`
	for _, c := range []struct{ members, field string }{
		{`"tiers":1`, "tiers"}, {`"tiers":[]`, "tiers"}, {`"tiers":{"a":1}`, "tiers.a"},
		{`"tiers":{"a":{"limit":"5"}}`, "tiers.a.limit"},
		{`"tiers":{"a":{"limit":5.0}}`, "tiers.a.limit"}, {`"tiers":{"a":{"limit":1e3}}`, "tiers.a.limit"},
		{`"tiers":{"a":{"limits":5}}`, "tiers.a.limits"},
		{`"tiers":{"a":{"unlimited":"yes"}}`, "tiers.a.unlimited"}, {`"tiers":{"a":{"limit":-1}}`, "tiers.a.limit"},
		{`"schedule":{}`, "schedule.windows"}, {`"schedule":{"windows":{}}`, "schedule.windows"},
		{`"schedule":{"windows":[1]}`, "schedule.windows[0]"},
		{`"schedule":{"windows":[{"from":900,"to":"10:00","percent":1}]}`, "schedule.windows[0].from"},
		{`"schedule":{"windows":[{"days":"mon","from":"09:00","to":"10:00","percent":1}]}`, "schedule.windows[0].days"},
		{`"calendar":"month"`, "calendar"}, {
			`"calendar":{"every":"month","anchor_day":0},"algorithm":"fixed_window","window_ms":null`, "calendar.anchor_day"},
		{`"calendar":{"every":"year","anchor_month":0},"algorithm":"fixed_window","window_ms":null`, "calendar.anchor_month"},
		{`"calendar":{"every":"day","at":"25:00"},"algorithm":"fixed_window","window_ms":null`, "calendar.at"},
		{`"calendar":{"every":"day","at":530},"algorithm":"fixed_window","window_ms":null`, "calendar.at"},
		{`"replaces":"other"`, "replaces"},
		{`"replaces":["a","a"]`, "replaces[1]"},
		{`"active_from":1700000000`, "active_from"}, {`"active_until":"2026-13-01"`, "active_until"}, {`"when":""`, "when"},
		{`"when":1`, "when"},
		{`"defer":{"max_items":0},"over_limit":"defer"`, "defer.max_items"}, {`"defer":[]`, "defer"},
		{`"candidate":{}`, "candidate.limit"},
		{`"candidate":{"limit":1,"name":"x"}`, "candidate.name"}, {`"retry_jitter_ms":-1`, "retry_jitter_ms"},
		{`"notify_percent":80`, "notify_percent"}, {`"notify_percent":["80"]`, "notify_percent[0]"},
		{`"notify_percent":[80,80.5]`, "notify_percent[1]"}, {`"notify_percent":[80,80]`, "notify_percent[1]"},
		{`"hot_keys":"warm"`, "hot_keys"},
		{`"span":"planet"`, "span"}, {`"max_over_percent":101,"span":"global","window_ms":60000`, "max_over_percent"},
		{`"cold":"shut","span":"global","window_ms":60000`, "cold"}, {`"cut_off":7`, "cut_off"},
		{`"priority":"high","pool":"shop"`, "priority"}, {`"charge_on":"never"`, "charge_on"},
		{`"elastic_percent":0,"throttle":"elastic","pool":"p"`, "elastic_percent"},
	} {
		body := base + c.members + `}`
		if strings.Contains(c.members, `"window_ms"`) {
			body = strings.Replace(body, `"window_ms":1000,`, "", 1)
		}
		if got := f.do(http.MethodPost, "/ratelimit/rules",
			body).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{c.field}) {
			t.Errorf("%s: fields %v, want %s", c.members, got, c.field)
		}
		if !strings.Contains(c.members, ":5.0") && !strings.Contains(c.members, "1e3") && visit(doc, body) == nil {
			t.Errorf("openapi.yaml allows %s", c.members)
		}
	}
	f.do(http.MethodPost, "/ratelimit/rules",
		base+`"tiers":{"a":{"limit":1},"a":{"limit":2}}}`).want(http.StatusBadRequest)
}

// A patch takes a composite member off with null and replaces it as a whole.
func TestRules_PatchReplacesCompositeMembersAsAWhole(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"n","scope":"user","limit":5,"algorithm":"fixed_window","calendar":{"every":"day"},
		"tiers":{"a":{"limit":1},"b":{"unlimited":true}},"schedule":{"windows":[{"from":"00:00","to":"24:00","percent":50}]}}`).want(http.StatusCreated)
	var r rules.Rule
	f.do(http.MethodPatch, "/ratelimit/rules/1",
		`{"tiers":{"c":{"limit":3}},"schedule":null}`).want(http.StatusOK).decode(&r)
	if len(r.Tiers) != 1 || *r.Tiers["c"].Limit != 3 || r.Schedule != nil || r.Calendar == nil ||
		r.WindowMS != 86_400_000 {
		t.Errorf("got %+v", r)
	}
	f.do(http.MethodPatch, "/ratelimit/rules/1",
		`{"calendar":null,"window_ms":1000,"active_from":"2026-11-27T00:00:00.0009+01:00"}`).want(http.StatusOK).decode(&r)
	if r.Calendar != nil || r.WindowMS != 1000 || r.ActiveFrom == nil ||
		r.ActiveFrom.Format("15:04:05.000") != "23:00:00.000" {
		t.Errorf("got %+v", r)
	}
}
