package access

import (
	"crypto/subtle"
	"errors"
	"sync/atomic"
	"time"
)

// Why a secret is rejected. Every face responds with 401 to all three.
var (
	// ErrUnknown: no token has this secret.
	ErrUnknown = errors.New("unknown token")
	// ErrExpired: the token has expired.
	ErrExpired = errors.New("token has expired")
	// ErrRevoked: the token was revoked.
	ErrRevoked = errors.New("token was revoked")
)

// Keyring contains all tokens, indexed for lookup. It is immutable and safe for
// concurrent use. A nil Keyring has no token and is not Open.
type Keyring struct {
	byHash map[[32]byte]Token
}

// NewKeyring returns a Keyring of tokens. They include revoked and expired ones, for
// exact errors and because they make Open false.
func NewKeyring(tokens []Token) *Keyring {
	k := &Keyring{byHash: make(map[[32]byte]Token, len(tokens))}
	for _, t := range tokens {
		k.byHash[t.Hash] = t
	}
	return k
}

// Find returns the token of a secret if it is valid at now, else ErrUnknown, ErrExpired
// or ErrRevoked. It looks up the hash of the secret and compares it in constant time, so
// that timing reveals nothing about the secret.
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

// Open reports whether no token was ever created, so that a loopback listener may serve
// requests without credentials. Revoked tokens count as created.
func (k *Keyring) Open() bool { return k != nil && len(k.byHash) == 0 }

// Len returns the number of tokens, valid or not.
func (k *Keyring) Len() int {
	if k == nil {
		return 0
	}
	return len(k.byHash)
}

// Live returns the number of tokens that are valid at now.
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

// Current holds the keyring in force. It is safe for concurrent use. The zero value has
// no keyring.
type Current struct{ p atomic.Pointer[Keyring] }

// Load returns the keyring in force, or nil before the first Store.
func (c *Current) Load() *Keyring { return c.p.Load() }

// Store puts a keyring in force.
func (c *Current) Store(k *Keyring) { c.p.Store(k) }
