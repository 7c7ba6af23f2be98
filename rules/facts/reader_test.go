package facts

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"sluice/limiter"
	"sluice/rules/match"
	"sluice/rules/profile"
)

// shop is the profile of the issue.
func shop() *profile.Profile {
	return &profile.Profile{
		Name: "shop",
		Facts: profile.Facts{
			User:       []profile.Source{{Header: "X-User"}, {Cookie: "uid"}, {Claim: "sub"}, {Value: "anonymous"}},
			APIKey:     []profile.Source{{Header: "X-Api-Key"}},
			Attributes: map[string][]profile.Source{"tenant": {{Header: "x-tenant"}}},
			Fields:     map[string][]profile.Source{"bytes": {{Header: "Content-Length"}}},
		},
		Claims: profile.ClaimsTrusted, ClaimsHeader: "Authorization",
		ClientIP: profile.ClientIP{Header: "X-Forwarded-For", Trusted: []string{"10.0.0.0/8", "2001:db8::1"}},
		Routes:   []string{"/users/{id}", "/files/*"}, Path: profile.PathNormal, SkipMethods: []string{"OPTIONS"},
	}
}

func reader(t testing.TB, p *profile.Profile) *Reader {
	t.Helper()
	r, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func read(t testing.TB, r *Reader, req Request) Facts {
	t.Helper()
	var out Facts
	if err := r.Read(&req, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// token returns a JSON Web Token whose signature nobody checks.
func token(header, payload string) string {
	enc := base64.RawURLEncoding.EncodeToString
	return enc([]byte(header)) + "." + enc([]byte(payload)) + ".c2ln"
}

func TestRead_TriesSourcesInTheirOrder(t *testing.T) {
	r := reader(t, shop())
	for _, tt := range []struct {
		name   string
		header map[string][]string
		want   string
	}{
		{"none", nil, "anonymous"},
		{"header", map[string][]string{"X-User": {"42"}, "Cookie": {"uid=7"}}, "42"},
		{"empty header", map[string][]string{"X-User": {" "}, "Cookie": {"uid=7"}}, "7"},
		{"first of two", map[string][]string{"X-User": {"42", "43"}}, "42"},
		{"cookie", map[string][]string{"Cookie": {"a=1; xuid=8; uid=7; uid=9"}}, "7"},
		{"quoted cookie", map[string][]string{"Cookie": {"a=1", `uid="7"`}}, "7"},
		{"empty cookie", map[string][]string{"Cookie": {"uid=; b"}}, "anonymous"},
		{"claim", map[string][]string{"Authorization": {"Bearer " + token(`{"alg":"RS256"}`, `{"sub":"42"}`)}}, "42"},
		{"claim without scheme", map[string][]string{"Authorization": {token(`{}`, `{"sub":"42"}`)}}, "42"},
		{"alg none", map[string][]string{"Authorization": {"bearer  " + token(`{"alg":"none"}`, `{"sub":"42"}`)}}, "42"},
		{"a number as written", map[string][]string{"Authorization": {token(`{}`, `{"sub":12345678901234567890}`)}},
			"12345678901234567890"},
		{"a fraction as written", map[string][]string{"Authorization": {token(`{}`, `{"sub": 1.50 }`)}}, "1.50"},
		{"a bool", map[string][]string{"Authorization": {token(`{}`, `{"sub":true}`)}}, "true"},
		{"null", map[string][]string{"Authorization": {token(`{}`, `{"sub":null}`)}}, "anonymous"},
		{"an object", map[string][]string{"Authorization": {token(`{}`, `{"sub":{"id":1}}`)}}, "anonymous"},
		{"an array", map[string][]string{"Authorization": {token(`{}`, `{"sub":["1"]}`)}}, "anonymous"},
		{"another case", map[string][]string{"Authorization": {token(`{}`, `{"Sub":"42"}`)}}, "anonymous"},
		{"no JSON", map[string][]string{"Authorization": {token(`{}`, `{"sub":`)}}, "anonymous"},
		{"not UTF-8", map[string][]string{"Authorization": {token(`{}`, "{\"sub\":\"\xff\"}")}}, "anonymous"},
		{"no token", map[string][]string{"Authorization": {"Bearer ..", "Basic x"}}, "anonymous"},
		{"two parts", map[string][]string{"Authorization": {"e30.eyJzdWIiOiI0MiJ9"}}, "anonymous"},
	} {
		if got := read(t, r, Request{Header: tt.header}).Descriptor.User; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRead_FollowsPathsIntoClaims(t *testing.T) {
	const payload = `{"groups":["admin",["a",{"id":7}],null],"org":{"id":"acme","unit.name":{"de":"Werk"},"list":{}},` +
		`"https://x.example/roles":["r"],"org.id2":"own","a[0]":"own"}`
	for path, want := range map[string]string{
		"groups[0]": "admin", "groups[1][0]": "a", "groups[1][1].id": "7", "org.id": "acme", "org.unit.name.de": "Werk",
		"https://x.example/roles[0]": "r", "org.id2": "own", "a[0]": "own", "groups": "-", "org": "-", "groups[1]": "-",
		"groups[2]": "-", "groups[3]": "-", "groups[999]": "-", "groups[0].id": "-", "org[0]": "-", "org.none": "-",
		"org.list[0]": "-", "none.id": "-",
	} {
		p := shop()
		p.Facts.User = []profile.Source{{Claim: path}, {Value: "-"}}
		if got := read(t, reader(t, p), Request{Header: map[string][]string{
			"Authorization": {token(`{}`, payload)}}}).Descriptor.User; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestRead_IgnoresTokensWhileClaimsAreOff(t *testing.T) {
	p := shop()
	p.Claims = profile.ClaimsOff
	for _, alg := range []string{"RS256", "none"} {
		got := read(t, reader(t, p), Request{Header: map[string][]string{
			"Authorization": {token(`{"alg":"`+alg+`"}`, `{"sub":"42"}`)}}}).Descriptor.User
		if got != "anonymous" {
			t.Errorf("alg %s: got %q", alg, got)
		}
	}
}

func TestRead_FindsEveryFact(t *testing.T) {
	got := read(t, reader(t, shop()), Request{
		Method: "post", Target: "https://shop.example/users//17?x=/files/1", Host: "Shop.Example.:8443",
		Header: map[string][]string{"X-User": {"42"}, "X-Api-Key": {"k"}, "X-Tenant": {"acme"}, "Content-Length": {"1234"},
			"X-Forwarded-For": {"198.51.100.9", "203.0.113.7, 10.0.0.2"}},
		Peer: netip.MustParseAddr("127.0.0.1"),
	})
	want := Facts{Weight: 1, Descriptor: match.Descriptor{
		Method: "POST", Route: "/users/{id}", IP: netip.MustParseAddr("203.0.113.7"), User: "42", APIKey: "k",
		Attributes: map[string]string{"tenant": "acme", "host": "shop.example"}, Fields: map[string]int64{"bytes": 1234},
		Host: "shop.example",
	}}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}),
		cmpopts.IgnoreUnexported(match.Descriptor{})); diff != "" {
		t.Error(diff)
	}
}

func TestRead_ClientIPIsTheRightMostUntrustedAddress(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   string // "" for a missing fact
	}{
		{[]string{"203.0.113.7"}, "203.0.113.7"},
		{[]string{"198.51.100.9, 203.0.113.7"}, "203.0.113.7"},
		{[]string{"203.0.113.7,10.1.2.3 , 10.0.0.1"}, "203.0.113.7"},
		{[]string{"198.51.100.9", "203.0.113.7"}, "203.0.113.7"},
		{[]string{"203.0.113.7", "10.0.0.1"}, "203.0.113.7"},
		{[]string{"203.0.113.7:5151"}, "203.0.113.7"},
		{[]string{"[2001:db8::7]:5151"}, "2001:db8::7"},
		{[]string{"[2001:db8::7]"}, "2001:db8::7"},
		{[]string{"2001:db8::7, 2001:db8::1"}, "2001:db8::7"},
		{[]string{"fe80::1%eth0"}, "fe80::1"},
		{[]string{"203.0.113.7, ::ffff:10.0.0.1"}, "203.0.113.7"},
		{[]string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		// Only trusted addresses: the client is the left-most.
		{[]string{"10.9.9.9, 10.0.0.1"}, "10.9.9.9"},
		// What is left of garbage cannot be believed.
		{[]string{"203.0.113.7, unknown, 10.0.0.1"}, "10.0.0.1"},
		{[]string{"203.0.113.7, , 10.0.0.1"}, "10.0.0.1"},
		{[]string{"203.0.113.7, unknown"}, ""},
		{[]string{"203.0.113.7,"}, ""},
		{[]string{"203.0.113.7", ""}, ""},
		{[]string{"1.2.3"}, ""},
		{[]string{"[::1"}, ""},
		{nil, ""},
	} {
		got := read(t, reader(t, shop()), Request{Header: map[string][]string{"X-Forwarded-For": tt.values},
			Peer: netip.MustParseAddr("192.0.2.1")}).Descriptor.IP
		want, _ := netip.ParseAddr(tt.want)
		if got != want {
			t.Errorf("%q: got %s, want %s", tt.values, got, want)
		}
	}
}

func TestRead_ClientIPWithoutHeaderIsThePeer(t *testing.T) {
	p := shop()
	p.ClientIP.Header = ""
	got := read(t, reader(t, p), Request{Header: map[string][]string{"X-Forwarded-For": {"203.0.113.7"}},
		Peer: netip.MustParseAddr("::ffff:192.0.2.1")}).Descriptor.IP
	if got != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("got %s", got)
	}
}

func TestRead_DoesAsMissingSays(t *testing.T) {
	p := shop()
	p.Facts.User = []profile.Source{{Header: "X-User"}}
	p.Missing = map[string]profile.MissingFact{
		"ip": {Action: profile.MissingDeny}, "user": {Action: profile.MissingSkip}, "api_key": {Value: "none"},
		"attr:tenant": {Action: profile.MissingDeny}, "attr:plan": {Value: "free"}, "field:bytes": {Value: "100"},
	}
	r := reader(t, p)
	got := read(t, r, Request{})
	if got.Denied != "ip" || got.Descriptor.User != "" || got.Descriptor.APIKey != "none" ||
		got.Descriptor.Attributes["plan"] != "free" || got.Descriptor.Fields["bytes"] != 100 {
		t.Errorf("got %+v", got)
	}
	header := map[string][]string{"X-Forwarded-For": {"203.0.113.7"}}
	if got := read(t, r, Request{Header: header}).Denied; got != "attr:tenant" {
		t.Errorf("denied %q", got)
	}
	header["X-Tenant"] = []string{"acme"}
	if got := read(t, r, Request{Header: header}).Denied; got != "" {
		t.Errorf("denied %q", got)
	}
	p.Missing["ip"] = profile.MissingFact{Value: "192.0.2.9"}
	if got := read(t, reader(t, p), Request{}).Descriptor.IP.String(); got != "192.0.2.9" {
		t.Errorf("ip %s", got)
	}
}

func TestRead_SkipsMethodsInAnyCase(t *testing.T) {
	for method, want := range map[string]bool{"OPTIONS": true, "options": true, "GET": false} {
		if got := read(t, reader(t, shop()), Request{Method: method}).Skip; got != want {
			t.Errorf("%s: got %v", method, got)
		}
	}
}

func TestRead_WeightIsAWholeNumber(t *testing.T) {
	p := shop()
	p.Weight = &profile.WeightSource{Header: "x-weight"}
	r := reader(t, p)
	for value, want := range map[string]int64{"": 1, "0": 0, "5": 5, "007": 7, " 12 ": 12,
		"9007199254740991": limiter.MaxExact, "-1": -1, "1.5": -1, "1e3": -1, "x": -1, "99999999999999999999": -1,
		"9007199254740992": -1, "5, 5": -1, "+5": -1} {
		var out Facts
		err := r.Read(&Request{Header: map[string][]string{"X-Weight": {value}}}, &out)
		var bad *HeaderError
		switch {
		case want < 0 && (!errors.As(err, &bad) || bad.Header != "X-Weight"):
			t.Errorf("%q: got the error %v", value, err)
		case want >= 0 && (err != nil || out.Weight != want):
			t.Errorf("%q: got %d, %v", value, out.Weight, err)
		}
	}
}

func TestRead_WeightIsThatOfTheGateway(t *testing.T) {
	p := shop()
	p.Weight = &profile.WeightSource{Header: "X-Weight"}
	got := read(t, reader(t, p), Request{Header: map[string][]string{"X-Weight": {"0", "5"}}}).Weight
	if got != 5 {
		t.Errorf("the client sent 0 and the gateway added 5: got %d", got)
	}
}

func TestRead_FieldsAreWholeNumbers(t *testing.T) {
	r := reader(t, shop())
	for value, want := range map[string]int64{"0": 0, "1234": 1234, "99999999999999999999": limiter.MaxExact,
		"-1": -1, "1.5": -1, "": -1, "0x10": -1} {
		got, ok := read(t, r, Request{Header: map[string][]string{"Content-Length": {value}}}).Descriptor.Fields["bytes"]
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: got %d, %v", value, got, ok)
		}
	}
}

// Values that no JSON check could carry get a bucket of their own: they neither evade a rule nor
// meet the bucket of another value.
func TestRead_HashesTextsThatNoCheckMayCarry(t *testing.T) {
	r := reader(t, shop())
	user := func(v string) string {
		return read(t, r, Request{Header: map[string][]string{"X-User": {v}}}).Descriptor.User
	}
	long := strings.Repeat("a", match.MaxText)
	if user(long) != long {
		t.Error("the longest text was changed")
	}
	seen := map[string]string{}
	for _, v := range []string{long, long + "a", long + "b", "\xff", "\xfe", "%h", user(long + "a"), user("\xff")} {
		got := user(v)
		if len(got) > match.MaxText {
			t.Errorf("%.20q became %d bytes long", v, len(got))
		}
		if other, twice := seen[got]; twice {
			t.Errorf("%.20q and %.20q are one user", v, other)
		}
		seen[got] = v
	}
}

func TestRead_ReusesItsMemory(t *testing.T) {
	r := reader(t, shop())
	var out Facts
	req := Request{Method: "GET", Target: "/users/17?q", Host: "shop.example", Header: map[string][]string{
		"X-User": {"42"}, "X-Api-Key": {"k"}, "X-Tenant": {"acme"}, "Content-Length": {"1"},
		"X-Forwarded-For": {"203.0.113.7"}}}
	if n := testing.AllocsPerRun(100, func() {
		if err := r.Read(&req, &out); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
	if out = read(t, r, Request{}); out.Descriptor.APIKey != "" {
		t.Error("a fact of the last request is left")
	}
	if err := r.Read(&Request{Method: "OPTIONS"}, &out); err != nil || len(out.Descriptor.Attributes)+
		len(out.Descriptor.Fields) != 0 {
		t.Errorf("left over: %+v, %v", out, err)
	}
}

func TestNew_RefusesWhatItCannotRead(t *testing.T) {
	for name, change := range map[string]func(*profile.Profile){
		"trusted":          func(p *profile.Profile) { p.ClientIP.Trusted = []string{"10.0.0.0/33"} },
		"route":            func(p *profile.Profile) { p.Routes = []string{"users"} },
		"ambiguous routes": func(p *profile.Profile) { p.Routes = []string{"/a/{x}/b", "/a/{y}/b"} },
		"the same route":   func(p *profile.Profile) { p.Routes = []string{"/a/*", "/a/*"} },
		"value of a field": func(p *profile.Profile) { p.Facts.Fields["bytes"] = []profile.Source{{Value: "many"}} },
		"missing ip":       func(p *profile.Profile) { p.Missing = map[string]profile.MissingFact{"ip": {Value: "here"}} },
		"missing field": func(p *profile.Profile) {
			p.Missing = map[string]profile.MissingFact{"field:b": {Value: "-1"}}
		},
		"address with zone": func(p *profile.Profile) { p.ClientIP.Trusted = []string{"fe80::1%eth0"} },
	} {
		p := shop()
		change(p)
		if _, err := New(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The host is the attribute host as rules compare it. What is no host is a missing fact, and never an error.
func TestRead_Host(t *testing.T) {
	p := shop()
	own := shop()
	own.Facts.Attributes = map[string][]profile.Source{"host": {{Header: "X-Site"}}}
	for _, tt := range []struct {
		profile    *profile.Profile
		host, site string
		want, attr string
	}{
		{p, "API.Shop.example:8443", "", "api.shop.example", "api.shop.example"},
		{p, "b\u00fccher.example.", "", "xn--bcher-kva.example", "b\u00fccher.example"},
		{p, "[2001:db8::1]:80", "", "2001:db8::1", "2001:db8::1"},
		{p, "a b", "", "", "a b"},
		{p, "", "", "", ""},
		{p, "shop.example", "other.example", "shop.example", "shop.example"},
		{own, "shop.example", "Other.example", "other.example", "Other.example"},
		{own, "shop.example", "", "", ""},
	} {
		got := read(t, reader(t, tt.profile), Request{Host: tt.host, Header: map[string][]string{"X-Site": {tt.site}}})
		if d := got.Descriptor; d.Host != tt.want || d.Attributes["host"] != tt.attr {
			t.Errorf("%q, %q: host %q, attribute %q, want %q and %q", tt.host, tt.site, d.Host, d.Attributes["host"],
				tt.want, tt.attr)
		}
	}
}
