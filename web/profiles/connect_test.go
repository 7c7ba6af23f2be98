package profiles_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/profile"
	"sluice/web/webtest"
)

// connectForm is the form of the page, filled in.
func connectForm(gateway string, more ...string) url.Values {
	form := url.Values{"gateway": {gateway}, "name": {"edge"}, "fact": {"api_key"}, "header": {"X-Key"},
		"sluice": {"10.0.0.1:81"}, "clients": {"10.0.0.2:82"}, "app": {"10.0.0.3:83"}, "from": {"10.0.0.2"}, "days": {"0"}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	return form
}

const noteOfFirst = "This is the first token."

func TestConnect_StoresNothingBeforeConnect(t *testing.T) {
	w := webtest.Start(t, webtest.Empty)
	b := w.As(access.RoleAdmin)
	page := b.Get("/console/connect")
	if !page.Has(noteOfFirst, "/ratelimit/nginx/nginx;", "server 127.0.0.1:8080 ", "export SLUICE_TOKEN=slk_...",
		`value="nginx"`, "No rule is in force") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get("/console/connect?" + connectForm("nginx").Encode())
	if !page.Has("/ratelimit/nginx/edge;", "server 10.0.0.1:81 ", "listen 10.0.0.2:82;", "server 10.0.0.3:83;",
		"proxy_set_header X-Key $http_x_key;", "-H &#39;X-Key: k1&#39; http://10.0.0.2:82/") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if len(w.Profiles.List) > 0 || len(w.Tokens.List) > 0 {
		t.Error("looking at the page stored something")
	}
	w.Tokens.List = []access.Token{{ID: 1, Name: "old", RevokedAt: new(webtest.Now)}}
	if b.Get("/console/connect").Has(noteOfFirst) {
		t.Error("a second token is announced as the first one")
	}
	w.Tokens.List = nil
	if b.Get("/console/connect?gateway=traefik").Has(noteOfFirst) {
		t.Error("Traefik sends no token, but the page announces the first one")
	}
}

func TestConnect_MakesWhatEachGatewayNeeds(t *testing.T) {
	token, network := profile.Proof{Token: true}, profile.Proof{Networks: []string{"10.0.0.2"}}
	for gateway, want := range map[string]struct {
		proof   profile.Proof
		trusted []string
		says    string
	}{
		"nginx": {proof: token, says: "/ratelimit/nginx/edge;"}, "caddy": {proof: token, says: "/ratelimit/forward/edge?"},
		"haproxy": {proof: token, says: "lua.sluice edge "}, "kong": {proof: token, says: "profile = &#34;edge&#34;"},
		"apisix":  {proof: token, says: "http://10.0.0.1:81/ratelimit/forward/edge "},
		"envoy":   {proof: token, trusted: []string{"10.0.0.2"}, says: "/ratelimit/ext_authz/edge "},
		"traefik": {proof: network, says: "http://10.0.0.1:81/ratelimit/forward/edge "},
	} {
		w := webtest.Start(t, webtest.Empty)
		page := w.As(access.RoleAdmin).Post("/console/connect", connectForm(gateway))
		if page.Code != http.StatusOK || !page.Has(want.says, "Wait for the first request") {
			t.Errorf("%s: %d\n%s", gateway, page.Code, page.Body)
			continue
		}
		got, shown := len(w.Tokens.List) == 1, page.Has("export SLUICE_TOKEN=slk_")
		if got != want.proof.Token || shown != got {
			t.Errorf("%s: tokens %v, the secret is shown: %v", gateway, w.Tokens.List, shown)
		}
		if len(w.Tokens.List) == 1 {
			tok := w.Tokens.List[0]
			if !slices.Equal(tok.Scopes, []access.Scope{access.ScopeCheck}) || tok.ExpiresAt != nil || tok.Name != "edge" {
				t.Errorf("%s: the token is %+v", gateway, tok)
			}
		}
		is := profile.New()
		is.Name, is.Facts.APIKey, is.Proof, is.ClientIP.Trusted = "edge", []profile.Source{{Header: "X-Key"}}, want.proof,
			want.trusted
		is.Normalize()
		made := w.Profiles.List[0]
		made.Description, made.Version, made.CreatedAt, made.UpdatedAt = "", 0, time.Time{}, time.Time{}
		if diff := cmp.Diff(is, made); diff != "" {
			t.Errorf("%s: %s", gateway, diff)
		}
	}
	w := webtest.Start(t, webtest.Empty)
	page := w.As(access.RoleAdmin).Post("/console/connect", connectForm("program", "days", "30"))
	if page.Code != http.StatusOK || !page.Has("http://10.0.0.1:81/ratelimit/check") || len(w.Profiles.List) != 0 ||
		!w.Tokens.List[0].ExpiresAt.Equal(webtest.Now.Add(30*24*time.Hour)) {
		t.Errorf("a program: %d %v\n%s", page.Code, w.Tokens.List, page.Body)
	}
}

func TestConnect_ShowsTheSecretOnce(t *testing.T) {
	w := webtest.Start(t, webtest.Empty)
	b := w.As(access.RoleAdmin)
	page := b.Post("/console/connect", connectForm("nginx"))
	_, rest, _ := strings.Cut(page.Body, "export SLUICE_TOKEN=")
	secret, _, _ := strings.Cut(rest, "\n")
	if access.Hash(secret) != w.Tokens.List[0].Hash {
		t.Fatalf("the page shows %q, which is not the secret", secret)
	}
	page = b.Get("/console/profiles/edge")
	if !page.Has("Waiting for the first request", "Remove both", "export SLUICE_TOKEN=slk_...", "server 10.0.0.1:81 ",
		"of=gateway", ">Reload</a>") || page.Has(secret) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
}

func TestConnect_RefusesWhatIsWrong(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	for name, tt := range map[string]struct {
		form url.Values
		code int
		says string
	}{
		"name":         {connectForm("nginx", "name", "No Good"), 422, "ust be 1 to 63 of a-z"},
		"no name":      {connectForm("nginx", "name", ""), 422, "ust be 1 to 63 of a-z"},
		"header":       {connectForm("nginx", "header", "X; return 200"), 422, "ust be the name of a header"},
		"own header":   {connectForm("nginx", "header", "Sluice-Token"), 422, "ust not be Sluice-Token"},
		"no port":      {connectForm("nginx", "sluice", "10.0.0.1"), 422, "ust be a host and a port"},
		"no host":      {connectForm("caddy", "app", "a b:80"), 422, "ust be a host and a port"},
		"injection":    {connectForm("nginx", "app", "a;}:80"), 422, "ust be a host and a port"},
		"address":      {connectForm("envoy", "from", "nowhere"), 422, "ust be an address or a network"},
		"expiry":       {connectForm("nginx", "days", "-1"), 422, "ust be one of the options"},
		"fact":         {connectForm("nginx", "fact", "tier"), 422, "ust be one of the options"},
		"profile":      {connectForm("nginx", "name", "shop"), 409, "already used"},
		"token":        {connectForm("nginx", "name", "ci"), 409, "already used"},
		"its own name": {connectForm("program", "name", "ci"), 409, "already used"},
	} {
		page := b.Post("/console/connect", tt.form)
		if page.Code != tt.code || !page.Has(tt.says) || len(w.Profiles.List) != 2 || len(w.Tokens.List) != 5 {
			t.Errorf("%s: %d, %d profiles, %d tokens\n%s", name, page.Code, len(w.Profiles.List), len(w.Tokens.List),
				page.Body)
		}
	}
	w.Gateways.Err = rules.ErrUnavailable
	if page := b.Post("/console/connect", connectForm("nginx")); page.Code != http.StatusServiceUnavailable ||
		!page.Has("Nothing was saved", "10.0.0.3:83") {
		t.Errorf("without the database: %d\n%s", page.Code, page.Body)
	}
}

func TestConnect_IsForAdministrators(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	for _, role := range []access.Role{access.RoleViewer, access.RoleEditor} {
		b := w.As(role)
		page := b.Get("/console/connect?gateway=kong")
		if page.Code != http.StatusOK || page.Has(`formmethod="post"`) || !page.Has("KONG_DATABASE", "An administrator can") {
			t.Errorf("%s: %d\n%s", role, page.Code, page.Body)
		}
		if page := b.Post("/console/connect", connectForm("nginx")); page.Code != http.StatusForbidden {
			t.Errorf("%s connects: %d", role, page.Code)
		}
		if page := b.Post("/console/profiles/edge/disconnect", nil); page.Code != http.StatusForbidden {
			t.Errorf("%s removes: %d", role, page.Code)
		}
	}
}

func TestDisconnect_RemovesBothUntilTheFirstRequest(t *testing.T) {
	w := webtest.Start(t, webtest.Empty)
	b := w.As(access.RoleAdmin)
	b.Post("/console/connect", connectForm("nginx"))
	if page := b.Post("/console/profiles/edge/disconnect", nil); page.Code != http.StatusSeeOther ||
		len(w.Profiles.List) > 0 || w.Tokens.List[0].RevokedAt == nil {
		t.Errorf("removing: %d, %v, %v", page.Code, w.Profiles.List, w.Tokens.List)
	}
	b.Post("/console/connect", connectForm("nginx"))
	waiting := b.Get("/console/events?of=gateway&profile=edge&once")
	w.Gateways.Ask("edge", webtest.Now)
	asked := b.Get("/console/events?of=gateway&profile=edge&once")
	if !waiting.Has("Waiting for the first request") || !asked.Has("nginx asks") || asked.Has("Remove both") {
		t.Errorf("the stream:\n%s\n%s", waiting.Body, asked.Body)
	}
	if page := b.Get("/console/profiles/edge"); page.Has("Remove both") || !page.Has("nginx asks") {
		t.Errorf("the page offers to remove a gateway that asks:\n%s", page.Body)
	}
	if page := b.Post("/console/profiles/edge/disconnect", nil); page.Code != http.StatusConflict ||
		!page.Has("A request has come with the profile edge, so nothing was removed.") || len(w.Profiles.List) != 1 {
		t.Errorf("removing a gateway that asks: %d\n%s", page.Code, page.Body)
	}
}

func TestDisconnect_SaysWhatItRemoved(t *testing.T) {
	for gateway, want := range map[string]string{"nginx": "Profile and token of edge removed.",
		"traefik": "Profile edge removed."} {
		b := webtest.Start(t, webtest.Empty).As(access.RoleAdmin)
		b.Post("/console/connect", connectForm(gateway))
		b.Post("/console/profiles/edge/disconnect", nil)
		if page := b.Get("/console/connect"); !page.Has(want) {
			t.Errorf("%s: the page lacks %q\n%s", gateway, want, page.Body)
		}
	}
}

func TestConnect_BeginsWithWhatFits(t *testing.T) {
	w := webtest.Start(t, webtest.Empty)
	b := w.As(access.RoleAdmin)
	w.Rules.List = []rules.Rule{webtest.SampleRules()[0]}
	w.Rules.List[0].Scope, w.Rules.List[0].IsActive = "user+ip", true
	if err := w.Compile(); err != nil {
		t.Fatal(err)
	}
	if page := b.Get("/console/connect"); !page.Has(`<option value="user" selected>`, `value="X-User"`) {
		t.Errorf("the rules count users:\n%s", page.Body)
	}
	b.Post("/console/connect", connectForm("nginx", "name", "nginx"))
	if page := b.Get("/console/connect"); !page.Has(`value="nginx-2"`) {
		t.Error("the name is not free")
	}
	w.Tokens.List = append(w.Tokens.List, access.Token{ID: 9, Name: "kong", ReplacedAt: new(webtest.Now)})
	if page := b.Get("/console/connect?gateway=kong"); !page.Has(`value="kong"`) || page.Has(`value="kong-2"`) {
		t.Error("the name of a token that was rotated is free, and the page offers another one")
	}
	w.Node.Address = "0.0.0.0:8088"
	if page := b.Get("/console/connect"); !page.Has(`:8088"`) || page.Has("0.0.0.0:8088") {
		t.Errorf("the address of a node that listens everywhere:\n%s", page.Body)
	}
}

func TestForm_APresetFillsInWhatAGatewayNeeds(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleEditor)
	page := b.Get("/console/profiles/new")
	if !page.Has("/console/profiles/new?for=haproxy", "<summary>Advanced</summary>") || page.Has("more\" open") {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Get("/console/profiles/new?for=traefik")
	if !page.Has(">127.0.0.1</textarea>", ">header X-Api-Key\n</textarea>", `value="Traefik"`) ||
		!page.Has("the proof is the address 127.0.0.1.") || page.Has(`value="on" checked`) {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	if page := b.Get("/console/profiles/shop/edit?for=envoy"); !page.Has(">127.0.0.1</textarea>",
		"/console/profiles/shop/edit?for=nginx", "open") || w.Profiles.List[1].ClientIP.Trusted[0] != "10.0.0.0/8" {
		t.Errorf("%d\n%s", page.Code, page.Body)
	}
	page = b.Post("/console/profiles", mailForm("facts.user", "X-User"))
	if !page.Has(`<details class="card more" open>`) {
		t.Errorf("an error is hidden:\n%s", page.Body)
	}
}
