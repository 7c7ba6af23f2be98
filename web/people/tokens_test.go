package people_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/web/view"
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

func TestTokens_SayWhenTheyWereUsedAndWhichExpireSoon(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	used := view.Stamp(webtest.Now.Add(-3 * time.Minute))
	for role, acts := range map[access.Role]bool{access.RoleViewer: false, access.RoleAdmin: true} {
		page := w.As(role).Get("/console/tokens")
		if !page.Has("<th scope=\"col\">Last used</th>", `<time datetime="`+used+`" data-ago>`, "never", "rotated",
			"The last use is exact to about a minute") || strings.Count(page.Body, "expires soon") != 1 {
			t.Errorf("%s: %d\n%s", role, page.Code, page.Body)
		}
		// The dialog asks before it revokes, and says when the token was used last, by whom it was created and for what.
		_, dialog, _ := strings.Cut(page.Body, `id="revoke-1"`)
		dialog, _, _ = strings.Cut(dialog, "</form>")
		for _, part := range []string{"Revoke the token edge-gateway?", "<code>check</code>", used,
			"ada created the token for: check."} {
			if strings.Contains(dialog, part) != acts {
				t.Errorf("%s: the dialog %q has %q: %v", role, dialog, part, !acts)
			}
		}
		if page.Has(`href="/console/tokens/1/rotate"`) != acts || page.Has(`href="/console/tokens/3/rotate"`) {
			t.Errorf("%s: rotates the wrong tokens", role)
		}
	}
}

func TestTokens_RotateWithAnOverlap(t *testing.T) {
	w := webtest.Start(t, webtest.Full)
	b := w.As(access.RoleAdmin)
	if page := b.Get("/console/tokens/1/rotate"); page.Code != http.StatusOK ||
		!page.Has(`<option value="24" selected>`, "In an hour", "In 7 days", "Last used for") {
		t.Errorf("the form: %d", page.Code)
	}
	for _, hours := range []string{"", "0", "-1", "2", "024", "many"} {
		if page := b.Post("/console/tokens/1/rotate", url.Values{"hours": {hours}}); page.Code !=
			http.StatusUnprocessableEntity || w.Tokens.List[0].ReplacedAt != nil {
			t.Errorf("%q hours: %d", hours, page.Code)
		}
	}
	page := b.Post("/console/tokens/1/rotate", url.Values{"hours": {"168"}})
	secret := regexp.MustCompile(`slk_[A-Za-z0-9_-]{43}`).FindString(page.Body)
	ends := webtest.Now.Add(168 * time.Hour)
	if page.Code != http.StatusOK || secret == "" || !page.Has("The old secret is valid until", view.Stamp(ends)) ||
		w.Changes != 1 {
		t.Fatalf("rotated: %d\n%s", page.Code, page.Body)
	}
	old, made := w.Tokens.List[0], w.Tokens.List[len(w.Tokens.List)-1]
	if made.Hash != access.Hash(secret) || made.Name != old.Name || !old.ExpiresAt.Equal(ends) {
		t.Errorf("stored %v, the old one until %v", made, old.ExpiresAt)
	}
	for path, want := range map[string]int{"/console/tokens/1/rotate": http.StatusConflict,
		"/console/tokens/5/rotate": http.StatusConflict, "/console/tokens/4/rotate": http.StatusNotFound,
		"/console/tokens/99/rotate": http.StatusNotFound} {
		if page := b.Get(path); page.Code != want {
			t.Errorf("the form %s: %d, want %d", path, page.Code, want)
		}
		if page := b.Post(path, url.Values{"hours": {"1"}}); page.Code != want || page.Has("slk_") {
			t.Errorf("%s: %d, want %d", path, page.Code, want)
		}
	}
}
