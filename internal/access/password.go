package access

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// Limits of a password.
const (
	// MinPassword is in characters.
	MinPassword = 12
	// MaxPassword is in bytes. It bounds the cost of hashing.
	MaxPassword = 256
)

// Cost of a hash: the second of the equivalent settings that the OWASP password
// storage cheat sheet names for Argon2id, 19 MiB and two passes.
const (
	argonMemory  = 19 * 1024 // KiB
	argonPasses  = 2
	argonThreads = 1
	saltLen      = 16
	hashLen      = 32
)

// Errors of CheckNewPassword; their text completes "password …".
var (
	ErrPasswordShort   = fmt.Errorf("must have at least %d characters", MinPassword)
	ErrPasswordLong    = fmt.Errorf("must have at most %d bytes", MaxPassword)
	ErrPasswordText    = errors.New("must be valid UTF-8")
	ErrPasswordObvious = errors.New("must not be the account's name or one character repeated")
	ErrPasswordCommon  = errors.New("must not be one of the most common passwords, which attackers try first; use " +
		"several unrelated words")
)

// CheckNewPassword returns nil if the account with that name may have the password. It must be
// long enough and not easily guessed; there are no rules about kinds of characters.
func CheckNewPassword(name, password string) error {
	switch {
	case !utf8.ValidString(password):
		return ErrPasswordText
	case len(password) > MaxPassword:
		return ErrPasswordLong
	case utf8.RuneCountInString(password) < MinPassword:
		return ErrPasswordShort
	case strings.EqualFold(password, name), strings.Count(password, password[:1]) == len(password):
		return ErrPasswordObvious
	case isCommon(password):
		return ErrPasswordCommon
	}
	return nil
}

// Hasher hashes passwords, a few at a time; other callers wait in a bounded queue. Use
// one in a process. It is safe for concurrent use.
type Hasher struct {
	queue hashQueue
	// derive is argon2.IDKey, unless a test stands in its way.
	derive func(password, salt []byte, passes, memory uint32, threads uint8, n uint32) []byte
}

// NewHasher returns a new Hasher.
func NewHasher() *Hasher { return &Hasher{derive: argon2.IDKey} }

// HashPassword returns the hash of a password to store: Argon2id with a new salt, in PHC
// string form ($argon2id$v=19$m=19456,t=2,p=1$salt$hash). The error is
// ErrBusy, or the cause of the end of ctx if it ended before the hashing began.
func (h *Hasher) HashPassword(ctx context.Context, lane Lane, password string) (string, error) {
	salt := make([]byte, saltLen)
	_, _ = rand.Read(salt) // crypto/rand.Read never returns an error
	hash, err := h.argon(ctx, lane, password, parsedHash{
		memory: argonMemory, passes: argonPasses, threads: argonThreads, salt: salt, hash: make([]byte, hashLen),
	})
	if err != nil {
		return "", err
	}
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, argonMemory, argonPasses, argonThreads,
		b64.EncodeToString(salt), b64.EncodeToString(hash)), nil
}

// decoy replaces the hash of an account that does not exist, so that rejecting an unknown name takes as long as
// rejecting a wrong password.
const decoy = "$argon2id$v=19$m=19456,t=2,p=1$c2x1aWNlLWRlY295LXNhbA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// CheckPassword reports whether a password has this hash. An empty or invalid hash takes
// the same time and matches no password. The error is ErrBusy, or the cause of the end of ctx
// if it ended before the hashing began; then nothing was compared.
func (h *Hasher) CheckPassword(ctx context.Context, lane Lane, hash, password string) (bool, error) {
	if len(password) > MaxPassword {
		password = password[:MaxPassword] // no stored password is longer; bound the cost
		hash = ""
	}
	p, broken := parseHash(hash)
	if broken != nil {
		p, _ = parseHash(decoy)
	}
	got, err := h.argon(ctx, lane, password, p)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, p.hash) == 1 && broken == nil, nil
}

// argon waits in the queue and hashes a password with the salt, costs and hash length
// of p.
func (h *Hasher) argon(ctx context.Context, lane Lane, password string, p parsedHash) ([]byte, error) {
	if err := h.queue.enter(ctx, lane); err != nil {
		return nil, err
	}
	defer h.queue.leave()
	return h.derive([]byte(password), p.salt, p.passes, p.memory, p.threads, uint32(len(p.hash))), nil
}

type parsedHash struct {
	memory, passes uint32
	threads        uint8
	salt, hash     []byte
}

var errHash = errors.New("not an argon2id hash")

// parseHash parses the PHC form. It rejects costs of more than four times the current
// ones, so that a manually edited row cannot exhaust the process.
func parseHash(text string) (p parsedHash, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, errHash
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.threads); err != nil {
		return p, errHash
	}
	if p.memory < 8 || p.memory > 4*argonMemory || p.passes < 1 || p.passes > 4*argonPasses || p.threads < 1 ||
		p.threads > 4 {
		return p, errHash
	}
	if p.salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil || len(p.salt) < 8 {
		return p, errHash
	}
	if p.hash, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(p.hash) < 16 || len(p.hash) > 64 {
		return p, errHash
	}
	return p, nil
}
