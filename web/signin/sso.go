package signin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"

	"sluice/internal/access"
	"sluice/web/kit"
)

// ssoLife is how long someone may take at the provider.
const ssoLife = 10 * time.Minute

// ssoAttempt is one way to the provider and back, kept in the session of the
// browser that goes it.
type ssoAttempt struct {
	access.Challenge
	// At is when it began, in ms.
	At int64
	// Next is the page to go on with.
	Next string
	// User is who, being signed in, has to prove it once more; 0 to sign in.
	User int64
}

// attemptField is where the session keeps an attempt.
const attemptField = "sso"

// putAttempt keeps an attempt in the session.
func putAttempt(v *kit.Visit, a ssoAttempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return v.Stash(attemptField, string(text), ssoLife)
}

// attemptNow is the attempt under way; found is false if there is none, or it took
// too long, or somebody else has signed in since.
func (p *Pages) attemptNow(v *kit.Visit) (a ssoAttempt, found bool) {
	text := v.Stashed(attemptField)
	if text == "" || json.Unmarshal([]byte(text), &a) != nil {
		return ssoAttempt{}, false
	}
	age := p.Now().Sub(time.UnixMilli(a.At))
	return a, a.State != "" && age >= 0 && age < ssoLife && (a.User == 0 || a.User == v.User.ID)
}

// takeAttempt is attemptNow, once: whatever comes of it, it is gone from the stored
// session before this returns.
func (p *Pages) takeAttempt(v *kit.Visit) (a ssoAttempt, found bool, err error) {
	a, found = p.attemptNow(v)
	return a, found, v.Unstash(attemptField)
}

// ssoRefused is the page of an attempt that leads nowhere. said is what the
// provider said, which anybody may have written.
func (p *Pages) ssoRefused(v *kit.Visit, why *kit.Problem, said string) error {
	m := SSORefused{Title: why.Title, Detail: why.Detail, Said: quotable(said), Name: p.SSOName(), SignedIn: v.User.ID != 0}
	return v.Page(why.Status, ssoRefusedPage(v.Frame(why.Title, ""), m))
}

// quotable is a text of someone else's, fit to be shown: 300 characters on a line.
func quotable(text string) string {
	n := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if n++; n > 300 || r == unicode.ReplacementChar || !unicode.IsPrint(r) && r != ' ' {
			return -1
		}
		return r
	}, text))
}

// Why an attempt leads nowhere.
var (
	errSSOOver = &kit.Problem{Status: http.StatusBadRequest, Title: "This sign-in is over",
		Detail: "It took more than ten minutes, it was finished already, or it began in another browser. Begin again."}
	errSSOAway = &kit.Problem{Status: http.StatusServiceUnavailable, Title: "The provider does not answer",
		Detail: "Single sign-on has to wait until it does; the reason is in the log. Accounts with a password can sign in meanwhile."}
	errSSOIdentity = &kit.Problem{Status: http.StatusForbidden, Title: "Not accepted",
		Detail: "What the provider sent does not prove who you are. The reason is in the log. Begin again, and tell an admin if this stays."}
	errSSORefused  = &kit.Problem{Status: http.StatusForbidden, Title: "The provider did not let you in", Detail: "It ended the sign-in. This is what it said:"}
	errSSODisabled = &kit.Problem{Status: http.StatusForbidden, Title: "Kept out", Detail: "An admin has disabled your account here."}
	errSSOOther    = &kit.Problem{Status: http.StatusForbidden, Title: "That was someone else",
		Detail: "You proved to be someone else than who is signed in here, so nothing has changed. Sign out first to go on as them."}
	errSSOStale = &kit.Problem{Status: http.StatusForbidden, Title: "Not confirmed",
		Detail: "The provider did not ask you again who you are, or does not say when it last did, so nothing has changed."}
)

// ssoFailed is the page of an error that is none of this server's own; any other
// error is returned as it is.
func (p *Pages) ssoFailed(v *kit.Visit, err error) error {
	switch {
	case errors.Is(err, access.ErrProviderAway):
		p.Logger.Warn("the provider of single sign-on does not answer", "error", err)
		return p.ssoRefused(v, errSSOAway, "")
	case errors.Is(err, access.ErrIdentity):
		p.Logger.Warn("refused the answer of single sign-on", "error", err, "address", v.RealIP())
		return p.ssoRefused(v, errSSOIdentity, "")
	case errors.Is(err, access.ErrDisabled):
		return p.ssoRefused(v, errSSODisabled, "")
	}
	if status, message := kit.Refusal(err); status != 0 {
		v.RetryAfter(err)
		return p.ssoRefused(v, &kit.Problem{Status: status, Title: "Too many attempts", Detail: message}, "")
	}
	return err
}

// SSORefused is the page of a sign-in elsewhere that leads nowhere. Said, if not
// "", is what was said there, by whoever.
type SSORefused struct {
	Title, Detail, Said string
	// Name is what the button calls the provider.
	Name     string
	SignedIn bool
}
