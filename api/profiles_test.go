package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

const shopProfileJSON = `{"name":"shop","facts":{"user":[{"header":"X-User"},{"cookie":"uid"},{"claim":"sub"},` +
	`{"value":"anonymous"}]},"routes":["/users/{id}","/files/*"],"missing":{"user":"skip","tier":{"value":"free"}}}`

func TestProfiles_CreateReadReplaceDelete(t *testing.T) {
	f := newFixture(t, nil)
	a := f.do(http.MethodPost, "/ratelimit/profiles", shopProfileJSON).want(http.StatusCreated)
	if a.header.Get("Location") != "/ratelimit/profiles/shop" || a.header.Get("ETag") != `"1"` {
		t.Errorf("headers %v", a.header)
	}
	if p := f.sets.Load().Profile("shop"); p == nil || len(p.Routes) != 2 {
		t.Error("the profile is not in force when the answer comes")
	}
	const whole = `{"name":"shop","description":"","facts":{"user":[{"header":"X-User"},{"cookie":"uid"},{"claim":"sub"},` +
		`{"value":"anonymous"}],"api_key":[],"tier":[],"attributes":{},"fields":{}},"claims":"off",` +
		`"claims_header":"Authorization","client_ip":{"header":"X-Forwarded-For","trusted":[]},` +
		`"routes":["/users/{id}","/files/*"],"path":"normal","skip_methods":["OPTIONS"],"weight":null,` +
		`"missing":{"tier":{"value":"free"},"user":"skip"},"domain":"","entries":{},` +
		`"headers":["Retry-After","RateLimit-Policy","RateLimit","X-RateLimit-*"],"dialect":"none",` +
		`"proof":{"token":true,"networks":[],"certificates":[]},"version":1,"created_at":`
	read := f.do(http.MethodGet, "/ratelimit/profiles/shop", "").want(http.StatusOK)
	if !strings.HasPrefix(read.body, whole) {
		t.Errorf("got %s\nwant %s…", read.body, whole)
	}
	f.do(http.MethodGet, "/ratelimit/profiles/shop", "", "If-None-Match", `"1"`).want(http.StatusNotModified)
	f.do(http.MethodPost, "/ratelimit/profiles", shopProfileJSON).want(http.StatusConflict)
	const edit = `{"path":"raw","proof":{"token":null,"networks":["127.0.0.1"]},"headers":[],"facts":null}`
	f.do(http.MethodPut, "/ratelimit/profiles/shop", edit, "If-Match", `"9"`).want(http.StatusPreconditionFailed)
	var p profile.Profile
	f.do(http.MethodPut, "/ratelimit/profiles/shop", edit, "If-Match", `"1"`).want(http.StatusOK).decode(&p)
	if p.Version != 2 || p.Path != "raw" || !p.Proof.Token || len(p.Headers) != 0 || len(p.Facts.User) != 0 ||
		f.sets.Load().Profile("shop").Path != "raw" {
		t.Errorf("replaced: %+v", p)
	}
	// What GET returns can be sent back.
	got := f.do(http.MethodGet, "/ratelimit/profiles/shop", "")
	f.do(http.MethodPut, "/ratelimit/profiles/shop", got.body, "If-Match", `"2"`).want(http.StatusOK)
	if list := f.do(http.MethodGet, "/ratelimit/profiles", "").want(http.StatusOK); strings.Count(list.body,
		`"name":"shop"`) != 1 {
		t.Errorf("list %s", list.body)
	}
	f.do(http.MethodDelete, "/ratelimit/profiles/shop", "", "If-Match", `"1"`).want(http.StatusPreconditionFailed)
	f.do(http.MethodDelete, "/ratelimit/profiles/shop", "", "If-Match", "*").want(http.StatusNoContent)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		f.do(method, "/ratelimit/profiles/shop", "").want(http.StatusNotFound)
	}
	f.do(http.MethodPut, "/ratelimit/profiles/shop", edit).want(http.StatusNotFound)
	if list := f.do(http.MethodGet, "/ratelimit/profiles", "").want(http.StatusOK); list.body != "{\"profiles\":[]}\n" {
		t.Errorf("an empty list is %s", list.body)
	}
}

