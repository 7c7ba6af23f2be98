package api

import (
	"encoding/csv"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/rulefile"
)

// overriding is a server with a rule of 3 a second for each user.
func overriding(t *testing.T) *fixture {
	t.Helper()
	return newFixture(t, []rules.Rule{perUser("per-user", 3)})
}

func (f *fixture) override(body string) *answered {
	f.t.Helper()
	return f.do(http.MethodPost, "/ratelimit/rules/1/overrides", body).want(http.StatusCreated)
}

// passes is how many of n requests of a user pass.
func (f *fixture) passes(user string, n int) (passed int) {
	f.t.Helper()
	for range n {
		if f.check(`{"user":"` + user + `"}`).Allowed {
			passed++
		}
	}
	return passed
}

func TestOverrides_ChangeWhatPasses(t *testing.T) {
	f := overriding(t)
	a := f.override(`{"key":"42","limit":5,"reason":"big customer"}`)
	if a.header.Get("Location") != "/ratelimit/rules/1/overrides/1" || a.header.Get("ETag") != `"1"` {
		t.Errorf("headers %v", a.header)
	}
	if o := a.object(); o["key"] != "user:42" || o["blocked"] != false || o["expires_at"] != nil {
		t.Errorf("got %v", o)
	}
	f.override(`{"key":"user:vip-*","unlimited":true}`)
	f.override(`{"key":"user:bad","blocked":true}`)
	for user, want := range map[string]int{"1": 3, "42": 5, "vip-1": 10, "bad": 0} {
		if got := f.passes(user, 10); got != want {
			t.Errorf("%s: %d passed, want %d", user, got, want)
		}
	}
	r := f.check(`{"user":"bad"}`)
	if r.Status != 429 || *r.RetryAfterMS != -1 || *r.Limit != 0 {
		t.Errorf("blocked: %+v", r)
	}
	if r := f.check(`{"user":"vip-1"}`); len(r.Limits) != 0 {
		t.Errorf("unlimited: %+v", r)
	}
}

// What was spent stays spent when an override comes, changes and goes.
func TestOverrides_KeepConsumption(t *testing.T) {
	f := overriding(t)
	if got := f.passes("42", 9); got != 3 {
		t.Fatalf("%d passed, want 3", got)
	}
	f.override(`{"key":"42","limit":5}`)
	if got := f.passes("42", 9); got != 2 {
		t.Errorf("%d more passed, want 2", got)
	}
	f.do(http.MethodPut, "/ratelimit/rules/1/overrides/1", `{"limit":6}`).want(200)
	if got := f.passes("42", 9); got != 1 {
		t.Errorf("%d more passed, want 1", got)
	}
	f.do(http.MethodDelete, "/ratelimit/rules/1/overrides/1", "").want(204)
	if r := f.check(`{"user":"42"}`); r.Allowed || *r.Remaining != 0 {
		t.Errorf("after the override: %+v", r)
	}
	f.now.Add(1000)
	if got := f.passes("42", 9); got != 3 {
		t.Errorf("in the next window %d passed, want 3", got)
	}
}

func TestOverrides_EndByThemselves(t *testing.T) {
	f := overriding(t)
	f.override(`{"key":"42","blocked":true,"expires_at":"2026-11-22T00:00:00Z"}`)
	end := int64(1_795_305_600_000) // that instant
	f.now.Store(end - 1)
	if got := f.passes("42", 1); got != 0 {
		t.Error("it ended too early")
	}
	f.now.Store(end)
	if got := f.passes("42", 4); got != 3 {
		t.Errorf("%d passed after its end, want 3", got)
	}
	if a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides", "").want(200); strings.Contains(a.body, "user:42") {
		t.Errorf("listed after its end: %s", a.body)
	}
	if a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides?include_expired=true",
		"").want(200); !strings.Contains(a.body, "user:42") {
		t.Errorf("not listed: %s", a.body)
	}
}

// Blocked needs no store: no fail mode lets it pass.
func TestOverrides_BlockedStaysBlockedWithoutTheStore(t *testing.T) {
	for _, mode := range []string{rules.FailOpen, rules.FailLocal, rules.FailClosed} {
		r := perUser("per-user", 3)
		r.FailMode = mode
		f := newFixture(t, []rules.Rule{r, perUser("beside", 9)})
		f.override(`{"key":"bad","blocked":true}`)
		f.store.fail(errAway)
		got := f.check(`{"user":"bad"}`)
		if got.Allowed || got.Status != 429 || *got.Rule != "per-user" {
			t.Errorf("%s: got %+v, want 429", mode, got)
		}
		if got := f.check(`{"user":"good"}`); got.Allowed != (mode != rules.FailClosed) {
			t.Errorf("%s: others get %+v", mode, got)
		}
	}
}

