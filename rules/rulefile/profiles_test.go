package rulefile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

const profilesYAML = `profiles:
  - name: plain
  - name: shop
    description: "the shop's edge"
    facts: {user: [{header: "X-User"}, {cookie: uid}, {value: me}], attributes: {tenant: [{header: "X-Tenant"}]}}
    claims: trusted
    client_ip: {header: "X-Real-IP", trusted: ["10.0.0.0/8", "::1"]}
    routes:
      - /users/{id}
      - /files/*
    skip_methods: []
    weight: {header: "X-Weight"}
    missing: {"attr:tenant": {value: none}, user: deny}
    domain: shop
    entries: {remote_address: ip, tenant: "attr:tenant"}
    headers:
      - Retry-After
      - X-RateLimit-*
    proof: {token: false, networks: ["127.0.0.1"], certificates: []}
rules: []
`

func TestParse_ReadsProfilesAndFormatWritesThem(t *testing.T) {
	f, err := Parse([]byte(profilesYAML))
	if err != nil {
		t.Fatal(err)
	}
	want := profile.New()
	want.Name, want.Description, want.Claims = "shop", "the shop's edge", profile.ClaimsTrusted
	want.Facts.User = []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Value: "me"}}
	want.Facts.Attributes["tenant"] = []profile.Source{{Header: "X-Tenant"}}
	want.ClientIP = profile.ClientIP{Header: "X-Real-IP", Trusted: []string{"10.0.0.0/8", "::1"}}
	want.Routes, want.SkipMethods = []string{"/users/{id}", "/files/*"}, []string{}
	want.Weight = &profile.WeightSource{Header: "X-Weight"}
	want.Missing = map[string]profile.MissingFact{"user": {Action: "deny"}, "attr:tenant": {Value: "none"}}
	want.Domain, want.Entries = "shop", map[string]string{"remote_address": "ip", "tenant": "attr:tenant"}
	want.Headers = []string{"Retry-After", "X-RateLimit-*"}
	want.Proof = profile.Proof{Networks: []string{"127.0.0.1"}, Certificates: []string{}}
	plain := profile.New()
	plain.Name = "plain"
	if diff := cmp.Diff([]profile.Profile{plain, want}, f.Profiles); diff != "" {
		t.Error(diff)
	}
	if text, err := Format(f); err != nil || string(text) != profilesYAML {
		t.Errorf("%v: written as\n%s", err, text)
	}
	again, err := Parse([]byte(`{"rules":[],"profiles":` + field.JSONText(f.Profiles) + `}`))
	if diff := cmp.Diff(f, again); diff != "" || err != nil {
		t.Errorf("as JSON: %v\n%s", err, diff)
	}
}

