// Package access has API tokens with their scopes, console accounts with their roles and
// passwords, and the decision whether a request is authorised.
//
// An example: `sluice token create ci --scopes check` creates a secret such as
// slk_Jx0…(43 characters), shows it once and stores its SHA-256. The secret of a request
// with "Authorization: Bearer slk_Jx0…" is hashed and its token is found in the Keyring.
// The request is rejected if the token is revoked or expired. The token permits
// ScopeCheck and does not permit ScopeRulesRead.
package access

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Scope is one permission of a token.
type Scope string

// The scopes. Admin includes every other; rules:write includes rules:read. Counters is separate from check because it
// allows changes to any bucket: resets, and refunds without a request_id. Deferred is separate from check because
// released requests contain the payloads of other clients. Other regions use Regions to send the units that they have
// spent.
const (
	ScopeCheck      Scope = "check"
	ScopeCounters   Scope = "counters"
	ScopeDeferred   Scope = "deferred"
	ScopeRegions    Scope = "regions"
	ScopeRulesRead  Scope = "rules:read"
	ScopeRulesWrite Scope = "rules:write"
	ScopeAdmin      Scope = "admin"
)

// Scopes lists every scope, from the narrowest to the widest.
func Scopes() []Scope {
	return []Scope{ScopeCheck, ScopeCounters, ScopeDeferred, ScopeRegions, ScopeRulesRead, ScopeRulesWrite, ScopeAdmin}
}

// Token is an API token as stored: the secret itself is shown once, at creation.
// It prints and logs without its hash.
type Token struct {
	// ID is assigned by the database and never reused; 0 before that.
	ID int64
	// Name is unique among the tokens that are neither revoked nor rotated.
	Name      string
	Hash      [32]byte `json:"-"` // SHA-256 of the secret
	Scopes    []Scope
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: never
	RevokedAt *time.Time // nil: in force
	// ReplacedAt is when the token was rotated, nil if it was not. It stays in force until ExpiresAt beside the token of
	// the same name that replaces it.
	ReplacedAt *time.Time
	// LastUse is the last use that was recorded, nil for none. Keyrings do not have it.
	LastUse *Use
	// Certificate: this is no stored token but stands for a client certificate, with its name and scopes.
	Certificate bool
	// Local: this is no stored token but the local secret of this run of the server.
	Local bool
}

// Permits reports whether the token's scopes include want. It ignores expiry and
// revocation, which Keyring.Find checks. An unknown scope is never permitted.
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

// InForce returns nil if the token is valid at now, else ErrRevoked or ErrExpired. A
// token is no longer valid at ExpiresAt itself.
func (t Token) InForce(now time.Time) error {
	if t.RevokedAt != nil {
		return ErrRevoked
	}
	if t.ExpiresAt != nil && !now.Before(*t.ExpiresAt) {
		return ErrExpired
	}
	return nil
}

const (
	// SoonExpires is how long before its end a token expires soon, and ownLife the shortest life of such a token: whoever
	// creates one for less than a day expects its end.
	SoonExpires = 14 * 24 * time.Hour
	ownLife     = 24 * time.Hour
)

// ExpiresSoon reports whether the token is in force at now and ends within SoonExpires, so that somebody must rotate
// it. That is false for a token that was rotated, and for one that was created for less than a day.
func (t Token) ExpiresSoon(now time.Time) bool {
	return t.InForce(now) == nil && t.ExpiresAt != nil && t.ReplacedAt == nil &&
		t.ExpiresAt.Sub(now) <= SoonExpires && t.ExpiresAt.Sub(t.CreatedAt) >= ownLife
}

// ErrNotRotatable says that a token was rotated already, or has expired.
var ErrNotRotatable = errors.New("only a token that is in force and was not rotated yet can be rotated")

// String returns the id, name and scopes of the token, for display and logs.
func (t Token) String() string {
	return fmt.Sprintf("token %d %q [%s]", t.ID, t.Name, FormatScopes(t.Scopes))
}

// GoString keeps the hash out of %#v.
func (t Token) GoString() string { return "access.Token{" + t.String() + "}" }

// LogValue keeps the hash out of structured logs.
func (t Token) LogValue() slog.Value {
	return slog.GroupValue(slog.Int64("id", t.ID), slog.String("name", t.Name),
		slog.String("scopes", FormatScopes(t.Scopes)))
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
// keeps their order. The error names the unknown scope and lists the allowed ones;
// at least one scope is required.
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
