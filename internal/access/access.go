// Package access holds API tokens and their scopes: how they look, how they are
// hashed at rest, and what each scope permits.
//
// A worked example. `sluice token create --name ci --scopes check` makes a
// secret such as slk_Jx0…(43 characters), shows it once and stores its SHA-256.
// A request that brings "Authorization: Bearer slk_Jx0…" is hashed, found in the
// Keyring, refused if the token is revoked or expired, and then asked
// Permits(ScopeCheck): yes; Permits(ScopeRulesRead): no.
package access

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Scope is one permission of a token.
type Scope string

// The scopes. Admin includes every other; rules:write includes rules:read.
// Counters is apart from check, because it changes anybody's buckets: it permits
// resets, and refunds that name no request. Deferred is apart from check, because
// what it releases carries the payloads of other callers.
const (
	ScopeCheck      Scope = "check"
	ScopeCounters   Scope = "counters"
	ScopeDeferred   Scope = "deferred"
	ScopeRulesRead  Scope = "rules:read"
	ScopeRulesWrite Scope = "rules:write"
	ScopeAdmin      Scope = "admin"
)

// Scopes lists every scope, from the narrowest to the widest.
func Scopes() []Scope {
	return []Scope{ScopeCheck, ScopeCounters, ScopeDeferred, ScopeRulesRead, ScopeRulesWrite, ScopeAdmin}
}

// Token is an API token as stored: the secret itself is shown once, at creation.
// It prints and logs without its hash.
type Token struct {
	// ID is given by the database and never reused; 0 before that.
	ID int64
	// Name is unique among the tokens in force.
	Name      string
	Hash      [32]byte `json:"-"` // SHA-256 of the secret
	Scopes    []Scope
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: never
	RevokedAt *time.Time // nil: in force
	LastUsed  *time.Time // nil: never, or not recorded
}

// Permits reports whether the token's scopes include want. It does not look at
// expiry or revocation; Keyring.Find does. An unknown scope is never permitted.
func (t Token) Permits(want Scope) bool {
	if !slices.Contains(Scopes(), want) {
		return false
	}
	for _, have := range t.Scopes {
		if have == want || have == ScopeAdmin {
			return true
		}
		if have == ScopeRulesWrite && want == ScopeRulesRead {
			return true
		}
	}
	return false
}

// InForce is nil when the token may be used at now, else ErrRevoked or
// ErrExpired. A token expires at ExpiresAt itself, not after it.
func (t Token) InForce(now time.Time) error {
	if t.RevokedAt != nil {
		return ErrRevoked
	}
	if t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) {
		return ErrExpired
	}
	return nil
}

// String names the token for people and logs: id, name and scopes.
func (t Token) String() string {
	return fmt.Sprintf("token %d %q [%s]", t.ID, t.Name, FormatScopes(t.Scopes))
}

// GoString keeps the hash out of %#v.
func (t Token) GoString() string { return "access.Token{" + t.String() + "}" }

// LogValue keeps the hash out of structured logs.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("id", t.ID), slog.String("name", t.Name), slog.String("scopes", FormatScopes(t.Scopes)))
}

// FormatScopes joins scopes with commas, as ParseScopes reads them.
func FormatScopes(scopes []Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

// ParseScopes reads scopes separated by commas or spaces, drops duplicates and
// keeps their order. The error names the bad scope and lists the allowed ones;
// at least one scope is needed.
func ParseScopes(text string) ([]Scope, error) {
	var scopes []Scope
	for _, name := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' }) {
		s := Scope(name)
		if !slices.Contains(Scopes(), s) {
			return nil, fmt.Errorf("unknown scope %q; allowed: %s", name, allowedScopes())
		}
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	if len(scopes) == 0 {
		return nil, fmt.Errorf("at least one scope is required; allowed: %s", allowedScopes())
	}
	return scopes, nil
}

func allowedScopes() string {
	return strings.ReplaceAll(FormatScopes(Scopes()), ",", ", ")
}