func TestParse_NamesEveryProblemOfAProfile(t *testing.T) {
	const many = `,{"header":"a"}`
	for in, want := range map[string][]string{
		`{"facts":1}`:                        {"facts must be an object, not a whole number"},
		`{"facts":{"user":{"header":"a"}}}`:  {`facts.user must be a list of sources, such as [{"header": "X-User"}], not an object`},
		`{"facts":{"users":[]}}`:             {"facts.users is not a known field"},
		`{"facts":{"user":["X-User"]}}`:      {"facts.user[0] must be an object, not text"},
		`{"facts":{"user":[{}]}}`:            {"facts.user[0] must have exactly one of header, cookie, claim and value"},
		`{"facts":{"user":[{"headr":"a"}]}}`: {"facts.user[0].headr is not a known field"},
		`{"facts":{"user":[{"header":7}]}}`:  {"facts.user[0].header must be text, not a whole number; put it in quotes"},
		`{"facts":{"user":[{"header":"a","cookie":null}]}}`: {"facts.user[0] must have exactly one of header, cookie, claim " +
			"and value"},
		`{"facts":{"user":[{"header":"a"}` + strings.Repeat(many, 16) + `]}}`: {"facts.user must not have more than 16 sources",
			"facts.user[1] must not be listed twice"},
		`{"facts":{"attributes":[]}}`:                {"facts.attributes must be an object of attributes, not a list"},
		`{"facts":{"fields":{"n":[{"value":"x"}]}}}`: {"facts.fields.n[0].value must be a whole number from 0 to 9007199254740991, as text"},
		`{"claims":"on","path":"odd"}`:               {"claims must be off or trusted", "path must be normal or raw"},
		`{"routes":"/a"}`:                            {"routes must be a list of routes"},
		`{"routes":["/a",7]}`:                        {"routes[1] must be text, not a whole number; put it in quotes"},
		`{"routes":["/{a}","/{b}"]}`:                 {"routes[1] is the same template as routes[0]"},
		`{"weight":{}}`: {"weight.header must be the name of a header: 1 to 128 letters, digits and any of " +
			"!#$%&'*+-.^_`|~"},
		`{"weight":"X"}`:                   {"weight must be an object, not text"},
		`{"missing":"skip"}`:               {"missing must be an object of facts, not text"},
		`{"missing":{"user":"allow"}}`:     {`missing.user must be "skip", "deny" or an object with the member value`},
		`{"missing":{"user":{"v":"a"}}}`:   {`missing.user must be "skip", "deny" or an object with the member value`},
		`{"missing":{"user":{"value":7}}}`: {"missing.user.value must be text, not a whole number; put it in quotes"},
		`{"missing":{"route":"deny"}}`:     {"missing.route must be one of ip, user, api_key, tier, attr:NAME and field:NAME"},
		`{"domain":7}`:                     {"domain must be text, not a whole number; put it in quotes"},
		`{"entries":["ip"]}`:               {"entries must be an object of entries, not a list"},
		`{"domain":"d","entries":{"a":7}}`: {"entries.a must be text, not a whole number; put it in quotes"},
		`{"domain":"d","entries":{"a":"path_"}}`: {"entries.a must be one of ip, user, api_key, tier, path, method, host, attr:NAME and " +
			"field:NAME"},
		`{"proof":{"token":"yes"}}`:             {"proof.token must be true or false, not text"},
		`{"proof":{"networks":["10.1.0.0/8"]}}`: {"proof.networks[0] must be the address of a network; write 10.0.0.0/8"},
		`{"client_ip":{"header":"X-\u00e9"}}`: {"client_ip.header must be the name of a header: 1 to 128 letters, digits and any of " +
			"!#$%&'*+-.^_`|~"},
		`{"name":"b","version":7,"created_at":"x"}`: nil,
		`{"id":7}`: {"id is not a field of a profile"},
	} {
		t.Run(in, func(t *testing.T) {
			body := in
			if !strings.Contains(in, `"name"`) {
				body = strings.Replace(in, "{", `{"name":"a",`, 1)
			}
			_, err := Parse([]byte(`{"rules":[],"profiles":[` + body + `]}`))
			var got []string
			var ve *field.ValidationError
			if errors.As(err, &ve) {
				for _, f := range ve.Fields {
					field, message := strings.TrimPrefix(f.Field, "profiles[0]."), strings.TrimSuffix(f.Message, " (line 1)")
					if len(got) < 2 {
						got = append(got, field+" "+message)
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestParse_BoundsProfiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("rules: []\nprofiles:\n")
	for i := range profile.MaxProfiles + 1 {
		fmt.Fprintf(&b, "  - name: p%d\n", i)
	}
	var large *TooLargeError
	if _, err := Parse([]byte(b.String())); !errors.As(err, &large) {
		t.Errorf("got %v", err)
	}
	if _, err := Parse([]byte("rules: []\nprofiles: [{name: a}, {name: a}]")); err == nil ||
		!strings.Contains(err.Error(), "profiles[1].name is already used by profiles[0]") {
		t.Errorf("got %v", err)
	}
}

// What a file does not mention stays, and an empty list with prune deletes.
func TestMakeFilePlan_ProfilesOfAFile(t *testing.T) {
	file := func(text string) rules.File {
		f, err := Parse([]byte("rules: []\n" + text))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	stored := file("profiles: [{name: a}, {name: b}]\npools: [{name: p, limit: 1, window_ms: 1000}]")
	stored.Profiles[0].Version = 3
	for text, want := range map[string]string{
		"": "",
		"profiles: [{name: a, path: raw, proof: {token: false}}, {name: c, routes: [/x]}]": "" +
			"+ profile c: facts: 0, routes: 1\n~ profile a\n    path: \"normal\" -> \"raw\"\n    proof.token: true -> false\n" +
			"- profile b\n",
		"profiles: []\npools: []": "- pool p\n- profile a\n- profile b\n",
	} {
		p := rules.MakeFilePlan(stored, file(text), true)
		shown := strings.TrimSuffix(p.String(), "\n")
		got := shown[:strings.LastIndexByte(shown, '\n')+1] // without the summary
		if got != want || p.Empty() != (want == "") {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", text, got, want)
		}
		if len(p.Profiles.Update) == 1 && p.Profiles.Update[0].New.Version != 3 {
			t.Errorf("an update of version %d", p.Profiles.Update[0].New.Version)
		}
		if kept := rules.MakeFilePlan(stored, file(text), false); len(kept.Profiles.Delete) > 0 {
			t.Errorf("%s deletes without prune", text)
		}
	}
}

func TestProfiles_AnyFileComesBack(t *testing.T) {
	source := rapid.Custom(func(t *rapid.T) profile.Source {
		text := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_-]{0,9}`).Draw(t, "text")
		return []profile.Source{{Header: text}, {Cookie: text}, {Claim: text}}[rapid.IntRange(0, 2).Draw(t, "kind")]
	})
	sources := rapid.SliceOfNDistinct(source, 1, 4, func(s profile.Source) profile.Source { return s })
	words := rapid.StringMatching(`[ -~äß|<>]{0,9}[!-~]`)
	stored := rapid.Custom(func(t *rapid.T) profile.Profile {
		p := profile.New()
		p.Name = "p"
		p.Description = strings.TrimSpace(words.Draw(t, "description"))
		p.Facts.User = append(sources.Draw(t, "user"), profile.Source{Value: strings.TrimSpace(words.Draw(t, "value"))})
		p.Facts.Fields = rapid.MapOfN(rapid.StringMatching(`[a-z0-9._-]{1,5}`), sources, 0, 3).Draw(t, "fields")
		p.Routes = rapid.SliceOfNDistinct(rapid.StringMatching(`/[a-z|<>"'!&*@:-]{1,5}(/\{[a-z]{1,3}\})?(/\*)?`), 0, 5,
			rapid.ID[string]).Draw(t, "routes")
		p.SkipMethods = rapid.SliceOfDistinct(rapid.StringMatching(`[A-Z]{1,4}`), rapid.ID[string]).Draw(t, "methods")
		p.Missing["user"] = profile.MissingFact{Value: strings.TrimSpace(words.Draw(t, "missing"))}
		p.Proof.Token = rapid.Bool().Draw(t, "token")
		return p
	}).Filter(func(p profile.Profile) bool { return profile.Validate(&p) == nil })
	rapid.Check(t, func(t *rapid.T) {
		p := stored.Draw(t, "profile")
		text, err := Format(rules.File{Profiles: []profile.Profile{p}})
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(text)
		if diff := cmp.Diff([]profile.Profile{p}, back.Profiles); diff != "" || err != nil {
			t.Fatalf("%v\n%s\n%s", err, diff, text)
		}
	})
}
