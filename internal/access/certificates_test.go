package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
)

// client returns the verified chains of a client certificate. Names with :// are URIs, names with @ e-mail addresses,
// others DNS names; odd is a subject alternative name of another kind.
func client(t *testing.T, commonName string, names ...string) [][]*x509.Certificate {
	t.Helper()
	leaf := &x509.Certificate{Subject: pkix.Name{CommonName: commonName}}
	for _, name := range names {
		switch {
		case name == "odd":
		case strings.Contains(name, "://"):
			u, err := url.Parse(name)
			if err != nil {
				t.Fatal(err)
			}
			leaf.URIs = append(leaf.URIs, u)
		case strings.Contains(name, "@"):
			leaf.EmailAddresses = append(leaf.EmailAddresses, name)
		default:
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	if len(names) > 0 {
		leaf.Extensions = []pkix.Extension{{Id: []int{2, 5, 29, 17}}}
	}
	return [][]*x509.Certificate{{leaf, {Subject: pkix.Name{CommonName: "ops"}, DNSNames: []string{"gw.example.com"}}}}
}

func certificates(t *testing.T, text string) *Certificates {
	t.Helper()
	c, err := ParseCertificates(text)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificates_FindsTheNamesOfACertificate(t *testing.T) {
	c := certificates(t, "gw.example.com=check; ops = rules:write,counters ;spiffe://example.com/ns=a/Gate=check;"+
		"ada@example.com=rules:read;Team A=admin;")
	for _, tt := range []struct {
		what   string
		chains [][]*x509.Certificate
		name   string // "": none
		scopes []Scope
	}{
		{"a DNS name", client(t, "", "gw.example.com"), "gw.example.com", []Scope{ScopeCheck}},
		{"in any case", client(t, "", "GW.Example.com"), "gw.example.com", []Scope{ScopeCheck}},
		{"the second one", client(t, "x", "a.example.com", "gw.example.com"), "gw.example.com", []Scope{ScopeCheck}},
		{"a URI", client(t, "x", "spiffe://example.com/ns=a/Gate"), "spiffe://example.com/ns=a/Gate", []Scope{ScopeCheck}},
		{"a URI in another case", client(t, "x", "spiffe://example.com/ns=a/gate"), "", nil},
		{"an address", client(t, "x", "ada@example.com"), "ada@example.com", []Scope{ScopeRulesRead}},
		{"several", client(t, "", "ada@example.com", "ops"), "ops", []Scope{ScopeRulesWrite, ScopeCounters, ScopeRulesRead}},
		{"a common name", client(t, "ops"), "ops", []Scope{ScopeRulesWrite, ScopeCounters}},
		{"one with a blank", client(t, "Team A"), "Team A", []Scope{ScopeAdmin}},
		{"a common name in another case", client(t, "OPS"), "", nil},
		{"a common name beside another name", client(t, "ops", "x.example.com"), "", nil},
		{"a common name beside a name of another kind", client(t, "ops", "odd"), "", nil},
		{"a longer name", client(t, "", "gw.example.com.evil.test", "x.gw.example.com"), "", nil},
		{"a wildcard", client(t, "", "*.example.com"), "", nil},
		{"no name", client(t, ""), "", nil},
		{"no certificate", nil, "", nil},
		{"an empty chain", [][]*x509.Certificate{{}}, "", nil},
	} {
		token, ok := c.find(tt.chains)
		if ok != (tt.name != "") || token.Name != tt.name || !slices.Equal(token.Scopes, tt.scopes) ||
			ok != token.Certificate {
			t.Errorf("%s: %v, %v", tt.what, token, ok)
		}
	}
	if _, ok := (*Certificates)(nil).find(client(t, "ops")); ok {
		t.Error("without a map, a certificate has scopes")
	}
	if token, _ := c.find(client(t, "ops")); len(token.Scopes) != 2 {
		t.Errorf("the scopes of several names stay with one: %v", token)
	}
}

func TestParseCertificates_NamesTheEntryThatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"ops":                               `"ops"`,
		"gw=check;ops":                      `"ops"`,
		"gw=check;=check":                   `"=check"`,
		"gw=check; =rules:read":             `"=rules:read"`,
		"ops=":                              `"ops=": at least one scope`,
		"ops=,":                             `"ops=,": at least one scope`,
		"ops=everything":                    `unknown scope "everything"`,
		"ops=check,Admin":                   `unknown scope "Admin"`,
		"ops=check;gw=check;ops=admin":      `"ops" twice`,
		"ops=check;OPS=admin":               `"OPS" twice`,
		"ada@x.com=check;ada@x.com=admin":   `"ada@x.com" twice`,
		"*.example.com=check":               `"*.example.com"`,
		"o\x00ps=check":                     "control characters",
		strings.Repeat("a", 256) + "=check": "255 bytes",
		";":                                 "must have an entry",
		" ":                                 "must have an entry",
	} {
		if c, err := ParseCertificates(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %s", text, c, err, want)
		}
	}
	if _, err := ParseCertificates("ada@x.com=check;Ada@x.com=check;spiffe://x/a=check;spiffe://x/A=check"); err != nil {
		t.Errorf("names that differ in case where it counts: %v", err)
	}
}

func TestAdmit_ACertificateHasTheScopesOfItsNameOnly(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	reader, hash := NewSecret()
	var tokens, none, empty Current
	tokens.Store(NewKeyring([]Token{{ID: 1, Name: "reader", Hash: hash, Scopes: []Scope{ScopeRulesRead}}}))
	empty.Store(NewKeyring(nil))
	bearer := func(secret string) []string { return []string{"Bearer " + secret} }
	known, stranger := client(t, "", "gw.example.com"), client(t, "", "x.example.com")
	for _, tt := range []struct {
		what string
		ring *Current
		call Call
		want Scope
		name string // of the admitted token
		not  Reason
	}{
		{"its scope", &tokens, Call{Chains: known}, ScopeCheck, "gw.example.com", 0},
		{"another scope", &tokens, Call{Chains: known}, ScopeRulesRead, "", LacksScope},
		{"another name", &tokens, Call{Chains: stranger}, ScopeCheck, "", NoCredentials},
		{"no certificate", &tokens, Call{}, ScopeCheck, "", NoCredentials},
		{"a token beside it", &tokens, Call{Chains: known, Authorization: bearer(reader)}, ScopeRulesRead, "reader", 0},
		{"a narrow token", &tokens, Call{Chains: known, Authorization: bearer(reader)}, ScopeCheck, "", LacksScope},
		{"a wrong token", &tokens, Call{Chains: known, Authorization: bearer("x")}, ScopeCheck, "", UnknownToken},
		{"an empty header", &tokens, Call{Chains: known, Authorization: []string{""}}, ScopeCheck, "", UnknownToken},
		{"from another site", &tokens, Call{Chains: known, OtherSite: true}, ScopeCheck, "", NoCredentials},
		{"through a proxy", &tokens, Call{Chains: known, Forwarded: true}, ScopeCheck, "gw.example.com", 0},
		{"before tokens are loaded", &none, Call{Chains: known}, ScopeCheck, "gw.example.com", 0},
		{"no token exists", &empty, Call{Chains: stranger, Host: "localhost"}, ScopeCheck, "", NoCredentials},
		{"neither exists", &empty, Call{Host: "localhost"}, ScopeCheck, "", NoCredentials},
	} {
		g := Gate{Tokens: tt.ring, OpenMode: true, Certificates: certificates(t, "gw.example.com=check"),
			Now: func() time.Time { return now }}
		token, err := g.Admit(tt.call, tt.want)
		var refused *Refusal
		if errors.As(err, &refused); (refused == nil) != (tt.not == 0) || refused != nil && refused.Reason != tt.not ||
			token.Name != tt.name {
			t.Errorf("%s: %v, %v", tt.what, token, err)
		}
	}
	without := Gate{Tokens: &tokens, Now: func() time.Time { return now }}
	if _, err := without.Admit(Call{Chains: known}, ScopeCheck); err == nil {
		t.Error("without the setting, a certificate is admitted")
	}
}

func TestAdmitGateway_ACertificateWithTheScopeCheckIsAsGoodAsAToken(t *testing.T) {
	var tokens Current
	tokens.Store(NewKeyring(nil))
	g := Gate{Tokens: &tokens, Now: time.Now,
		Certificates: certificates(t, "gw.example.com=check;ops=rules:write;root=admin")}
	token, names := &GatewayProof{Token: true}, &GatewayProof{Certificates: []string{"edge"}}
	for _, tt := range []struct {
		what  string
		proof *GatewayProof
		call  GatewayCall
		want  bool
	}{
		{"check", token, GatewayCall{Chains: client(t, "", "gw.example.com")}, true},
		{"admin", token, GatewayCall{Chains: client(t, "root")}, true},
		{"another scope", token, GatewayCall{Chains: client(t, "ops")}, false},
		{"another name", token, GatewayCall{Chains: client(t, "edge")}, false},
		{"a wrong token beside it", token, GatewayCall{Chains: client(t, "root"), Token: []string{"x"}}, false},
		{"a profile without tokens", names, GatewayCall{Chains: client(t, "root")}, false},
		{"the name of the profile", names, GatewayCall{Chains: client(t, "edge")}, true},
	} {
		if err := g.AdmitGateway(tt.call, tt.proof); (err == nil) != tt.want {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
}
