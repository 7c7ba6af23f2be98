package web

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"sluice/web/view"
)

// confirmField carries the password that was asked for once more.
const confirmField = "confirm_password"

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
	if v.proved() {
		return false, nil
	}
	status, message := http.StatusUnprocessableEntity, ""
	if password != "" {
		u, err := s.authenticate(v.ctx, v.user.Name, password, addressOf(v.RealIP()))
		if err == nil && u.ID == v.user.ID {
			return false, v.prove()
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

// prove notes that the password was given now, under a new session secret.
func (v *visit) prove() error {
	if err := v.server.sessions.RenewToken(v.ctx); err != nil {
		return err
	}
	v.server.sessions.Put(v.ctx, sessionProved, v.server.deps.Now().UnixMilli())
	return nil
}

// retryAfter says in the header how long to wait, if err is about that.
func (v *visit) retryAfter(err error) {
	var many *tooMany
	if errors.As(err, &many) {
		v.Response().Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(float64(many.wait)/float64(time.Second))), 10))
	}
}
