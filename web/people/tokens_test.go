package people_test

import (
	"net/http"
	"net/url"
	"regexp"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/webtest"
)

func TestTokens_ShowTheirSecretOnceAndEndAtOnce(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	page := b.Post("/console/tokens/new",
		url.Values{"name": {"<b>gate</b>"}, "days": {"30"}, "scope_check": {"on"}, "scope_rules_read": {"on"}})
	secret := regexp.MustCompile(`slk_[A-Za-z0-9_-]{43}`).FindString(page.Body)
	if page.Code != http.StatusOK || secret == "" || page.Has("<b>gate</b>") {
		t.Fatalf("made: %d", page.Code)
	}
	got := w.Tokens.List[len(w.Tokens.List)-1]
	if got.Hash != access.Hash(secret) || access.FormatScopes(got.Scopes) != "check,rules:read" ||
		!got.ExpiresAt.Equal(webtest.Now.Add(30*24*time.Hour)) || got.CreatedBy != "ada" || w.Changes != 1 {
		t.Errorf("stored %v until %v by %s; %d reloads", got, got.ExpiresAt, got.CreatedBy, w.Changes)
	}
	if b.Get("/console/tokens").Has(secret) {
		t.Error("the list shows the secret")
	}
	if page := b.Post("/console/tokens/1/revoke", url.Values{}); page.Code != http.StatusSeeOther ||
		w.Tokens.List[0].RevokedAt == nil || w.Changes != 2 {
		t.Errorf("revoking: %d", page.Code)
	}
	if page := b.Post("/console/tokens/1/revoke", url.Values{}); page.Code != http.StatusNotFound {
		t.Errorf("revoking again: %d", page.Code)
	}
	for _, form := range []url.Values{{"name": {"a"}, "days": {"7"}},
		{"name": {"a"}, "days": {"-1"}, "scope_check": {"on"}}, {"name": {"ci"}, "days": {"0"}, "scope_check": {"on"}},
		{"days": {"0"}, "scope_check": {"on"}}} {
		if page := b.Post("/console/tokens/new", form); page.Code != http.StatusUnprocessableEntity || page.Has("slk_") {
			t.Errorf("%v: %d", form, page.Code)
		}
	}
}
