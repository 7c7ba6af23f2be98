package sso_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"sluice/internal/access"
	"sluice/internal/sso"
	"sluice/internal/sso/ssotest"
)

func TestGroups_AreWhereTheSettingSays(t *testing.T) {
	list := func(names ...any) []any { return names }
	for name, tt := range map[string]struct {
		claim  string
		claims map[string]any
		want   []string
	}{
		"a list":            {"groups", map[string]any{"groups": list("a", "b")}, []string{"a", "b"}},
		"one text":          {"groups", map[string]any{"groups": "a"}, []string{"a"}},
		"a list with other": {"groups", map[string]any{"groups": list("a", 7, nil, list("b"))}, []string{"a"}},
		"a path": {"realm_access.roles", map[string]any{"realm_access": map[string]any{"roles": list("a")}},
			[]string{"a"}},
		"a name with dots": {"https://x.example/groups", map[string]any{"https://x.example/groups": list("a")},
			[]string{"a"}},
		"an exact name first": {"a.b", map[string]any{"a.b": "one", "a": map[string]any{"b": "two"}}, []string{"one"}},
		"a number":            {"groups", map[string]any{"groups": 7}, nil},
		"an object":           {"groups", map[string]any{"groups": map[string]any{"admins": true}}, nil},
		"none":                {"groups", nil, nil},
		"a verified address": {"email", map[string]any{"email": "ada@example.com", "email_verified": true},
			[]string{"ada@example.com"}},
		"verified in words": {"email", map[string]any{"email": "ada@example.com", "email_verified": "true"},
			[]string{"ada@example.com"}},
		"an unverified address":  {"email", map[string]any{"email": "ada@example.com", "email_verified": false}, nil},
		"an address, no more":    {"email", map[string]any{"email": "ada@example.com"}, nil},
		"the domain of a tenant": {"hd", map[string]any{"hd": "example.com"}, []string{"example.com"}},
	} {
		p := newPair(t, func(o *sso.Options) { o.Claim = tt.claim })
		claims := map[string]any{"sub": "s-1"}
		for k, v := range tt.claims {
			claims[k] = v
		}
		p.Claims(claims)
		if id, err := p.signIn(t); err != nil || !slices.Equal(id.Groups, tt.want) {
			t.Errorf("%s: %q, %v, want %q", name, id.Groups, err, tt.want)
		}
	}
}

func TestGroups_MayStandInTheUserInfoAlone(t *testing.T) {
	p := newPair(t, nil)
	p.Claims(map[string]any{"sub": "s-1"})
	p.Info(map[string]any{"sub": "s-1", "groups": []any{"admins"}, "preferred_username": "ada"})
	if id, err := p.signIn(t); err != nil || id.Role != access.RoleAdmin || id.Name != "ada" {
		t.Errorf("got %+v, %v", id, err)
	}
	p.Info(map[string]any{"sub": "s-2", "groups": []any{"admins"}})
	if id, err := p.signIn(t); !errors.Is(err, access.ErrIdentity) {
		t.Errorf("about someone else: %+v, %v", id, err)
	}
	p.Claims(map[string]any{"sub": "s-1", "groups": []any{"staff"}})
	if id, err := p.signIn(t); err != nil || id.Role != access.RoleViewer {
		t.Errorf("the ID token says groups already: %+v, %v", id, err)
	}
	p.Claims(map[string]any{"sub": "s-1"})
	for status, want := range map[int]error{http.StatusForbidden: access.ErrIdentity,
		http.StatusBadGateway: access.ErrProviderUnavailable} {
		p.Instead("/userinfo", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		if _, err := p.signIn(t); !errors.Is(err, want) {
			t.Errorf("status %d: %v", status, err)
		}
	}
}

func TestGroups_AnAddressIsVerifiedByWhoSaysIt(t *testing.T) {
	p := newPair(t, func(o *sso.Options) { o.Claim = "email" })
	p.Claims(map[string]any{"sub": "s-1", "email_verified": true})
	p.Info(map[string]any{"sub": "s-1", "email": "ada@example.com"})
	if id, err := p.signIn(t); err != nil || len(id.Groups) != 0 {
		t.Errorf("verified was another: %q, %v", id.Groups, err)
	}
	p.Info(map[string]any{"sub": "s-1", "email": "ada@example.com", "email_verified": true})
	if id, err := p.signIn(t); err != nil || !slices.Equal(id.Groups, []string{"ada@example.com"}) {
		t.Errorf("both of the user info: %q, %v", id.Groups, err)
	}
}

func TestAuthTime_IsANumberOfSeconds(t *testing.T) {
	p := newPair(t, nil)
	for name, value := range map[string]any{"text": "1800000000", "negative": -5, "huge": 1e300, "none": nil} {
		p.Spoil(func(t *ssotest.Token) { t.Claims["auth_time"] = value })
		if id, err := p.signIn(t); err != nil || !id.AuthTime.IsZero() {
			t.Errorf("%s: %v, %v", name, id.AuthTime, err)
		}
	}
}