func TestProfiles_BadInputNamesEveryField(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/profiles", shopProfileJSON).want(http.StatusCreated)
	doc := loadDocument(t).Components.Schemas["ProfileInput"].Value
	for body, want := range map[string][]string{
		`{}`: {"name"},
		`{"name":"A b","claims":"on","path":7,"routes":"x"}`:                          {"claims", "name", "path", "routes"},
		`{"name":"a","facts":{"user":[{"header":"a","cookie":"b"}]}}`:                 {"facts.user[0]"},
		`{"name":"a","facts":{"user":[{}],"tier":[{"value":""}]}}`:                    {"facts.tier[0]", "facts.user[0]"},
		`{"name":"a","facts":{"groups":[]}}`:                                          {"facts.groups"},
		`{"name":"a","facts":{"attributes":{"a b":[{"header":"x"}]}}}`:                {`facts.attributes."a b"`},
		`{"name":"a","client_ip":{"header":"X F","trusted":["10.0.0.1/8",7]}}`:        {"client_ip.trusted[1]"},
		`{"name":"a","client_ip":{"header":"X F","trusted":["10.0.0.1/8"]}}`:          {"client_ip.header", "client_ip.trusted[0]"},
		`{"name":"a","routes":["/a/{x}","/a/{y}","b"]}`:                               {"routes[1]", "routes[2]"},
		`{"name":"a","weight":{"header":null}}`:                                       {"weight.header"},
		`{"name":"a","weight":{}}`:                                                    {"weight.header"},
		`{"name":"a","missing":{"user":"allow","ip":{"value":"x"},"tier":{"v":"a"}}}`: {"missing.tier"},
		`{"name":"a","headers":["Set-Cookie"],"skip_methods":["a b"]}`:                {"headers[0]", "skip_methods[0]"},
		`{"name":"a","domain":7,"entries":{"a":7}}`:                                   {"domain", "entries.a"},
		`{"name":"a","entries":{"a":"ip"}}`:                                           {"domain"},
		`{"name":"a","domain":"d","entries":{"a":"route","b":"user"}}`:                {"entries.a"},
		`{"name":"a","proof":{"token":1,"networks":["x"]}}`:                           {"proof.token"},
		`{"name":"a","proof":{"networks":["x"],"certificates":[""]}}`:                 {"proof.certificates[0]", "proof.networks[0]"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/profiles", body).want(http.StatusUnprocessableEntity)
		if got := a.fields(); !slices.Equal(got, want) {
			t.Errorf("%s: fields %v, want %v", body, got, want)
		}
	}
	for _, body := range []string{`{"name":"a","facts":{"groups":[]}}`, `{"name":"a","facts":{"user":[{}]}}`,
		`{"name":"a","missing":{"user":"allow"}}`, `{"name":"a","claims":"on"}`, `{"name":"a","weight":{}}`} {
		if visit(doc, body) == nil {
			t.Errorf("openapi.yaml allows %s", body)
		}
	}
	f.do(http.MethodPost, "/ratelimit/profiles", `{"name":"a","size":1}`).want(http.StatusBadRequest)
	f.do(http.MethodPost, "/ratelimit/profiles", `{"name":"a","facts":{"user":[],"user":[]}}`).want(http.StatusBadRequest)
	f.do(http.MethodPost, "/ratelimit/profiles", `[]`).want(http.StatusBadRequest)
	if got := f.do(http.MethodPut, "/ratelimit/profiles/shop", `{"name":"bar"}`).
		want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"name"}) {
		t.Errorf("another name: %v", got)
	}
	f.book.err = rules.ErrUnavailable
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		f.do(method, "/ratelimit/profiles/shop", "").want(http.StatusServiceUnavailable)
	}
	f.do(http.MethodGet, "/ratelimit/profiles", "").want(http.StatusServiceUnavailable)
	f.do(http.MethodPost, "/ratelimit/profiles", shopProfileJSON).want(http.StatusServiceUnavailable)
}

