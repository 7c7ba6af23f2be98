package signin

import (
	"errors"
	"net/http"
	"net/url"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/web/kit"
)

// signInUnavailable is shown with the form while nobody can sign in.
const signInUnavailable = "The rules database is unreachable, so nobody can sign in until it is back. Requests are " +
	"still being rate-limited."

// signInForm shows the form. A person who is already signed in is redirected.
func (p *Pages) signInForm(v *kit.Visit) error {
	next := kit.Local(v.QueryParam("next"))
	if v.User.ID != 0 {
		return v.SeeOther(next)
	}
	if v.Replica != nil {
		return p.elsewhere(v, http.StatusOK, next)
	}
	n, err := p.Users.CountUsers(v.Ctx)
	if errors.Is(err, rules.ErrUnavailable) {
		return v.Page(http.StatusServiceUnavailable,
			signInPage(v.Frame("Sign in", ""), SignIn{Next: next, Error: signInUnavailable, SSO: p.SSOName()}))
	}
	if err != nil {
		return err
	}
	return v.Page(http.StatusOK, signInPage(v.Frame("Sign in", ""), SignIn{Next: next, Nobody: n == 0, SSO: p.SSOName()}))
}

// elsewhere says that nobody can sign in here: a read replica cannot store the session. It leads to the sign-in page of
// the primary region, and from there to next.
func (p *Pages) elsewhere(v *kit.Visit, status int, next string) error {
	primary := v.AtPrimary(kit.PathSignIn + "?" + url.Values{"next": {next}}.Encode())
	return v.Page(status, signInElsewherePage(v.Frame("Sign in", ""), primary))
}

// signIn checks a name and a password.
func (p *Pages) signIn(v *kit.Visit, form url.Values) error {
	if v.Replica != nil {
		return p.elsewhere(v, http.StatusServiceUnavailable, kit.Local(form.Get("next")))
	}
	name, next := form.Get("name"), kit.Local(form.Get("next"))
	u, err := v.Authenticate(name, form.Get("password"))
	if err != nil {
		status, message := kit.Refusal(err)
		if errors.Is(err, rules.ErrUnavailable) {
			status, message = http.StatusServiceUnavailable, signInUnavailable
		}
		if status == 0 {
			return err
		}
		v.RetryAfter(err)
		return v.Page(status, signInPage(v.Frame("Sign in", ""),
			SignIn{Name: name, Next: next, Error: message, SSO: p.SSOName()}))
	}
	if err := v.Begin(u); err != nil {
		return err
	}
	return v.SeeOther(next)
}

// SignIn is the form to sign in.
type SignIn struct {
	Name, Next, Error string
	// Nobody means that no account exists yet.
	Nobody bool
	// SSO is the name of the single sign-on provider, "" for none.
	SSO string
}

// signOut ends the session, if there is one.
func (p *Pages) signOut(v *kit.Visit) error {
	if v.User.ID != 0 {
		p.Logger.Info("signed out of the console", "user", v.Actor().Name)
	}
	err := v.EndSession()
	if errors.Is(err, rules.ErrUnavailable) {
		// This node remembers that the session has ended.
		v.ClearCookie()
		v.User, v.Offline = access.User{}, true
		why := "The rules database is unreachable"
		if errors.Is(err, rules.ErrBusy) {
			why = "Another change, such as a large import, is in progress"
		}
		if v.Replica != nil {
			why = "The rules database of this region is a read replica"
		}
		return &kit.Problem{
			Status: http.StatusServiceUnavailable, Title: "Signed out in this browser",
			Detail: why + ", so the session could not be ended on the other nodes. It no longer works on this node.",
		}
	}
	if err != nil {
		return err
	}
	return v.SeeOther(kit.PathSignIn)
}
