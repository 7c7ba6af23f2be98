package access

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"time"
)

// Why someone is not let in by single sign-on.
var (
	// ErrProviderAway: the provider cannot be reached, or does not answer as one.
	ErrProviderAway = errors.New("the single sign-on provider is unavailable")
	// ErrIdentity: the provider's answer proves nothing.
	ErrIdentity = errors.New("the response of the single sign-on provider was rejected")
	// ErrNoRole: the provider says who it is, and nothing that leads to a role.
	ErrNoRole = errors.New("single sign-on gives this person no role")
	// ErrDisabled: the account is disabled.
	ErrDisabled = errors.New("the account is disabled")
	// ErrExternal refuses to change here what single sign-on says of an account.
	ErrExternal = errors.New("single sign-on manages the role and password of this account; they cannot be changed here")
)

// Identity is who someone is by the word of a provider of single sign-on. Issuer
// and Subject together are the one thing that names a person; Name may be anyone's.
type Identity struct {
	// Issuer is the provider, by its URL.
	Issuer string
	// Subject is the person at the provider, for ever the same; up to 255 bytes.
	Subject string
	// Name is one that a new account could get, as AccountName makes it.
	Name string
	// Role is the highest that Groups lead to, "" if they lead to none.
	Role Role
	// Groups are what the provider says of the person, for the operator's log.
	Groups []string
	// AuthTime is when the person last proved to the provider who they are; zero
	// if it does not say.
	AuthTime time.Time
}

// Challenge is what binds one attempt to sign in to one browser and one answer of
// the provider: three secrets of 256 random bits each. The zero value binds nothing.
type Challenge struct {
	// State returns through the browser, Nonce within the signed answer; Verifier
	// goes with the code (RFC 7636).
	State, Nonce, Verifier string
	// Fresh: the person must prove who they are now, not have done so before.
	Fresh bool
}

// NewChallenge makes a challenge. It cannot fail: without a source of randomness
// the process ends.
func NewChallenge(fresh bool) Challenge {
	return Challenge{State: random(), Nonce: random(), Verifier: random(), Fresh: fresh}
}

func random() string {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // crypto/rand.Read never returns an error
	return base64.RawURLEncoding.EncodeToString(raw[:])
}

// MaxName is the most bytes of an account's name.
const MaxName = 63

// AccountName turns what a provider calls someone into what an account can be
// called: small letters, digits and ._@-, beginning with a letter or digit, up to
// MaxName bytes. What does not fit becomes one dash; of nothing it makes "person".
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
