package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"
)

// SecretPrefix begins every secret, so that scanners of leaked credentials (and
// Sluice's own redaction) can tell one.
const SecretPrefix = "slk_"

// secretLen is the length of a secret: the prefix and 32 random bytes in
// base64url without padding.
const secretLen = len(SecretPrefix) + 43

// NewSecret makes a secret of 256 random bits and its hash. The secret is shown
// to its owner once; only the hash is stored. It cannot fail: without a source
// of randomness the process ends.
func NewSecret() (secret string, hash [32]byte) {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	secret = SecretPrefix + base64.RawURLEncoding.EncodeToString(raw[:])
	return secret, Hash(secret)
}

// Hash is what is stored of a secret: its SHA-256. A plain hash is enough,
// because a secret has 256 random bits and cannot be guessed.
func Hash(secret string) [32]byte { return sha256.Sum256([]byte(secret)) }

// LooksLikeSecret reports whether text has the shape of a secret. It says
// nothing about whether such a token exists.
func LooksLikeSecret(text string) bool {
	return len(text) == secretLen && strings.HasPrefix(text, SecretPrefix)
}
