package match

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/profile"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shopProfile is the example of the documentation.
func shopProfile() profile.Profile {
	p := profile.New()
	p.Name = "shop"
	p.Facts.User = []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Claim: "sub"}, {Value: "anonymous"}}
	p.Facts.APIKey = []profile.Source{{Header: "X-Api-Key"}}
	p.Facts.Attributes = map[string][]profile.Source{"tenant": {{Header: "X-Tenant"}}}
	p.Facts.Fields = map[string][]profile.Source{"bytes": {{Header: "Content-Length"}, {Value: "0"}}}
	p.ClientIP.Trusted = []string{"10.0.0.0/8", "fd00::1"}
	p.Routes = []string{"/users/{id}", "/files/*", "/"}
	p.Weight = &profile.WeightSource{Header: "X-Weight"}
	p.Missing = map[string]profile.MissingFact{"user": {Action: profile.MissingSkip}, "attr:tenant": {Value: "none"},
		"api_key": {Action: profile.MissingDeny}, "ip": {Value: "192.0.2.1"}, "field:bytes": {Value: "1"}}
	p.Domain = "shop"
	p.Entries = map[string]string{"remote_address": "ip", "path": "path", "who am I": "user", "host": "host",
		"tenant": "attr:tenant", "bytes": "field:bytes"}
	p.Proof.Networks = []string{"127.0.0.1", "::1"}
	p.Proof.Certificates = []string{"edge.example"}
	return p
}

func TestNewProfile_HasTheDefaultsOfTheDocumentation(t *testing.T) {
	p := profile.New()
	got := field.JSONText(p)
	const want = `{"name":"","description":"",` +
		`"facts":{"user":[],"api_key":[],"tier":[],"attributes":{},"fields":{}},` +
		`"claims":"off","claims_header":"Authorization","client_ip":{"header":"X-Forwarded-For","trusted":[]},` +
		`"routes":[],"path":"normal","skip_methods":["OPTIONS"],"weight":null,"missing":{},"domain":"","entries":{},` +
		`"headers":["Retry-After","RateLimit-Policy","RateLimit","X-RateLimit-*"],"dialect":"none",` +
		`"proof":{"token":true,"networks":[],"certificates":[]},` +
		`"version":0,"created_at":"0001-01-01T00:00:00Z","updated_at":"0001-01-01T00:00:00Z"}`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var zero profile.Profile
	zero.Normalize()
	zero.Proof.Token = true // false is a value of its own
	if diff := cmp.Diff(p, zero); diff != "" {
		t.Errorf("a normalised zero profile differs:\n%s", diff)
	}
	p.Headers[0], p.Proof.Networks = "changed", append(p.Proof.Networks, "::1")
	if again := profile.New(); field.JSONText(again) != want {
		t.Errorf("a profile shares its defaults: %s", field.JSONText(again))
	}
}

