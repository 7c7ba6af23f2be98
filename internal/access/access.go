// Package access holds API tokens and their scopes: how they look, how they are
// hashed at rest, and what each scope permits.
package access

import "time"

// Scope is one permission of a token.
type Scope string

// The scopes. Admin includes every other; rules:write includes rules:read.
const (
	ScopeCheck      Scope = "check"
	ScopeRulesRead  Scope = "rules:read"
	ScopeRulesWrite Scope = "rules:write"
	ScopeAdmin      Scope = "admin"
)

// Token is an API token as stored: the secret itself is shown once, at creation.
type Token struct {
	ID        int64
	Name      string
	Hash      [32]byte // SHA-256 of the secret
	Scopes    []Scope
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt *time.Time // nil: never
	RevokedAt *time.Time // nil: in force
	LastUsed  *time.Time // nil: never, or not recorded
}
