package signin

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"sluice/internal/access"
	"sluice/rules/chars"
	"sluice/web/kit"
)

// ssoLife is how long a sign-in at the provider may take.
const ssoLife = 10 * time.Minute

// ssoAttempt is a sign-in at the provider, stored in the session of the browser.
type ssoAttempt struct {
	access.Challenge
	// At is the start, in ms.
	At int64
	// Next is the page to return to.
	Next string
	// User is the signed-in account that has to confirm its identity; 0 to sign in.
	User int64
}

// attemptField is the session key of an attempt.
const attemptField = "sso"

// putAttempt stores an attempt in the session.
func putAttempt(v *kit.Visit, a ssoAttempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	return v.Stash(attemptField, string(text), ssoLife)
}

// currentAttempt returns the attempt of the session. found is false if there is none, it has expired, or someone else
// has signed in since.
func (p *Pages) currentAttempt(v *kit.Visit) (a ssoAttempt, found bool) {
	text := v.Stashed(attemptField)
	if text == "" || json.Unmarshal([]byte(text), &a) != nil {
		return ssoAttempt{}, false
	}
	age := p.Now().Sub(time.UnixMilli(a.At))
	return a, a.State != "" && age >= 0 && age < ssoLife && (a.User == 0 || a.User == v.User.ID)
}

// takeAttempt returns the attempt and removes it from the stored session, so that it is used only once.
func (p *Pages) takeAttempt(v *kit.Visit) (a ssoAttempt, found bool, err error) {
	a, found = p.currentAttempt(v)
	return a, found, v.Unstash(attemptField)
}

// ssoRefused is the page of a failed attempt. said is the provider's message, which is untrusted text.
func (p *Pages) ssoRefused(v *kit.Visit, why *kit.Problem, said string) error {
	m := SSORefused{Title: why.Title, Detail: why.Detail, Said: sanitize(said), Name: p.SSOName(),
		SignedIn: v.User.ID != 0}
	return v.Page(why.Status, ssoRefusedPage(v.Frame(why.Title, ""), m))
}

// sanitize makes a text of the provider safe to show: one line of at most 300 characters.
func sanitize(text string) string {
	shown := []rune(chars.Shown(strings.TrimSpace(text)))
	return string(shown[:min(len(shown), maxSaid)])
}

// maxSaid is how much of a text of the provider is shown, in characters.
const maxSaid = 300

// Reasons why an attempt fails.
var (
	errSSOOver = &kit.Problem{Status: http.StatusBadRequest, Title: "This sign-in has expired",
		Detail: "It took more than ten minutes, was already completed, or was started in another browser. Start again."}
	errSSOUnavailable = &kit.Problem{Status: http.StatusServiceUnavailable, Title: "The provider is unreachable",
		Detail: "Single sign-on works again as soon as the provider responds. The log has the reason. Accounts with a " +
			"password can still sign in."}
	errSSOIdentity = &kit.Problem{Status: http.StatusForbidden, Title: "Sign-in rejected",
		Detail: "The provider's response does not prove who you are. The log has the reason. Try again, and tell an " +
			"administrator if this keeps happening."}
	errSSORefused = &kit.Problem{Status: http.StatusForbidden, Title: "The provider rejected the sign-in",
		Detail: "The provider's message:"}
	errSSODisabled = &kit.Problem{Status: http.StatusForbidden, Title: "Account disabled",
		Detail: "An administrator disabled your account here."}
	errSSOOther = &kit.Problem{Status: http.StatusForbidden, Title: "Different account",
		Detail: "You signed in with a different account than the one in use here, so nothing was changed. To switch " +
			"accounts, sign out first."}
	errSSOStale = &kit.Problem{Status: http.StatusForbidden, Title: "Not confirmed",
		Detail: "The provider did not ask you to sign in again, or did not report when it last did, so nothing was changed."}
)

// ssoFailed is the page of an error of the provider or the account; any other error is returned unchanged.
func (p *Pages) ssoFailed(v *kit.Visit, err error) error {
	switch {
	case errors.Is(err, access.ErrProviderUnavailable):
		p.Logger.Warn("the provider of single sign-on does not answer", "error", err)
		return p.ssoRefused(v, errSSOUnavailable, "")
	case errors.Is(err, access.ErrIdentity):
		p.Logger.Warn("refused the answer of single sign-on", "error", err, "address", v.RealIP())
		return p.ssoRefused(v, errSSOIdentity, "")
	case errors.Is(err, access.ErrDisabled):
		return p.ssoRefused(v, errSSODisabled, "")
	}
	if status, message := kit.Refusal(err); status != 0 {
		v.RetryAfter(err)
		title := "Too many attempts"
		if status == http.StatusServiceUnavailable {
			title = "Try again in a second"
		}
		return p.ssoRefused(v, &kit.Problem{Status: status, Title: title, Detail: message}, "")
	}
	return err
}

// SSORefused is the page of a failed single sign-on. Said is the provider's message, which is untrusted, or "".
type SSORefused struct {
	Title, Detail, Said string
	// Name is the provider's name on the button.
	Name     string
	SignedIn bool
}
