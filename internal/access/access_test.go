package access

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPermits_WiderScopesIncludeNarrower(t *testing.T) {
	tests := []struct {
		have []Scope
		want map[Scope]bool
	}{
		{[]Scope{ScopeCheck}, map[Scope]bool{ScopeCheck: true}},
		{[]Scope{ScopeCounters}, map[Scope]bool{ScopeCounters: true}},
		{[]Scope{ScopeDeferred}, map[Scope]bool{ScopeDeferred: true}},
		{[]Scope{ScopeRegions}, map[Scope]bool{ScopeRegions: true}},
		{[]Scope{ScopeRulesRead}, map[Scope]bool{ScopeRulesRead: true}},
		{[]Scope{ScopeRulesWrite}, map[Scope]bool{ScopeRulesRead: true, ScopeRulesWrite: true}},
		{[]Scope{ScopeAdmin}, map[Scope]bool{ScopeCheck: true, ScopeCounters: true, ScopeDeferred: true, ScopeRegions: true,
			ScopeRulesRead: true, ScopeRulesWrite: true, ScopeAdmin: true}},
		{[]Scope{ScopeCheck, ScopeRulesRead}, map[Scope]bool{ScopeCheck: true, ScopeRulesRead: true}},
		{nil, nil},
	}
	for _, tt := range tests {
		for _, s := range append(Scopes(), "", "nonsense") {
			if got := (Token{Scopes: tt.have}).Permits(s); got != tt.want[s] {
				t.Errorf("%v permits %q: got %v, want %v", tt.have, s, got, tt.want[s])
			}
		}
	}
}

func TestParseScopes(t *testing.T) {
	tests := []struct {
		text string
		want []Scope
		err  string
	}{
		{"check", []Scope{ScopeCheck}, ""},
		{"check,rules:read", []Scope{ScopeCheck, ScopeRulesRead}, ""},
		{" rules:write  check, check ", []Scope{ScopeRulesWrite, ScopeCheck}, ""},
		{"", nil, "allowed: check, counters, deferred, regions, rules:read, rules:write, admin"},
		{" , ", nil, "at least one scope is required"},
		{"check,Admin", nil, `unknown scope "Admin"; allowed: check, counters, deferred, regions, rules:read, rules:write, admin`},
	}
	for _, tt := range tests {
		got, err := ParseScopes(tt.text)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseScopes(%q): %s", tt.text, diff)
		}
		if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("ParseScopes(%q): got error %v, want %q", tt.text, err, tt.err)
		}
	}
	round, err := ParseScopes(FormatScopes(Scopes()))
	if err != nil || !cmp.Equal(round, Scopes()) {
		t.Errorf("ParseScopes(FormatScopes(all)): got %v, %v", round, err)
	}
}

func TestNewSecret_HasItsShapeAndNeverRepeats(t *testing.T) {
	shape := regexp.MustCompile(`^slk_[A-Za-z0-9_-]{43}$`)
	seen := map[string]bool{}
	for range 1000 {
		secret, hash := NewSecret()
		if !shape.MatchString(secret) || !LooksLikeSecret(secret) {
			t.Fatalf("secret of the wrong shape, %d bytes", len(secret))
		}
		if hash != Hash(secret) {
			t.Fatal("the hash is not the secret's")
		}
		if seen[secret] {
			t.Fatal("a secret came twice")
		}
		seen[secret] = true
	}
}

