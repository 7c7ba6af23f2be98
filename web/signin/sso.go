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
	errSSOOver = &kit.Problem{Status: http.StatusBadRequest, Title: "This sign-in has expired",
		Detail: "It took more than ten minutes, was already completed, or was started in another browser. Start again."}
	errSSOAway = &kit.Problem{Status: http.StatusServiceUnavailable, Title: "The provider is unreachable",
		Detail: "Single sign-on works again as soon as the provider responds. The log has the reason. Accounts with a password can still sign in."}
	errSSOIdentity = &kit.Problem{Status: http.StatusForbidden, Title: "Sign-in rejected",
		Detail: "The provider's response does not prove who you are. The log has the reason. Try again, and tell an administrator if this keeps happening."}
	errSSORefused  = &kit.Problem{Status: http.StatusForbidden, Title: "The provider rejected the sign-in", Detail: "The provider's message:"}
	errSSODisabled = &kit.Problem{Status: http.StatusForbidden, Title: "Account disabled", Detail: "An administrator disabled your account here."}
	errSSOOther    = &kit.Problem{Status: http.StatusForbidden, Title: "Different account",
		Detail: "You signed in with a different account than the one in use here, so nothing was changed. To switch accounts, sign out first."}
	errSSOStale = &kit.Problem{Status: http.StatusForbidden, Title: "Not confirmed",
		Detail: "The provider did not ask you to sign in again, or did not report when it last did, so nothing was changed."}
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