// The largest profile fits into a request.
func TestProfiles_ADomainHasOneProfile(t *testing.T) {
	f := newFixture(t, nil)
	const of = `{"name":%q,"domain":"shop","entries":{"remote_address":"ip","who":"user"}}`
	a := f.do(http.MethodPost, "/ratelimit/profiles", fmt.Sprintf(of, "one")).want(http.StatusCreated)
	if !strings.Contains(a.body, `"domain":"shop","entries":{"remote_address":"ip","who":"user"}`) {
		t.Errorf("got %s", a.body)
	}
	if p := f.sets.Load().ProfileOf("shop"); p == nil || p.Name != "one" {
		t.Errorf("the domain is read by %+v", p)
	}
	second := f.do(http.MethodPost, "/ratelimit/profiles", fmt.Sprintf(of, "two")).want(http.StatusConflict)
	if got := second.fields(); !slices.Equal(got, []string{"domain"}) ||
		!strings.Contains(second.body, "/problems/already-used") {
		t.Errorf("got %s", second.body)
	}
	f.do(http.MethodPost, "/ratelimit/profiles", `{"name":"two"}`).want(http.StatusCreated)
	f.do(http.MethodPut, "/ratelimit/profiles/two", fmt.Sprintf(of, "two")).want(http.StatusConflict)
	f.do(http.MethodPut, "/ratelimit/profiles/one", fmt.Sprintf(of, "one")).want(http.StatusOK)
	file := f.do(http.MethodPost, "/ratelimit/rules/import", `{"profiles":[`+fmt.Sprintf(of, "two")+`],"rules":[]}`).
		want(http.StatusUnprocessableEntity)
	if got := file.fields(); !slices.Equal(got, []string{"profiles[0].domain"}) {
		t.Errorf("got %v", got)
	}
}

func TestProfiles_TheLargestFitsIntoARequest(t *testing.T) {
	f := newFixture(t, nil)
	p := profile.New()
	p.Name = "large"
	for i := 0; len(field.JSONText(&p)) < profile.MaxBytes-100; i++ {
		p.Routes = append(p.Routes, fmt.Sprintf("/%060d", i))
	}
	f.do(http.MethodPost, "/ratelimit/profiles", field.JSONText(&p)).want(http.StatusCreated)
	got := f.do(http.MethodGet, "/ratelimit/profiles/large", "").want(http.StatusOK)
	f.do(http.MethodPut, "/ratelimit/profiles/large", got.body).want(http.StatusOK)
	p.Routes = append(p.Routes, "/x"+strings.Repeat("y", 200))
	if got := f.do(http.MethodPost, "/ratelimit/profiles", field.JSONText(&p)).
		want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"routes"}) {
		t.Errorf("a larger one: %v", got)
	}
}

func TestImport_ProfilesOfAFile(t *testing.T) {
	f := newFixture(t, nil)
	file := `{"profiles":[` + shopProfileJSON + `],"rules":[]}`
	a := f.do(http.MethodPost, "/ratelimit/rules/import?dry_run=true", file).want(http.StatusOK)
	if !strings.Contains(a.body, `"profiles":{"create":[{"name":"shop"`) || f.sets.Load().Profile("shop") != nil {
		t.Errorf("dry run: %s", a.body)
	}
	f.post("/ratelimit/rules/import", file)
	if f.sets.Load().Profile("shop") == nil {
		t.Error("the profile is not in force")
	}
	exported := f.do(http.MethodGet, "/ratelimit/rules/export?format=json", "").want(http.StatusOK)
	for _, body := range []string{exported.body, `{"rules":[]}`} { // a file without the section leaves profiles alone
		again := f.post("/ratelimit/rules/import?prune=true", body)
		if !strings.Contains(again.body, `"profiles":{"create":[],"update":[],"delete":[]}`) {
			t.Errorf("importing %s changes profiles: %s", body, again.body)
		}
	}
	yaml := f.do(http.MethodGet, "/ratelimit/rules/export", "").want(http.StatusOK)
	if !strings.HasPrefix(yaml.body, "profiles:\n  - name: shop\n") {
		t.Errorf("got %s", yaml.body)
	}
	some := f.do(http.MethodGet, "/ratelimit/rules/export?scope=user", "").want(http.StatusOK)
	if strings.Contains(some.body, "profiles") {
		t.Errorf("a filtered export has profiles: %s", some.body)
	}
	f.post("/ratelimit/rules/import?prune=true", `{"rules":[],"profiles":[]}`)
	if f.sets.Load().Profile("shop") != nil {
		t.Error("an empty list with prune leaves the profile")
	}
	bad := f.do(http.MethodPost, "/ratelimit/rules/import", `{"rules":[],"profiles":[{"name":"x","claims":"on"}]}`)
	if got := bad.want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"profiles[0].claims"}) {
		t.Errorf("fields %v", got)
	}
}