func TestKeyring_FindsOnlyTokensInForce(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { x := now.Add(d); return &x }
	secrets := map[string]string{}
	var tokens []Token
	for i, tok := range []Token{
		{Name: "live"},
		{Name: "later", ExpiresAt: at(time.Millisecond)},
		{Name: "expired", ExpiresAt: at(-time.Millisecond)},
		{Name: "expires now", ExpiresAt: at(0)},
		{Name: "revoked", RevokedAt: at(-time.Hour)},
		{Name: "revoked and expired", RevokedAt: at(-time.Hour), ExpiresAt: at(-time.Minute)},
	} {
		secret, hash := NewSecret()
		secrets[tok.Name] = secret
		tok.ID, tok.Hash = int64(i+1), hash
		tokens = append(tokens, tok)
	}
	k := NewKeyring(tokens)
	want := map[string]error{
		"live": nil, "later": nil, "expired": ErrExpired, "expires now": ErrExpired,
		"revoked": ErrRevoked, "revoked and expired": ErrRevoked,
	}
	for name, wantErr := range want {
		got, err := k.Find(secrets[name], now)
		if !errors.Is(err, wantErr) {
			t.Errorf("%s: got %v, want %v", name, err, wantErr)
		}
		if wantErr == nil && got.Name != name || wantErr != nil && got.Name != "" {
			t.Errorf("%s: got token %q", name, got.Name)
		}
	}
	if got, want := k.Live(now), 2; got != want {
		t.Errorf("Live: got %d, want %d", got, want)
	}
	other, _ := NewSecret()
	live := secrets["live"]
	for _, bad := range []string{"", "slk_", other, live + "x", live[:len(live)-1], strings.ToUpper(live), " " + live,
		string(tokens[0].Hash[:])} {
		if got, err := k.Find(bad, now); !errors.Is(err, ErrUnknown) || got.Name != "" {
			t.Errorf("a wrong secret of %d bytes: got %v, %v", len(bad), got, err)
		}
	}
}

func TestKeyring_OpenOnlyBeforeTheFirstToken(t *testing.T) {
	revoked := time.Unix(1, 0)
	tests := []struct {
		name string
		k    *Keyring
		open bool
		len  int
	}{
		{"not loaded", nil, false, 0},
		{"no token", NewKeyring(nil), true, 0},
		{"one token", NewKeyring([]Token{{ID: 1}}), false, 1},
		{"only a revoked token", NewKeyring([]Token{{ID: 1, RevokedAt: &revoked}}), false, 1},
	}
	for _, tt := range tests {
		if tt.k.Open() != tt.open || tt.k.Len() != tt.len {
			t.Errorf("%s: got Open %v Len %d", tt.name, tt.k.Open(), tt.k.Len())
		}
	}
	if _, err := (*Keyring)(nil).Find("slk_x", time.Now()); !errors.Is(err, ErrUnknown) {
		t.Errorf("nil keyring: got %v", err)
	}
	if got := (*Keyring)(nil).Live(time.Now()); got != 0 {
		t.Errorf("nil keyring: Live %d", got)
	}
}

func TestToken_NeverPrintsItsHash(t *testing.T) {
	secret, hash := NewSecret()
	tok := Token{ID: 3, Name: "ci", Hash: hash, Scopes: []Scope{ScopeCheck, ScopeRulesRead}}
	if got, want := tok.String(), `token 3 "ci" [check,rules:read]`; got != want {
		t.Errorf("String: got %s, want %s", got, want)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("used", "token", tok)
	encoded, err := json.Marshal(tok)
	if err != nil {
		t.Fatal(err)
	}
	out := fmt.Sprintf("%v %+v %#v %s %v", tok, tok, tok, tok, &tok) + log.String() + string(encoded)
	for _, leak := range []string{secret, secret[4:20], hex.EncodeToString(hash[:]), fmt.Sprint(hash)} {
		if strings.Contains(out, leak) {
			t.Errorf("output leaks the secret or its hash: %s", out)
		}
	}
}

func TestCurrent_SwapsUnderReaders(t *testing.T) {
	var c Current
	if c.Load() != nil {
		t.Fatal("zero Current holds a keyring")
	}
	secret, hash := NewSecret()
	with, without := NewKeyring([]Token{{ID: 1, Hash: hash}}), NewKeyring(nil)
	c.Store(with)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				k := c.Load()
				_, err := k.Find(secret, time.Unix(0, 0))
				if (err == nil) != (k.Len() == 1) {
					t.Errorf("torn keyring: %v with %d tokens", err, k.Len())
				}
			}
		})
	}
	for range 500 {
		c.Store(without)
		c.Store(with)
	}
	wg.Wait()
}