func TestValidateProfile_NamesEveryProblemAtOnce(t *testing.T) {
	p := shopProfile()
	if err := profile.Validate(&p); err != nil {
		t.Fatal(err)
	}
	many := func(n int) (list []profile.Source) {
		for i := range n {
			list = append(list, profile.Source{Header: fmt.Sprintf("X-%d", i)})
		}
		return list
	}
	routes := func(n int) (list []string) {
		for i := range n {
			list = append(list, fmt.Sprintf("/r%d", i))
		}
		return list
	}
	for name, c := range map[string]struct {
		edit func(*profile.Profile)
		want []string
	}{
		"name": {func(p *profile.Profile) { p.Name = "Shop!" }, []string{"name"}},
		"a long text": {func(p *profile.Profile) { p.Description = strings.Repeat("x", field.MaxDescription+1) },
			[]string{"description"}},
		"no header name": {func(p *profile.Profile) { p.Facts.User = []profile.Source{{Header: "X User"}} },
			[]string{"facts.user[0].header"}},
		"no cookie name": {func(p *profile.Profile) { p.Facts.Tier = []profile.Source{{Cookie: "a;b"}} },
			[]string{"facts.tier[0].cookie"}},
		"a line break": {func(p *profile.Profile) { p.Facts.Tier = []profile.Source{{Claim: "a\nb"}} },
			[]string{"facts.tier[0].claim"}},
		"a blank": {func(p *profile.Profile) { p.Facts.Tier = []profile.Source{{Value: " a"}} },
			[]string{"facts.tier[0].value"}},
		"no source": {func(p *profile.Profile) { p.Facts.User = []profile.Source{{}} }, []string{"facts.user[0]"}},
		"two at once": {func(p *profile.Profile) { p.Facts.User = []profile.Source{{Header: "A", Cookie: "b"}} },
			[]string{"facts.user[0]"}},
		"value not last": {func(p *profile.Profile) { p.Facts.User = []profile.Source{{Value: "a"}, {Header: "B"}} },
			[]string{"facts.user[0]"}},
		"a source twice": {func(p *profile.Profile) { p.Facts.User = []profile.Source{{Header: "B"}, {Header: "B"}} },
			[]string{"facts.user[1]"}},
		"too many sources": {func(p *profile.Profile) { p.Facts.APIKey = many(profile.MaxSources + 1) },
			[]string{"facts.api_key"}},
		"the secret": {func(p *profile.Profile) { p.Facts.APIKey = []profile.Source{{Header: "sluice-token"}} },
			[]string{"facts.api_key[0].header"}},
		"attribute's name": {func(p *profile.Profile) { p.Facts.Attributes = map[string][]profile.Source{"a b": many(1)} },
			[]string{`facts.attributes."a b"`}},
		"no sources": {func(p *profile.Profile) { p.Facts.Attributes = map[string][]profile.Source{"a": {}} },
			[]string{"facts.attributes.a"}},
		"not a number": {func(p *profile.Profile) { p.Facts.Fields = map[string][]profile.Source{"a": {{Value: "-1"}}} },
			[]string{"facts.fields.a[0].value"}},
		"too many fields": {func(p *profile.Profile) {
			for i := range profile.MaxFacts {
				p.Facts.Fields[fmt.Sprint("f", i)] = many(1)
			}
		}, []string{"facts.fields"}},
		"attributes that no check carries": {func(p *profile.Profile) {
			p.Facts.Attributes, p.Missing = map[string][]profile.Source{},
				map[string]profile.MissingFact{"attr:plan": {Value: "free"}}
			for i := range profile.MaxFacts - 1 {
				p.Facts.Attributes[fmt.Sprint("a", i)] = many(1)
			}
		}, []string{"facts.attributes"}},
		"claim without a place": {func(p *profile.Profile) {
			p.Claims = profile.ClaimsTrusted
			p.Facts.Tier = []profile.Source{{Claim: "groups[x]"}, {Claim: "groups[0]id"}, {Claim: "groups[0"},
				{Claim: "groups[01]"}, {Claim: "groups[0][12].a.b[1].c"}}
		}, []string{"facts.tier[0].claim", "facts.tier[1].claim", "facts.tier[2].claim", "facts.tier[3].claim"}},
		"claims": {func(p *profile.Profile) { p.Claims, p.ClaimsHeader = "verified", "a b" },
			[]string{"claims", "claims_header"}},
		"client_ip": {func(p *profile.Profile) { p.ClientIP = profile.ClientIP{Header: "", Trusted: []string{"10.0.0.1/8"}} },
			[]string{"client_ip.header", "client_ip.trusted[0]"}},
		"networks": {func(p *profile.Profile) { p.Proof.Networks = []string{"::ffff:10.0.0.0/104", "fe80::1%eth0", "x"} },
			[]string{"proof.networks[0]", "proof.networks[1]", "proof.networks[2]"}},
		"names twice": {func(p *profile.Profile) { p.Proof.Certificates = []string{"a", "a", ""} },
			[]string{"proof.certificates[2]", "proof.certificates[1]"}},
		"a relative path": {func(p *profile.Profile) { p.Routes = []string{"users", "/a//b", "/a?b"} },
			[]string{"routes[0]", "routes[1]", "routes[2]"}},
		"one template in two spellings": {func(p *profile.Profile) {
			p.Routes = []string{"/users/{id}", "/users/{id}/*", "/users/{name}", "/users/all", "/users/{x}/*"}
		}, []string{"routes[2]", "routes[4]"}},
		"too many routes": {func(p *profile.Profile) { p.Routes = routes(profile.MaxRoutes + 1) }, []string{"routes"}},
		"long routes": {func(p *profile.Profile) {
			p.Routes = nil
			for _, r := range routes(profile.MaxRoutes) {
				p.Routes = append(p.Routes, r+strings.Repeat("x", 100))
			}
		}, []string{"routes"}},
		"path": {func(p *profile.Profile) { p.Path = "odd" }, []string{"path"}},
		"methods": {func(p *profile.Profile) { p.SkipMethods = []string{"get", "GET", "GET"} },
			[]string{"skip_methods[0]", "skip_methods[2]"}},
		"weight": {func(p *profile.Profile) { p.Weight = &profile.WeightSource{} }, []string{"weight.header"}},
		"a missing route": {func(p *profile.Profile) {
			p.Missing = map[string]profile.MissingFact{"route": {Action: profile.MissingSkip}}
		},
			[]string{"missing.route"}},
		"missing": {func(p *profile.Profile) {
			p.Missing = map[string]profile.MissingFact{"user": {Action: "allow"}, "ip": {Value: "x"}, "tier": {},
				"field:a": {Value: "x"}, "attr:": {Action: profile.MissingDeny}}
		}, []string{`missing."attr:"`, "missing.field:a.value", "missing.ip.value", "missing.tier.value", "missing.user"}},
		"a long domain": {func(p *profile.Profile) { p.Domain = strings.Repeat("d", entries.MaxDomain+1) },
			[]string{"domain"}},
		"a domain of two lines":    {func(p *profile.Profile) { p.Domain = "a\nb" }, []string{"domain"}},
		"entries without a domain": {func(p *profile.Profile) { p.Domain = "" }, []string{"domain"}},
		"entries": {func(p *profile.Profile) {
			p.Entries = map[string]string{"": "ip", "a": "route", "b": "attr:", "c": "field:a b", "d": "", "e\x00": "ip",
				strings.Repeat("k", entries.MaxKey+1): "ip", "f.g": "apikey"}
		}, []string{`entries.""`, "entries.a", "entries.b", "entries.c", "entries.d", `entries."e\x00"`, "entries.f.g",
			fmt.Sprintf("entries.%q", strings.Repeat("k", 40))}},
		"too many entries": {func(p *profile.Profile) {
			for i := range profile.MaxFacts + 1 {
				p.Entries[fmt.Sprint("k", i)] = "user"
			}
		}, []string{"entries"}},
		"entries with attributes that no check carries": {func(p *profile.Profile) {
			p.Entries, p.Missing = map[string]string{"h": "host"}, map[string]profile.MissingFact{"attr:plan": {Value: "free"}}
			for i := range profile.MaxFacts - 1 {
				p.Entries[fmt.Sprint("a", i)] = fmt.Sprint("attr:a", i)
			}
		}, []string{"entries"}},
		"headers": {func(p *profile.Profile) { p.Headers = []string{"Set-Cookie", "Retry-*", "X-*-*", "Retry-*"} },
			[]string{"headers[0]", "headers[2]", "headers[3]"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := shopProfile()
			c.edit(&p)
			var ve *field.ValidationError
			if err := profile.Validate(&p); !errors.As(err, &ve) {
				t.Fatalf("got %v", err)
			}
			var got []string
			for _, f := range ve.Fields {
				got = append(got, f.Field)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestProfile_NormalizeWritesMethodsAndHeadersInTheirUsualCase(t *testing.T) {
	shared := []string{"options", "trace"}
	p := profile.New()
	p.Name, p.SkipMethods, p.Headers = "p", shared, []string{"retry-AFTER", "x-ratelimit-*", "x-other"}
	p.Normalize()
	if !slices.Equal(p.SkipMethods, []string{"OPTIONS", "TRACE"}) || shared[0] != "options" ||
		!slices.Equal(p.Headers, []string{"Retry-After", "X-RateLimit-*", "x-other"}) {
		t.Errorf("got %q and %q", p.SkipMethods, p.Headers)
	}
}

func TestProfile_ComesBackFromItsColumn(t *testing.T) {
	for _, p := range []profile.Profile{profile.New(), shopProfile()} {
		text, err := p.MarshalPolicies()
		if err != nil {
			t.Fatal(err)
		}
		back := profile.Profile{Name: p.Name}
		if err := back.UnmarshalPolicies(text); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, back); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
		clone := p.Clone()
		clone.Missing["x"] = profile.MissingFact{}
		if diff := cmp.Diff(back, p); diff != "" {
			t.Errorf("a clone shares: %s", diff)
		}
	}
	empty := profile.New()
	if text, err := empty.MarshalPolicies(); string(text) != "{}" || err != nil {
		t.Errorf("defaults are stored as %s, %v", text, err)
	}
}

func TestProfile_DamagedByHandIsRefused(t *testing.T) {
	for _, text := range []string{``, `[]`, `{"facts":1}`, `{"proof":"none"}`, `{"missing":{"user":{}}}`, `{"routes":{}}`,
		`{"weight":"x"}`, `{"client_ip":[]}`, `{"path":7}`, `{"headers":"all"}`,
		`{"domain":7}`, `{"entries":[]}`, `{"domain":"d","entries":{"a":7}}`} {
		p := profile.Profile{Name: "p"}
		if err := p.UnmarshalPolicies([]byte(text)); err == nil {
			t.Errorf("%s is read", text)
		}
		if profile.Validate(&p) == nil {
			t.Errorf("%s is valid: %+v", text, p)
		}
	}
	later := profile.Profile{Name: "p"}
	if err := later.UnmarshalPolicies([]byte(`{"of_a_newer_node":1,"proof":{"networks":["::1"]}}`)); err != nil ||
		!later.Proof.Token {
		t.Errorf("got %+v, %v", later, err)
	}
	if err := profile.Validate(&later); err == nil || !strings.Contains(err.Error(), `"of_a_newer_node"`) {
		t.Errorf("a member that this version does not know: %v", err)
	}
}

func TestDiffProfile_NamesThePart(t *testing.T) {
	was, is := shopProfile(), shopProfile()
	if got := profile.Diff(&was, &is); got != nil {
		t.Errorf("a profile differs from itself: %+v", got)
	}
	is.Facts.Tier, is.Proof.Token, is.ClientIP.Trusted = []profile.Source{{Header: "X-Tier"}}, false, nil
	is.Missing = map[string]profile.MissingFact{}
	is.Normalize()
	var fields []string
	for _, c := range profile.Diff(&was, &is) {
		fields = append(fields, c.Field)
	}
	if want := []string{"facts.tier", "client_ip.trusted", "missing", "proof.token"}; !slices.Equal(fields, want) {
		t.Errorf("got %q, want %q", fields, want)
	}
	if got := profile.Diff(nil, &was); len(got) == 0 || got[0].Old != nil {
		t.Errorf("got %+v", got)
	}
}

func TestSet_KeepsAProfileThatDidNotChange(t *testing.T) {
	a, b := shopProfile(), shopProfile()
	b.Name, b.Domain = "other", "other"
	set, err := CompileSource(rules.Source{Profiles: []profile.Profile{a, b}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b.Path = profile.PathRaw
	next, err := set.Apply(Delta{Profiles: []profile.Profile{b, a}, ProfilesChanged: true})
	if err != nil {
		t.Fatal(err)
	}
	if next.Profile("shop") != set.Profile("shop") || next.Profile("other") == set.Profile("other") ||
		next.Profile("other").Path != profile.PathRaw || set.Profile("other").Path != profile.PathNormal ||
		next.Profile("none") != nil {
		t.Error("the wrong profiles changed")
	}
	if same, err := next.Apply(Delta{}); err != nil || len(same.Profiles()) != 2 || same.Profiles()[0].Name != "other" {
		t.Errorf("got %v, %v", same, err)
	}
	a.Path = "odd"
	for _, list := range [][]profile.Profile{{a}, {b, b}} {
		if _, err := next.Apply(Delta{Profiles: list, ProfilesChanged: true}); err == nil {
			t.Errorf("%+v compiles", list)
		}
		if _, err := CompileSource(rules.Source{Profiles: list}, Options{}); err == nil {
			t.Errorf("%+v compiles", list)
		}
	}
}

func TestSet_ADomainHasOneProfile(t *testing.T) {
	a, b := shopProfile(), shopProfile()
	b.Name = "other"
	if _, err := CompileSource(rules.Source{Profiles: []profile.Profile{a, b}}, Options{}); err == nil ||
		!strings.Contains(err.Error(), `the domain "shop"`) {
		t.Errorf("two profiles of one domain: %v", err)
	}
	b.Domain = "inner"
	set, err := CompileSource(rules.Source{Profiles: []profile.Profile{a, b}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for domain, want := range map[string]string{"shop": "shop", "inner": "other"} {
		if p := set.ProfileOf(domain); p == nil || p.Name != want {
			t.Errorf("%s is read by %+v", domain, p)
		}
	}
	next, err := set.Apply(Delta{Profiles: []profile.Profile{a}, ProfilesChanged: true})
	if err != nil || next.ProfileOf("inner") != nil || next.ProfileOf("") != nil ||
		next.ProfileOf("shop") != set.ProfileOf("shop") {
		t.Errorf("got %v, %v", next, err)
	}
	if set.ProfileOf("inner") == nil {
		t.Error("the set before has changed")
	}
}

func TestFile_CheckUniqueFindsTwoProfilesOfADomain(t *testing.T) {
	of := func(name, domain string) profile.Profile { return profile.Profile{Name: name, Domain: domain} }
	stored := rules.File{Profiles: []profile.Profile{of("a", "one"), of("b", "two"), of("c", "")}}
	const taken = ".domain is already used by the profile "
	for name, c := range map[string]struct {
		file  []profile.Profile
		prune bool
		want  string
	}{
		"one more": {file: []profile.Profile{of("d", "three"), of("e", "")}},
		"of another profile": {file: []profile.Profile{of("d", "three"), of("c", "two")},
			want: "profiles[1]" + taken + "b"},
		"which is deleted":     {file: []profile.Profile{of("c", "two")}, prune: true},
		"which the file moves": {file: []profile.Profile{of("a", "two"), of("b", "one")}},
		"twice in the file":    {file: []profile.Profile{of("x", "new"), of("y", "new")}, want: "profiles[1]" + taken + "x"},
		"no section":           {prune: true},
	} {
		t.Run(name, func(t *testing.T) {
			file, got := rules.File{Profiles: c.file}, ""
			if err := file.CheckUnique(stored, c.prune); err != nil {
				got = strings.TrimPrefix(err.Error(), "invalid: ")
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestMissingFact_JSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := profile.MissingFact{Action: rapid.SampledFrom([]string{"", profile.MissingSkip, profile.MissingDeny}).Draw(t,
			"action")}
		if m.Action == "" {
			m.Value = rapid.String().Draw(t, "value")
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var back profile.MissingFact
		if err := json.Unmarshal(text, &back); err != nil || back != m {
			t.Fatalf("%s came back as %+v, %v", text, back, err)
		}
	})
	for _, text := range []string{`{}`, `7`, `{"value":null}`, `{"value":7}`, `[]`} {
		if err := json.Unmarshal([]byte(text), new(profile.MissingFact)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
