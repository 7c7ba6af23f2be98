package web

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/internal/access"
	"sluice/web/view"
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
func (s *Server) reauthenticate(v *visit) (done bool, err error) {
	form, err := v.form()
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
	if v.user.External() {
		return true, s.confirmElsewhere(v, form, claims)
	}
	status, message := http.StatusUnprocessableEntity, ""
	if password != "" {
		u, err := s.authenticate(v.ctx, access.LaneSignedIn, v.user.Name, password, addressOf(v.RealIP()))
		if err == nil && u.ID == v.user.ID {
			if err = v.prove(); errors.Is(err, errEnded) {
				return true, v.toSignIn()
			}
			return false, err
		}
		if status, message = refusal(err); status == 0 {
			return false, err
		}
		v.retryAfter(err)
	}
	return true, v.page(status, view.ConfirmPage(v.frame("Confirm it is you", ""), view.Confirm{
		Method: v.Request().Method, Action: v.Request().URL.RequestURI(), Carried: form, Error: message,
	}))
}

// confirmElsewhere asks someone who signs in elsewhere to do so again, in a window
// of its own, so that what was typed here stays here. claims: they say they have.
func (s *Server) confirmElsewhere(v *visit, form url.Values, claims bool) error {
	m := view.Confirm{Method: v.Request().Method, Action: v.Request().URL.RequestURI(), Carried: form, Elsewhere: s.ssoName()}
	if claims {
		m.Error = "You have not signed in again yet, or more than ten minutes ago."
	}
	return v.page(http.StatusUnprocessableEntity, view.ConfirmElsewherePage(v.frame("Confirm it is you", ""), m))
}

// prove notes that the password was given now, under a new session secret. Both
// are stored and the cookie is set before this returns, whatever comes of the act
// that asked for it. errEnded: the session has ended meanwhile, and the visitor is
// nobody.
func (v *visit) prove() error {
	if err := v.renew(true); err != nil {
		return err
	}
	v.server.sessions.Put(v.ctx, sessionProved, v.server.deps.Now().UnixMilli())
	err := v.commit()
	if errors.Is(err, errEnded) {
		v.user = access.User{}
	}
	return err
}

// busyWait is about how long a full queue for hashing takes to empty.
const busyWait = 2 * time.Second

// retryAfter says in the header how long to wait, if err is about that.
func (v *visit) retryAfter(err error) {
	var many *tooMany
	wait := busyWait
	if errors.As(err, &many) {
		wait = many.wait
	} else if !errors.Is(err, access.ErrBusy) {
		return
	}
	v.Response().Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(float64(wait)/float64(time.Second))), 10))
}