func TestOverrides_ReasonsStayWithColleagues(t *testing.T) {
	f := overriding(t)
	f.override(`{"key":"bad","blocked":true,"reason":"fraud case 17"}`)
	for _, path := range []string{"/ratelimit/check", "/ratelimit/explain"} {
		if a := f.post(path, `{"user":"bad"}`); strings.Contains(a.body, "fraud") {
			t.Errorf("%s tells the reason: %s", path, a.body)
		}
	}
	a := f.post("/ratelimit/explain", `{"user":"bad"}`)
	rule := a.object()["rules"].([]any)[0].(map[string]any)
	if o, _ := rule["override"].(map[string]any); o == nil || o["blocked"] != true ||
		!strings.Contains(rule["message"].(string), "blocks") {
		t.Errorf("explain says %v", rule)
	}
}

func TestOverrides_AreGuardedByVersions(t *testing.T) {
	f := overriding(t)
	f.override(`{"key":"42","limit":5}`)
	const path = "/ratelimit/rules/1/overrides/1"
	f.do(http.MethodGet, path, "", "If-None-Match", `"1"`).want(304)
	f.do(http.MethodPut, path, `{"limit":6}`, "If-Match", `"2"`).want(412)
	if a := f.do(http.MethodPut, path, `{"limit":6}`, "If-Match", `"1"`).want(200); a.header.Get("ETag") != `"2"` {
		t.Errorf("headers %v", a.header)
	}
	// What was read can be sent back.
	body := f.do(http.MethodGet, path, "").want(200).body
	f.do(http.MethodPut, path, body, "If-Match", "*").want(200)
	f.do(http.MethodDelete, path, "", "If-Match", `"1"`).want(412)
	f.do(http.MethodDelete, path, "", "If-Match", `"3"`).want(204)
	f.do(http.MethodGet, path, "").want(404)
}

func TestOverrides_RefuseBadInput(t *testing.T) {
	f := overriding(t)
	f.override(`{"key":"42","limit":5}`)
	for body, fields := range map[string][]string{
		`{"blocked":true}`: {"key"}, `{"key":"a"}`: {"limit"}, `{"key":"a","limit":1,"unlimited":true}`: {"limit"},
		`{"key":1,"limit":"x"}`:         {"key", "limit"},
		`{"key":"ip:1","blocked":true}`: {"key"}, `{"key":"a","blocked":"yes"}`: {"blocked"},
		`{"key":"a","blocked":true,"expires_at":"tomorrow"}`:             {"expires_at"},
		`{"key":"a","blocked":true,"expires_at":"2020-01-01T00:00:00Z"}`: {"expires_at"},
		`{"key":"a","limit":1,"burst":1}`:                                {"burst"}, `{"key":"a","limit":-1}`: {"limit"},
		`{"key":"a","calendar":{"anchor_day":15}}`: {"calendar"}, `{"key":"a","limit":1,"calendar":5}`: {"calendar"},
		`{"key":"a","blocked":true,"rule_id":2}`: {"rule_id"}, `{"key":"","blocked":true}`: {"key"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules/1/overrides", body).want(422)
		if diff := cmp.Diff(fields, a.fields()); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	for path, want := range map[string]int{
		"/ratelimit/rules/1/overrides": 409, "/ratelimit/rules/9/overrides": 404, "/ratelimit/rules/x/overrides": 404,
	} {
		f.do(http.MethodPost, path, `{"key":"user:42","blocked":true}`).want(want)
	}
	wrong := f.do(http.MethodPut, "/ratelimit/rules/1/overrides/1", `{"id":9,"rule_id":9,"key":null,"limit":6}`,
		"If-Match", "*").want(422)
	if diff := cmp.Diff([]string{"id", "key", "rule_id"}, wrong.fields()); diff != "" {
		t.Error(diff)
	}
	f.do(http.MethodPost, "/ratelimit/rules/1/overrides", `{"key":"a","note":1}`).want(400)
	f.do(http.MethodGet, "/ratelimit/rules/9/overrides", "").want(404)
	f.do(http.MethodGet, "/ratelimit/rules/1/overrides?key=a%2Ab", "").want(422)
	f.do(http.MethodGet, "/ratelimit/rules/1/overrides?nonsense=1", "").want(422)
	f.do(http.MethodGet, "/ratelimit/rules/1/overrides/import", "").want(405)
	f.do(http.MethodGet, "/ratelimit/rules/1/overrides/0", "").want(404)
	f.book.err = rules.ErrUnavailable
	f.do(http.MethodPost, "/ratelimit/rules/1/overrides", `{"key":"b","blocked":true}`).want(503)
}

func TestOverrides_ListByKeyAndPage(t *testing.T) {
	f := overriding(t)
	for _, key := range []string{"a", "b", "c*"} {
		f.override(`{"key":"` + key + `","blocked":true}`)
	}
	var first struct {
		Overrides []rules.Override `json:"overrides"`
		Next      string           `json:"next_page_token"`
	}
	f.do(http.MethodGet, "/ratelimit/rules/1/overrides?page_size=2", "").want(200).decode(&first)
	if len(first.Overrides) != 2 || first.Next == "" {
		t.Fatalf("got %+v", first)
	}
	if a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides?page_size=2&page_token="+first.Next,
		"").want(200); !strings.Contains(a.body, "user:c*") {
		t.Errorf("got %s", a.body)
	}
	if a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides?key=user:b", "").want(200); !strings.Contains(a.body,
		"user:b") || strings.Contains(a.body, "user:a") {
		t.Errorf("got %s", a.body)
	}
}

