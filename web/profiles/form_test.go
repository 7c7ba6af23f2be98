package profiles

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/rules"
	"sluice/rules/profile"
)

func TestForm_EveryFieldOfTheTableHasAnInput(t *testing.T) {
	var want, got []string
	for _, f := range rules.ProfileKind.Fields {
		switch f.Name {
		case "facts":
			for _, part := range profile.FactFields() {
				want = append(want, "facts."+part.Name)
			}
		case "client_ip":
			for _, part := range profile.ClientIPFields() {
				want = append(want, "client_ip."+part.Name)
			}
		case "proof":
			for _, part := range profile.ProofFields() {
				want = append(want, "proof."+part.Name)
			}
		case "weight":
			want = append(want, "weight.header")
		default:
			want = append(want, f.Name)
		}
	}
	for _, in := range inputs {
		got = append(got, in.name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-), inputs (+):\n%s", diff)
	}
}

// What the form shows is what it reads back.
func TestForm_ReadsBackWhatItShows(t *testing.T) {
	source := rapid.Custom(func(t *rapid.T) profile.Source {
		name := rapid.StringMatching(`[a-zA-Z][a-zA-Z0-9_-]{0,5}`).Draw(t, "name")
		kinds := []profile.Source{{Header: name}, {Cookie: name}, {Claim: name + " " + name}}
		return rapid.SampledFrom(kinds).Draw(t, "source")
	})
	sources := rapid.SliceOfNDistinct(source, 1, 4, rapid.ID[profile.Source])
	named := rapid.MapOfN(rapid.StringMatching(`[a-z0-9._-]{1,5}`), sources, 0, 3)
	texts := func(pattern string) *rapid.Generator[[]string] {
		return rapid.SliceOfNDistinct(rapid.StringMatching(pattern), 0, 3, rapid.ID[string])
	}
	rapid.Check(t, func(t *rapid.T) {
		p := profile.New()
		p.Name, p.Version = "shop", rapid.Int64Range(0, 9).Draw(t, "version")
		p.Facts.User = append(sources.Draw(t, "user"), profile.Source{Value: "any one"})
		p.Facts.Attributes, p.Facts.Fields = named.Draw(t, "attributes"), named.Draw(t, "fields")
		p.Missing = map[string]profile.MissingFact{"user": {Action: profile.MissingDeny}, "attr:a.b": {Value: "skip it"}}
		p.Routes = texts(`/[a-z]{1,5}(/\{[a-z]{1,3}\})?`).Draw(t, "routes")
		p.SkipMethods = texts(`[A-Z]{1,4}`).Draw(t, "methods")
		p.Proof.Token = rapid.Bool().Draw(t, "token")
		p.Proof.Networks = texts(`10\.[1-9]\.[1-9]\.[1-9]`).Draw(t, "networks")
		if rapid.Bool().Draw(t, "weighs") {
			p.Weight = &profile.WeightSource{Header: "X-Weight"}
		}
		if rapid.Bool().Draw(t, "domain") {
			p.Domain = "the shop"
			key := rapid.StringMatching(`[a-z]{1,3}( [=:a-z_.]{1,3}){0,2}`)
			fact := rapid.SampledFrom([]string{"ip", "path", "attr:a.b", "field:bytes"})
			p.Entries = rapid.MapOfN(key, fact, 0, 3).Draw(t, "entries")
		}
		p.Headers = rapid.SampledFrom([][]string{{}, {"Retry-After"}, p.Headers}).Draw(t, "headers")
		got, errs := read(values(&p))
		if got.Version = p.Version; len(errs) > 0 {
			for _, e := range errs {
				if e.Field != "routes" { // templates may happen to be the same
					t.Fatalf("%+v", errs)
				}
			}
		}
		if diff := cmp.Diff(p, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestForm_NamesTheInputAndTheLine(t *testing.T) {
	base := func() url.Values {
		p := profile.New()
		p.Name, p.Domain = "shop", "shop"
		return values(&p)
	}
	const name = "must be the name of a header: 1 to 128 letters, digits and any of !#$%&'*+-.^_`|~"
	const source = "must be header, cookie, claim or value, and then its name, such as header X-User"
	const named = "must be a name, then header, cookie, claim or value, and then its name, " +
		"such as bytes header Content-Length"
	const cookie = "must be the name of a cookie: 1 to 128 letters, digits and any of !#$%&'*+-.^_`|~"
	const missing = "must be a fact, then skip, deny or value and a text, such as user deny"
	for _, c := range []struct{ input, text, want string }{
		{"name", "A b", "must be 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit"},
		{"facts.user", "header X-User\n\nX-Id", "Line 3: " + source},
		{"facts.user", "\nheader X User\nheader a/b", "Line 2: " + name + "\nLine 3: " + name},
		{"facts.user", "value a\nheader b", "Line 1: must be the last source, because a value is never missing"},
		{"facts.tier", "header", "Line 1: " + source},
		{"facts.attributes", "tenant header X-T\na.b cookie c;d", "Line 2: " + cookie},
		{"facts.attributes", "a/b header X", "Line 1: must have a name of 1 to 64 letters, digits, _, . or -"},
		{"facts.fields", "bytes", "Line 1: " + named},
		{"facts.fields", "bytes value many", "Line 1: must be a whole number from 0 to 9007199254740991, as text"},
		{"entries", "ip", "Line 1: must be the key of an entry, then a fact, such as remote_address ip"},
		{"entries", "my key user\nmy key ip", `Line 2: "my key" is listed twice`},
		{"entries", "user user\nuser id User", "Line 2: must be one of ip, user, api_key, tier, path, method, host, " +
			"attr:NAME and field:NAME"},
		{"missing", "user allow", "Line 1: " + missing},
		{"missing", "user deny\nuser skip", "Line 2: user is listed twice"},
		{"missing", "user deny\nroute deny", "Line 2: must be one of ip, user, api_key, tier, attr:NAME and field:NAME"},
		{"missing", "ip value here", "Line 1: must be an IP address"},
		{"routes", "/a/{x}\n/b\n/a/{y}", "Line 3: is the same template as line 1"},
		{"client_ip.trusted", "10.0.0.1/8", "Line 1: must be the address of a network; write 10.0.0.0/8"},
		{"client_ip.header", "a b", name},
		{"weight.header", "a b", name},
		{"claims", "verified", "must be off or trusted"},
		{"skip_methods", "a b",
			"Line 1: must be an HTTP method in upper case, such as OPTIONS, of at most 32 " + "characters"},
	} {
		form := base()
		form.Set(c.input, c.text)
		_, errs := read(form)
		if len(errs) != 1 || errs[0].Field != c.input || errs[0].Message != c.want {
			t.Errorf("%s %q: got %+v, want %q", c.input, c.text, errs, c.want)
		}
	}
}

// Lines that cannot be read hide no error of another line or input.
func TestForm_ReportsEveryErrorAtOnce(t *testing.T) {
	p := profile.New()
	p.Name = "shop front"
	form := values(&p)
	form.Set("facts.user", "header a/b\nX-Id\nheader X-User")
	form.Set("routes", strings.Repeat("users\n", 7))
	_, errs := read(form)
	got := map[string]string{}
	for _, e := range errs {
		got[e.Field] = e.Message
	}
	const source = "must be header, cookie, claim or value, and then its name, such as header X-User"
	const route = "must start with /"
	want := map[string]string{
		"name": "must be 1 to 63 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit",
		"facts.user": "Line 1: must be the name of a header: 1 to 128 letters, digits and any of !#$%&'*+-.^_`|~\n" +
			"Line 2: " + source,
		"routes": "Line 1: " + route + "\nLine 2: " + route + "\nLine 3: " + route + "\nLine 4: " + route +
			"\nLine 5: " + route + "\nand 2 more",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
}

func TestForm_AReadyListReplacesTheClientHeaders(t *testing.T) {
	for word, want := range map[string][]string{
		"": {"RateLimit"}, "all": profile.New().Headers, "limit": {"Retry-After", "X-RateLimit-Limit"},
		"nothing": {"Retry-After"}, "unknown": {"RateLimit"},
	} {
		p := profile.New()
		p.Name, p.Headers = "shop", []string{"RateLimit"}
		form := values(&p)
		form.Set("ready_list", word)
		got, errs := read(form)
		if diff := cmp.Diff(want, got.Headers); diff != "" || len(errs) > 0 {
			t.Errorf("%q: %v\n%s", word, errs, diff)
		}
	}
}
