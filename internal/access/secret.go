package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// SecretPrefix is the prefix of every secret, so that scanners for leaked credentials,
// and the redaction of Sluice, can recognise it.
const SecretPrefix = "slk_"

// secretLen is the length of a secret: the prefix and 32 random bytes in
// base64url without padding.
const secretLen = len(SecretPrefix) + 43

// NewSecret returns a new secret of 256 random bits and its hash. The secret is shown to
// its owner once; only the hash is stored.
func NewSecret() (secret string, hash [32]byte) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret = SecretPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return secret, Hash(secret)
}

// Hash returns the hash of a secret to store, its SHA-256. A fast hash is enough, because
// a secret of 256 random bits cannot be guessed.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// LooksLikeSecret reports whether text has the form of a secret, whether or not such a
// token exists.
func LooksLikeSecret(text string) bool {
	return len(text) == secretLen && strings.HasPrefix(text, SecretPrefix)
}