// An API key is given raw or as displayed, and stored neither way.
func TestOverrides_OfAPIKeysKeepNoSecret(t *testing.T) {
	r := perUser("per-key", 3)
	r.Scope = "apikey"
	f := newFixture(t, []rules.Rule{r})
	a := f.override(`{"key":"sk_live_very_secret","limit":1}`)
	if strings.Contains(a.body, "very_secret") {
		t.Errorf("the key is shown: %s", a.body)
	}
	const ask = `{"api_key":"sk_live_very_secret","weight":0}`
	got := f.check(ask)
	if *got.Limit != 1 {
		t.Errorf("got %+v", got)
	}
	f.do(http.MethodDelete, "/ratelimit/rules/1/overrides/1", "").want(204)
	f.override(`{"key":"` + got.Limits[0].Key + `","limit":2}`)
	if got := f.check(ask); *got.Limit != 2 {
		t.Errorf("by its display: %+v", got)
	}
}

func (f *fixture) importCSV(query, file string) *answered {
	f.t.Helper()
	return f.do(http.MethodPost, "/ratelimit/rules/1/overrides/import"+query, file, "Content-Type", "text/csv")
}

func TestOverrides_WithACalendar(t *testing.T) {
	monthly := perUser("monthly", 3)
	monthly.Algorithm, monthly.WindowMS, monthly.Burst = "fixed_window", 0, nil
	monthly.Calendar = &rules.Calendar{Every: rules.EveryMonth}
	f := newFixture(t, []rules.Rule{monthly})
	for body, want := range map[string]string{
		`{"key":"a","calendar":{"anchor_day":0}}`:                "calendar.anchor_day",
		`{"key":"a","calendar":{"anchor_day":"15"}}`:             "calendar.anchor_day",
		`{"key":"a","calendar":{"anchor_month":4}}`:              "calendar.anchor_month",
		`{"key":"a","calendar":{"zone":"Mars"}}`:                 "calendar.zone",
		`{"key":"a","calendar":{"at":"25:00"}}`:                  "calendar.at",
		`{"key":"a","calendar":{"every":"day"}}`:                 "calendar.every",
		`{"key":"a","calendar":{}}`:                              "calendar",
		`{"key":"a","calendar":[]}`:                              "calendar",
		`{"key":"a","blocked":true,"calendar":{"at":"05:30"}}`:   "calendar",
		`{"key":"a","unlimited":true,"calendar":{"at":"05:30"}}`: "calendar",
	} {
		a := f.do(http.MethodPost, "/ratelimit/rules/1/overrides", body).want(422)
		if diff := cmp.Diff([]string{want}, a.fields()); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
	f.importCSV("", "key,limit,calendar\nuser:a,,zone=Europe/Berlin anchor_day=15\nuser:b,9,at=05:30\n").want(200)
	out := f.do(http.MethodGet, "/ratelimit/rules/1/overrides/export", "").want(200).body
	for _, line := range []string{"user:a,,,false,false,zone=Europe/Berlin anchor_day=15,,",
		"user:b,9,,false,false,at=05:30,,"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %s in\n%s", line, out)
		}
	}
	f.importCSV("", "key,calendar\nuser:c,every=day\n").want(422)
	if o := f.do(http.MethodGet, "/ratelimit/rules/1/overrides/1", "").want(200).object(); fmt.Sprint(o["calendar"]) !=
		"map[anchor_day:15 zone:Europe/Berlin]" {
		t.Errorf("got %v", o)
	}
}

