package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"net/netip"
	"net/url"
	"testing"
	"time"
)

func TestAdmitGateway_AnyOneProofIsEnoughAndNothingElse(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	secret := func(tok Token) (string, Token) {
		s, hash := NewSecret()
		tok.Hash = hash
		return s, tok
	}
	check, checkToken := secret(Token{ID: 1, Scopes: []Scope{ScopeCheck}})
	admin, adminToken := secret(Token{ID: 2, Scopes: []Scope{ScopeAdmin}})
	reader, readerToken := secret(Token{ID: 3, Scopes: []Scope{ScopeRulesRead}})
	revoked, revokedToken := secret(Token{ID: 4, Scopes: []Scope{ScopeCheck}, RevokedAt: &now})
	var loaded, open, none Current
	loaded.Store(NewKeyring([]Token{checkToken, adminToken, readerToken, revokedToken}))
	open.Store(NewKeyring(nil))

	spiffe, err := url.Parse("spiffe://example.org/edge")
	if err != nil {
		t.Fatal(err)
	}
	chainOf := func(leaf *x509.Certificate) [][]*x509.Certificate {
		return [][]*x509.Certificate{{leaf, {Subject: pkix.Name{CommonName: "root"}}}}
	}
	chain := chainOf(&x509.Certificate{Subject: pkix.Name{CommonName: "edge"}})
	names := []pkix.Extension{{Id: []int{2, 5, 29, 17}}}
	several := chainOf(&x509.Certificate{Subject: pkix.Name{CommonName: "edge"}, DNSNames: []string{"Edge.example.org"},
		URIs: []*url.URL{spiffe}, Extensions: names})
	odd := chainOf(&x509.Certificate{Subject: pkix.Name{CommonName: "edge"}, Extensions: names})
	all := GatewayProof{Token: true, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"),
		netip.MustParsePrefix("::1/128")}, Certificates: []string{"edge"}}
	named := func(name string) GatewayProof { return GatewayProof{Certificates: []string{name}} }
	at := netip.MustParseAddr
	for _, tt := range []struct {
		name  string
		ring  *Current
		proof GatewayProof
		call  GatewayCall
		want  Reason // 0 for admitted
	}{
		{"nothing", &loaded, all, GatewayCall{Peer: at("192.0.2.1")}, NoCredentials},
		{"nothing, no token needed", &loaded, named("edge"), GatewayCall{Token: []string{check}}, NoCredentials},
		{"a profile without proof", &loaded, GatewayProof{}, GatewayCall{Token: []string{admin}, Peer: at("127.0.0.1"),
			Chains: chain}, NoCredentials},
		{"open mode", &open, GatewayProof{Token: true}, GatewayCall{Peer: at("127.0.0.1")}, NoCredentials},
		{"open mode, any token", &open, GatewayProof{Token: true}, GatewayCall{Token: []string{check}}, UnknownToken},
		{"token", &loaded, all, GatewayCall{Token: []string{check}, Peer: at("192.0.2.1")}, 0},
		{"admin", &loaded, all, GatewayCall{Token: []string{admin}}, 0},
		{"another scope", &loaded, all, GatewayCall{Token: []string{reader}}, LacksScope},
		{"revoked", &loaded, all, GatewayCall{Token: []string{revoked}}, RevokedToken},
		{"an empty token", &loaded, all, GatewayCall{Token: []string{""}}, UnknownToken},
		{"two tokens", &loaded, all, GatewayCall{Token: []string{check, check}}, UnknownToken},
		{"tokens not loaded", &none, all, GatewayCall{Token: []string{check}}, NotLoaded},
		{"network", &loaded, all, GatewayCall{Peer: at("10.1.2.3")}, 0},
		{"network, tokens not loaded", &none, all, GatewayCall{Peer: at("10.1.2.3")}, 0},
		{"network, mapped address", &loaded, all, GatewayCall{Peer: at("::ffff:10.1.2.3")}, 0},
		{"IPv6", &loaded, all, GatewayCall{Peer: at("::1")}, 0},
		{"network despite a bad token", &loaded, all, GatewayCall{Peer: at("10.1.2.3"), Token: []string{"x"}}, 0},
		{"no address", &loaded, all, GatewayCall{}, NoCredentials},
		{"common name", &loaded, named("edge"), GatewayCall{Chains: chain}, 0},
		{"DNS name", &loaded, named("edge.example.org"), GatewayCall{Chains: several}, 0},
		{"URI", &loaded, named("spiffe://example.org/edge"), GatewayCall{Chains: several}, 0},
		{"common name beside other names", &loaded, named("edge"), GatewayCall{Chains: several}, NoCredentials},
		{"common name beside a name of another kind", &loaded, named("edge"), GatewayCall{Chains: odd}, NoCredentials},
		{"the issuer's name", &loaded, named("root"), GatewayCall{Chains: chain}, NoCredentials},
		{"no verified chain", &loaded, named("edge"), GatewayCall{Chains: [][]*x509.Certificate{{}}}, NoCredentials},
		{"an empty name", &loaded, named(""), GatewayCall{Chains: [][]*x509.Certificate{{{}}}}, NoCredentials},
	} {
		gate := Gate{Tokens: tt.ring, OpenMode: true, Now: func() time.Time { return now }}
		err := gate.AdmitGateway(tt.call, &tt.proof)
		var refused *Refusal
		switch {
		case tt.want == 0 && err != nil:
			t.Errorf("%s: got %v", tt.name, err)
		case tt.want != 0 && (!errors.As(err, &refused) || refused.Reason != tt.want):
			t.Errorf("%s: got %v, want reason %d", tt.name, err, tt.want)
		}
	}
}
