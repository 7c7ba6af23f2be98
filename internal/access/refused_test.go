package access

import (
	"crypto/x509"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestGate_ReportsEachRefusalOnce with its endpoint, its reason and the token, which the caller proved to have.
func TestGate_ReportsEachRefusalOnce(t *testing.T) {
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	secrets := map[string]string{}
	var all []Token
	for i, name := range []string{"good", "reader", "expired", "revoked"} {
		secret, hash := NewSecret()
		token := Token{ID: int64(i + 1), Name: name, Hash: hash, Scopes: []Scope{ScopeCheck}}
		switch name {
		case "reader":
			token.Scopes = []Scope{ScopeRulesRead}
		case "expired":
			token.ExpiresAt = &now
		case "revoked":
			token.RevokedAt = &now
		}
		secrets[name], all = secret, append(all, token)
	}
	var tokens, empty, none Current
	tokens.Store(NewKeyring(all))
	empty.Store(NewKeyring(nil))
	unknown, _ := NewSecret()
	secrets["unknown"] = unknown
	bearer := func(name string) Call { return Call{Authorization: []string{"Bearer " + secrets[name]}} }
	proof := GatewayProof{Token: true}
	for _, tt := range []struct {
		what string
		ring *Current
		call func(g *Gate) error
		want []string
	}{
		{"a good token", &tokens, admits(bearer("good")), nil},
		{"nothing", &tokens, admits(Call{}), []string{"e none 0"}},
		{"an unknown token", &tokens, admits(bearer("unknown")), []string{"e unknown 0"}},
		{"another scheme", &tokens, admits(Call{Authorization: []string{"Basic x"}}), []string{"e unknown 0"}},
		{"an expired token", &tokens, admits(bearer("expired")), []string{"e expired 3 expired"}},
		{"a revoked token", &tokens, admits(bearer("revoked")), []string{"e revoked 4 revoked"}},
		{"another scope", &tokens, admits(bearer("reader")), []string{"e scope 2 reader"}},
		{"through a proxy in open mode", &empty, admits(Call{Host: "localhost", Open: true, Forwarded: true}),
			[]string{"e not_open 0"}},
		{"tokens not loaded", &none, admits(bearer("good")), []string{"e not_loaded 0"}},
		{"a gateway", &tokens, func(g *Gate) error {
			return g.AdmitGateway(GatewayCall{Endpoint: "e", Token: []string{secrets["revoked"]}}, &proof)
		}, []string{"e revoked 4 revoked"}},
		{"a gateway without proof", &tokens, func(g *Gate) error {
			return g.AdmitGateway(GatewayCall{Endpoint: "e"}, &proof)
		}, []string{"e none 0"}},
	} {
		var got []string
		g := Gate{Tokens: tt.ring, OpenMode: true, Now: func() time.Time { return now },
			Refused: func(endpoint string, r *Refusal) {
				line := fmt.Sprint(endpoint, " ", r.Reason, " ", r.Token.ID)
				if r.Token.Name != "" {
					line += " " + r.Token.Name
				}
				got = append(got, line)
			}}
		if err := tt.call(&g); (err != nil) != (tt.want != nil) {
			t.Errorf("%s: %v", tt.what, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.what, diff)
		}
	}
	if want := []string{"none", "unknown", "expired", "revoked", "scope", "not_open", "not_loaded"}; !slices.Equal(
		Reasons(), want) {
		t.Errorf("the reasons are %q, want %q", Reasons(), want)
	}
}

func admits(call Call) func(*Gate) error {
	return func(g *Gate) error {
		call.Endpoint = "e"
		_, err := g.Admit(call, ScopeCheck)
		return err
	}
}

// TestGate_ReportsCertificatesByName: they have no id.
func TestGate_ReportsCertificatesByName(t *testing.T) {
	var tokens Current
	tokens.Store(NewKeyring(nil))
	var got Token
	g := Gate{Tokens: &tokens, Certificates: certificates(t, "gw.example.com=check"), Now: time.Now,
		Refused: func(_ string, r *Refusal) { got = r.Token }}
	chains := [][]*x509.Certificate{{{DNSNames: []string{"gw.example.com"}}}}
	_, err := g.Admit(Call{Chains: chains}, ScopeAdmin)
	if err == nil || got.Name != "gw.example.com" || !got.Certificate {
		t.Errorf("%v, reported %v", err, got)
	}
}
