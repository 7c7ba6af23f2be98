package access

import (
	"crypto/subtle"
	"errors"
	"sync/atomic"
	"time"
)

// Why a secret is refused. Surfaces answer 401 to all three alike.
var (
	// ErrUnknown: no token has this secret.
	ErrUnknown = errors.New("unknown token")
	// ErrExpired: the token's time is over.
	ErrExpired = errors.New("token has expired")
	// ErrRevoked: the token was revoked.
	ErrRevoked = errors.New("token was revoked")
)

// Keyring is all tokens, compiled for lookup and immutable, so that any number
// of goroutines may use it. A nil Keyring knows no token and is not Open.
type Keyring struct {
	byHash map[[32]byte]Token
}

// NewKeyring compiles tokens. Give it revoked and expired ones too: they make
// the errors exact, and they keep Open false.
func NewKeyring(tokens []Token) *Keyring {
	k := &Keyring{byHash: make(map[[32]byte]Token, len(tokens))}
	for _, t := range tokens {
		k.byHash[t.Hash] = t
	}
	return k
}

// Find gives the token of a secret that may be used at now, else ErrUnknown,
// ErrExpired or ErrRevoked. Only the secret's hash is ever looked up and
// compared, the latter in constant time, so timing tells nothing of use.
func (k *Keyring) Find(secret string, now time.Time) (Token, error) {
	if k == nil || !LooksLikeSecret(secret) {
		return Token{}, ErrUnknown
	}
	hash := Hash(secret)
	t, ok := k.byHash[hash]
	if !ok || subtle.ConstantTimeCompare(t.Hash[:], hash[:]) != 1 {
		return Token{}, ErrUnknown
	}
	if err := t.InForce(now); err != nil {
		return Token{}, err
	}
	return t, nil
}

// Open reports that no token was ever made, so that a loopback listener may
// serve without credentials. A revoked token still counts as made.
func (k *Keyring) Open() bool { return k != nil && len(k.byHash) == 0 }

// Len is how many tokens there are, in force or not.
func (k *Keyring) Len() int {
	if k == nil {
		return 0
	}
	return len(k.byHash)
}

// Live is how many tokens may be used at now.
func (k *Keyring) Live(now time.Time) int {
	if k == nil {
		return 0
	}
	n := 0
	for _, t := range k.byHash {
		if t.InForce(now) == nil {
			n++
		}
	}
	return n
}

// Current holds the keyring in force; one pointer is swapped. The zero value
// holds none, which refuses everyone.
type Current struct{ p atomic.Pointer[Keyring] }

// Load returns the keyring in force, nil before the first Store.
func (c *Current) Load() *Keyring { return c.p.Load() }

// Store puts a keyring in force.
func (c *Current) Store(k *Keyring) { c.p.Store(k) }
