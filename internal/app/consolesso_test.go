package app

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/sso/ssotest"
	"sluice/internal/testenv"
)

func TestSignOn_TheWholeWayThroughARealNode(t *testing.T) {
	t.Parallel()
	provider := ssotest.New()
	t.Cleanup(provider.Close)
	provider.Person("s-1", "Ada", "staff")
	cfg := withConsole(t)
	cfg.Listen = testenv.FreeAddr(t)
	cfg.ConsoleURL = "http://" + cfg.Listen
	cfg.OIDCIssuer, cfg.OIDCClientID, cfg.OIDCName = provider.URL, ssotest.ClientID, "Example ID"
	cfg.OIDCClientSecret.File = secretIn(t, "the secret before it was rotated")
	cfg.OIDCGroupsClaim, cfg.OIDCEditorGroups = "groups", []string{"staff"}
	provider.Instead("/.well-known/openid-configuration",
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })

	n := start(t, cfg) // though the provider is away
	p := newPerson(t, n)
	if status, body := p.get(n.url + "/console/sign-in"); status != http.StatusOK ||
		!strings.Contains(body, "Sign in with Example ID") {
		t.Fatalf("the form: %d", status)
	}
	if status, body := p.post(n.url+"/console/sso/start", url.Values{}); status != http.StatusServiceUnavailable ||
		!strings.Contains(body, "The provider is unreachable") {
		t.Errorf("while it is away: %d", status)
	}
	n.stop()

	provider.Instead("/.well-known/openid-configuration", nil)
	n = start(t, cfg)
	p = newPerson(t, n)
	signIn := func() (int, string) {
		t.Helper()
		if status, _ := p.post(n.url+"/console/sso/start", url.Values{"next": {"/console/rules"}}); status != http.StatusOK {
			t.Fatalf("start: %d", status)
		}
		p.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		res, err := p.client.Get(n.url + "/console/sso/go") //nolint:noctx // the server is the test's own
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		p.client.CheckRedirect = nil
		back, err := provider.Approve(res.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		return p.get(back)
	}
	if status, _ := signIn(); status == http.StatusOK {
		t.Error("signed in with the wrong client secret")
	}
	replaceSecret(t, cfg.OIDCClientSecret.File, ssotest.ClientSecret+"\n")
	eventually(t, "the node uses the new client secret", func() bool {
		return !n.failingFile("SLUICE_OIDC_CLIENT_SECRET_FILE") && strings.Contains(n.log.String(), "a secret has changed")
	})
	if status, body := signIn(); status != http.StatusOK || !strings.Contains(body, "<h1>Rules</h1>") ||
		!strings.Contains(body, "editor") {
		t.Errorf("signed in: %d", status)
	}
	users, err := Users(t.Context(), cfg.Storage)
	if err != nil || len(users) != 1 || users[0].Name != "ada" || users[0].Subject != "s-1" || users[0].LastLogin == nil {
		t.Errorf("accounts %v, %v", users, err)
	}
	if _, err := SetPassword(t.Context(), cfg.Storage, "ada", "a long enough password", "test"); err == nil ||
		!strings.Contains(err.Error(), "single sign-on") {
		t.Errorf("a password for it: %v", err)
	}
	provider.Person("s-1", "Ada", "sales")
	if status, body := signIn(); status != http.StatusForbidden || !strings.Contains(body, "No role assigned") {
		t.Errorf("without its group: %d", status)
	}
}
