package kit

import (
	"errors"
	"net/http"
	"net/url"

	"sluice/internal/access"
)

// Form fields of the page on which people confirm their identity.
const (
	// confirmField carries the password.
	confirmField = "confirm_password"
	// elsewhereField says that the person claims to have signed in again at the provider.
	elsewhereField = "confirm_elsewhere"
)

// reauthenticate asks for the password if it was not entered recently. done means that the page with the question was
// sent. The page carries the form, so that the action continues once the password is right.
func (k *Kit) reauthenticate(v *Visit) (done bool, err error) {
	form, err := v.Form()
	if err != nil {
		return false, err
	}
	password := form.Get(confirmField)
	form.Del(confirmField)
	claims := form.Has(elsewhereField)
	form.Del(elsewhereField)
	if v.recentlyConfirmed() {
		return false, nil
	}
	if v.User.External() {
		return true, k.confirmElsewhere(v, form, claims)
	}
	status, message := http.StatusUnprocessableEntity, ""
	if password != "" {
		err := v.ConfirmPassword(password)
		if err == nil {
			if err = v.ConfirmIdentity(); errors.Is(err, errEnded) {
				return true, v.ToSignIn()
			}
			return false, err
		}
		if status, message = Refusal(err); status == 0 {
			return false, err
		}
		v.RetryAfter(err)
	}
	m, err := v.confirmOf(form)
	if err != nil {
		return true, err
	}
	m.Error = message
	return true, v.Page(status, confirmPage(v.Frame(m.Title, ""), m))
}

// confirmOf is the question for the password that carries a form along.
func (v *Visit) confirmOf(form url.Values) (confirm, error) {
	act, err := v.route.Reauth(v, form)
	return confirm{Title: "Confirm: " + act, Method: v.Request().Method, Action: v.Request().URL.RequestURI(),
		Carried: form}, err
}

// confirmElsewhere asks a person who uses single sign-on to sign in again, in a second window, so that the form in this
// one is kept. claims means that they say they have.
func (k *Kit) confirmElsewhere(v *Visit, form url.Values, claims bool) error {
	m, err := v.confirmOf(form)
	if err != nil {
		return err
	}
	m.Elsewhere = k.SSOName()
	if claims {
		m.Error = "You have not signed in again in the last ten minutes."
	}
	return v.Page(http.StatusUnprocessableEntity, confirmElsewherePage(v.Frame(m.Title, ""), m))
}

// ConfirmIdentity records that the person just proved their identity, and gives the session a new secret. Both are
// stored and the cookie is set before it returns, even if the action fails later. If the session has ended, it returns
// errEnded, and nobody is signed in.
func (v *Visit) ConfirmIdentity() error {
	if err := v.renew(true); err != nil {
		return err
	}
	v.kit.sessions.Put(v.Ctx, sessionConfirmed, v.kit.Now().UnixMilli())
	err := v.commit()
	if errors.Is(err, errEnded) {
		v.User = access.User{}
	}
	return err
}

// confirm is the model of the page that asks for the password. The page carries the interrupted form.
type confirm struct {
	// Title names the act: "Confirm: revoke the token edge-gateway".
	Title          string
	Method, Action string
	Carried        url.Values
	Error          string
	// Elsewhere is the single sign-on provider of an account without a password.
	Elsewhere string
}
