package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"sync"
	"time"
)

// WelcomeLife is how long the link of the first start lets in.
const WelcomeLife = time.Hour

// Welcome is the one-time link by which the first account is made. It lives in
// the process that printed it, so a restart prints another. It is safe for
// concurrent use; a nil Welcome lets nobody in.
type Welcome struct {
	mu      sync.Mutex
	hash    [32]byte
	expires time.Time
	used    bool
}

// NewWelcome makes a link; secret is shown once and only its hash is kept.
func NewWelcome(now time.Time) (w *Welcome, secret string) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret = base64.RawURLEncoding.EncodeToString(raw[:])
	return &Welcome{hash: sha256.Sum256([]byte(secret)), expires: now.Add(WelcomeLife)}, secret
}

// Valid reports whether the secret would let in at now. Looking spends nothing:
// what fetches links ahead of people does not use them up.
func (w *Welcome) Valid(secret string, now time.Time) bool {
	if w == nil {
		return false
	}
	hash := sha256.Sum256([]byte(secret))
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.used && now.Before(w.expires) && subtle.ConstantTimeCompare(hash[:], w.hash[:]) == 1
}

// Use ends the link. The account was made by then: that there is one already is
// what really stops a second.
func (w *Welcome) Use() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.used = true
}

// WelcomePath is the path of the link on the server.
func WelcomePath(secret string) string { return pathWelcome + "?token=" + secret }