func TestOverrides_ImportAndExportAreInverse(t *testing.T) {
	f := overriding(t)
	const file = "\ufeffkey,limit,blocked,unlimited,reason,expires_at\r\n" +
		"user:a,5,,,\"=HYPERLINK(\"\"http://evil\"\")\",\r\n" +
		"user:b*,,TRUE,,'quoted,2027-01-01T00:00:00.5Z\r\nc,,,true,\"+1,-2\",\r\n"
	if a := f.importCSV("?dry_run=true", file).want(200); a.object()["dry_run"] != true || len(f.book.overrides) != 0 {
		t.Errorf("dry run: %s", a.body)
	}
	f.importCSV("", file).want(200)
	if got := f.passes("b1", 2); got != 0 {
		t.Error("the import is not in force")
	}
	a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides/export", "").want(200)
	lines, err := csv.NewReader(strings.NewReader(a.body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{
		{"key", "limit", "burst", "unlimited", "blocked", "calendar", "reason", "expires_at"},
		{"user:a", "5", "", "false", "false", "", `'=HYPERLINK("http://evil")`, ""},
		{"user:b*", "", "", "false", "true", "", "'quoted", "2027-01-01T00:00:00.5Z"},
		{"user:c", "", "", "true", "false", "", "'+1,-2", ""},
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Error(diff)
	}
	before := f.book.overrides
	f.book.overrides = nil
	f.importCSV("", a.body).want(200)
	for i := range before {
		if !before[i].Same(&f.book.overrides[i]) || before[i].Key != f.book.overrides[i].Key {
			t.Errorf("got %+v, want %+v", f.book.overrides[i], before[i])
		}
	}
	f.do(http.MethodHead, "/ratelimit/rules/1/overrides/export", "").want(200)
}

func TestOverrides_ImportRefusesHostileFiles(t *testing.T) {
	f := overriding(t)
	for file, field := range map[string]string{
		"":                                    "file",
		"\x00\xff":                            "file",
		"user:a\n":                            "file",
		"key,key\na,b\n":                      "file",
		"key,colour\na,red\n":                 "file",
		"limit\n1\n":                          "file",
		"key,blocked\na\n":                    "line[2]",
		"key,blocked\n\"a,true\n":             "file",
		"key,blocked\na\xff,true\n":           "file",
		"key,limit\na,1.5\n":                  "line[2].limit",
		"key,limit\na,99999999999999999999\n": "line[2].limit",
		"key,blocked\na,true\nb,maybe\n":      "line[3].blocked",
		"key,blocked,expires_at\n\na,true,today\n": "line[3].expires_at",
	} {
		a := f.importCSV("", file)
		if file == "" {
			continue // no body at all, tried below
		}
		if diff := cmp.Diff([]string{field}, a.want(422).fields()); diff != "" {
			t.Errorf("%q: %s", file, diff)
		}
	}
	if a := f.importCSV("", "key,limit\n"+strings.Repeat("a,x\n", 100_000)); a.status != 422 || len(a.body) > 64<<10 {
		t.Errorf("many bad lines: %d, %d bytes of answer", a.status, len(a.body))
	}
	f.importCSV("", "key,blocked\n"+strings.Repeat("a,true\n", rulefile.MaxOverrideLines+1)).want(422)
	f.importCSV("", "key\n"+strings.Repeat("a", rulefile.MaxOverrideFile)).want(413)
	f.do(http.MethodPost, "/ratelimit/rules/1/overrides/import", "{}").want(415)
	f.importCSV("?force=true", "key\n").want(422)
	if len(f.book.overrides) != 0 {
		t.Errorf("%d overrides came through", len(f.book.overrides))
	}
}

func TestOverrides_ApplyInBatchesChargesAndLooks(t *testing.T) {
	f := overriding(t)
	f.override(`{"key":"42","limit":1}`)
	a := f.post("/ratelimit/check/batch", `{"checks":[{"user":"42"},{"user":"42"},{"user":"1"}]}`)
	if got := strings.Count(a.body, `"allowed":false,"status":429`); got != 1 {
		t.Errorf("%d denied, want 1: %s", got, a.body)
	}
	if r := f.post("/ratelimit/charge", `{"user":"42"}`).reply(); *r.Limit != 1 {
		t.Errorf("charge: %+v", r)
	}
	var q decide.Question
	q.Op, q.Weight, q.Descriptor.User = limiter.OpPeek, 1, "42"
	var got decide.Answer
	if err := f.checker.Do(t.Context(), &q, &got); err != nil || got.Allowed() || got.Limits[0].Limit.Count != 1 {
		t.Errorf("look: %+v, %v", got, err)
	}
}

// A blocked network stays blocked in every fail mode, an override of one address in it wins, and a shadow rule denies
// nothing.
func TestOverrides_OfNetworks(t *testing.T) {
	for _, mode := range []string{rules.FailOpen, rules.FailLocal, rules.FailClosed} {
		r := perUser("per-address", 3)
		r.Scope, r.FailMode = "ip", mode
		f := newFixture(t, []rules.Rule{r})
		f.override(`{"key":"10.0.0.0/8","blocked":true}`)
		f.override(`{"key":"10.1.2.3","limit":2}`)
		if got := f.check(`{"ip":"10.9.9.9"}`); got.Allowed || got.Status != 429 || *got.RetryAfterMS != -1 || *got.Limit != 0 {
			t.Errorf("%s: got %+v, want 429", mode, got)
		}
		if got := f.check(`{"ip":"10.1.2.3"}`); !got.Allowed || *got.Limit != 2 {
			t.Errorf("%s: its exception gets %+v", mode, got)
		}
		f.store.fail(errAway)
		if got := f.check(`{"ip":"10.9.9.9"}`); got.Allowed || got.Status != 429 || *got.Rule != "per-address" {
			t.Errorf("%s: without the store got %+v, want 429", mode, got)
		}
		if got := f.check(`{"ip":"10.1.2.3"}`); got.Allowed != (mode != rules.FailClosed) {
			t.Errorf("%s: without the store its exception gets %+v", mode, got)
		}
	}
	r := perUser("per-address", 3)
	r.Scope, r.Mode = "ip", rules.ModeShadow
	f := newFixture(t, []rules.Rule{r})
	f.override(`{"key":"10.0.0.0/8","blocked":true}`)
	if got := f.check(`{"ip":"10.9.9.9"}`); !got.Allowed {
		t.Errorf("shadow: got %+v", got)
	}
}

func TestOverrides_OfNetworksAreExplainedAndImported(t *testing.T) {
	r := perUser("per-address", 3)
	r.Scope = "ip"
	f := newFixture(t, []rules.Rule{r})
	const path = "/ratelimit/rules/1/overrides/import"
	said := func(a *answered, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(a.body, part) {
				t.Errorf("got %s, want %s", a.body, part)
			}
		}
	}
	f.do(http.MethodPost, path, "key,limit,blocked\n10.0.0.0/8,,true\nip:2001:db8::/32,9,\n",
		"Content-Type", "text/csv").want(200)
	if a := f.do(http.MethodGet, "/ratelimit/rules/1/overrides/export", "").want(200); !strings.Contains(a.body,
		"\nip:10.0.0.0/8,,,false,true,,,\nip:2001:db8::/32,9,") {
		t.Errorf("exported as %s", a.body)
	}
	f.do(http.MethodPost, "/ratelimit/rules/1/overrides", `{"key":"10.0.0.0/8","unlimited":true}`).want(409)
	said(f.post("/ratelimit/explain", `{"ip":"10.9.9.9"}`), `Override 1 of the network 10.0.0.0/8 blocks the key.`,
		`"override":{"id":1,"wildcard":false,"unlimited":false,"blocked":true,"network":"10.0.0.0/8"}`)
	if a := f.post("/ratelimit/explain", `{"ip":"192.0.2.1"}`); strings.Contains(a.body, `"network"`) {
		t.Errorf("an address outside: %s", a.body)
	}
}
