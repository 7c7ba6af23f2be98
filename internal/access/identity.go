package access

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"time"
)

// Errors of single sign-on.
var (
	// ErrProviderUnavailable: the provider is unreachable or its response is not valid.
	ErrProviderUnavailable = errors.New("the single sign-on provider is unavailable")
	// ErrIdentity: the response of the provider does not prove an identity.
	ErrIdentity = errors.New("the response of the single sign-on provider was rejected")
	// ErrNoRole: the groups of the person are mapped to no role.
	ErrNoRole = errors.New("single sign-on gives this person no role")
	// ErrDisabled: the account is disabled.
	ErrDisabled = errors.New("the account is disabled")
	// ErrExternal: single sign-on determines the role and password of the account.
	ErrExternal = errors.New("single sign-on manages the role and password of this account; they cannot be changed here")
)

// Identity is the identity of a person according to a single sign-on provider. Only
// Issuer and Subject together identify a person; several people can have the same Name.
type Identity struct {
	// Issuer is the URL of the provider.
	Issuer string
	// Subject identifies the person at the provider and never changes; up to 255 bytes.
	Subject string
	// Name is the name for a new account; see AccountName.
	Name string
	// Role is the highest role that Groups are mapped to, or "".
	Role Role
	// Groups are the groups of the person at the provider, for the log.
	Groups []string
	// AuthTime is when the person last authenticated to the provider; zero if unknown.
	AuthTime time.Time
}

// Challenge binds one sign-in attempt to one browser and one response of the provider,
// with three secrets of 256 random bits each.
type Challenge struct {
	// State returns through the browser, Nonce within the signed answer; Verifier
	// goes with the code (RFC 7636).
	State, Nonce, Verifier string
	// Fresh means that the person must authenticate again now.
	Fresh bool
}

// NewChallenge returns a new challenge with random secrets.
func NewChallenge(fresh bool) Challenge {
	return Challenge{State: random(), Nonce: random(), Verifier: random(), Fresh: fresh}
}

func random() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// MaxName is the maximum length of an account name, in bytes.
const MaxName = 63

// AccountName converts the name of a person at a provider to a valid account name:
// lower-case letters, digits and ._@-, starting with a letter or digit, up to MaxName
// bytes. Other characters become one dash. An empty result becomes "person".
func AccountName(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		ok := r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || b.Len() > 0 && strings.ContainsRune("._@-", r)
		switch {
		case ok:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == MaxName {
			break
		}
	}
	if name := strings.TrimRight(b.String(), "-"); name != "" {
		return name
	}
	return "person"
}
