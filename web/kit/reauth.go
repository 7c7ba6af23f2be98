package kit

import (
	"errors"
	"net/http"
	"net/url"

	"sluice/internal/access"
)

// Fields of the page that asks who is there once more.
const (
	// confirmField carries the password.
	confirmField = "confirm_password"
	// elsewhereField says that someone claims to have signed in elsewhere again.
	elsewhereField = "confirm_elsewhere"
)

// reauthenticate asks for the password if it was not given lately. done means
// that the page that asks has been sent; it carries the form along, so that the
// act goes on by itself once the password is right.
func (k *Kit) reauthenticate(v *Visit) (done bool, err error) {
	form, err := v.Form()
	if err != nil {
		return false, err
	}
	password := form.Get(confirmField)
	form.Del(confirmField)
	claims := form.Has(elsewhereField)
	form.Del(elsewhereField)
	if v.proved() {
		return false, nil
	}
	if v.User.External() {
		return true, k.confirmElsewhere(v, form, claims)
	}
	status, message := http.StatusUnprocessableEntity, ""
	if password != "" {
		u, err := v.Authenticate(access.LaneSignedIn, v.User.Name, password)
		if err == nil && u.ID == v.User.ID {
			if err = v.Prove(); errors.Is(err, errEnded) {
				return true, v.ToSignIn()
			}
			return false, err
		}
		if status, message = Refusal(err); status == 0 {
			return false, err
		}
		v.RetryAfter(err)
	}
	return true, v.Page(status, confirmPage(v.Frame("Confirm it is you", ""), confirm{
		Method: v.Request().Method, Action: v.Request().URL.RequestURI(), Carried: form, Error: message,
	}))
}

// confirmElsewhere asks someone who signs in elsewhere to do so again, in a window
// of its own, so that what was typed here stays here. claims: they say they have.
func (k *Kit) confirmElsewhere(v *Visit, form url.Values, claims bool) error {
	m := confirm{Method: v.Request().Method, Action: v.Request().URL.RequestURI(), Carried: form, Elsewhere: k.SSOName()}
	if claims {
		m.Error = "You have not signed in again in the last ten minutes."
	}
	return v.Page(http.StatusUnprocessableEntity, confirmElsewherePage(v.Frame("Confirm it is you", ""), m))
}

// Prove notes that the password was given now, under a new session secret. Both
// are stored and the cookie is set before this returns, whatever comes of the act
// that asked for it. errEnded: the session has ended meanwhile, and the visitor is
// nobody.
func (v *Visit) Prove() error {
	if err := v.renew(true); err != nil {
		return err
	}
	v.kit.sessions.Put(v.Ctx, sessionProved, v.kit.Now().UnixMilli())
	err := v.commit()
	if errors.Is(err, errEnded) {
		v.User = access.User{}
	}
	return err
}

// confirm asks for the password once more, with a form carried along.
type confirm struct {
	Method, Action string
	Carried        url.Values
	Error          string
	// Elsewhere is where they sign in who have no password here.
	Elsewhere string
}
