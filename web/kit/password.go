package kit

import (
	"context"
	"errors"
	"math"
	"net/http"
	"time"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/view"
)

// Hash sets the password hash of an account that is not stored yet. If too many passwords are being hashed, it returns
// the status and errors with which to show the form again.
func (v *Visit) Hash(u *access.User, lane access.Lane, password string) (status int, fields []field.Problem,
	err error) {
	ctx, cancel := v.turn()
	defer cancel()
	u.PasswordHash, err = v.kit.Passwords.HashPassword(ctx, lane, password)
	if !errors.Is(err, access.ErrBusy) {
		return http.StatusUnprocessableEntity, nil, err
	}
	v.RetryAfter(err)
	return http.StatusServiceUnavailable, []field.Problem{{Field: "password", Message: busy}}, nil
}

// turnWait is how long after its arrival a request can wait for its turn at hashing. The connection is closed 5 s after
// the arrival, and a machine that is short of CPU needs the rest of them to hash and to answer.
const turnWait = 2 * time.Second

// turn is the context of a request that needs a turn at hashing. It ends with access.ErrBusy after turnWait.
func (v *Visit) turn() (context.Context, context.CancelFunc) {
	return context.WithDeadlineCause(v.Ctx, v.arrived.Add(turnWait), access.ErrBusy)
}

// CheckPassword validates a new password and its repetition.
func CheckPassword(member, name, password, repeat string) []field.Problem {
	if err := access.CheckNewPassword(name, password); err != nil {
		return []field.Problem{{Field: member, Message: err.Error()}}
	}
	if password != repeat {
		return []field.Problem{{Field: "repeat", Message: "must match the password"}}
	}
	return nil
}

// errWrong does not say whether the name or the password was wrong.
var errWrong = errors.New("Wrong name or password.") //nolint:staticcheck,revive // shown to people as it stands

// Authenticate returns the account with a name and password for a visitor who signs in. Refusal maps errors about them.
// Unknown names take as long as known ones. An attempt whose password was not compared is refunded.
func (v *Visit) Authenticate(name, password string) (access.User, error) {
	u, err := v.kit.Users.GetUserByName(v.Ctx, name)
	if err != nil && !errors.Is(err, rules.ErrNotFound) {
		return access.User{}, err
	}
	if err != nil {
		u = access.User{}
	}
	if err := v.compare(access.LaneStrangers, v.signInLimits(name, &u), name, password, &u); err != nil {
		return access.User{}, err
	}
	return u, nil
}

// ConfirmPassword compares a password with the password of the signed-in person. Attempts are counted for the session,
// so that nobody without the session can use them up. It returns the same errors as Authenticate.
func (v *Visit) ConfirmPassword(password string) error {
	asks := []limiter.Ask{{Key: guardKey("session", presentedIn(v.Ctx).token), Limit: guardSession, Weight: 1}}
	return v.compare(access.LaneSignedIn, asks, v.User.Name, password, &v.User)
}

// compare charges the limits and compares a password with the password of an account. u is zero if no account has the
// name.
func (v *Visit) compare(lane access.Lane, asks []limiter.Ask, name, password string, u *access.User) error {
	k, address := v.kit, v.kit.addressOf(v.RealIP())
	done, err := k.takeLimits(v.Ctx, asks, "user", printable(name), "address", address)
	if err != nil {
		return err
	}
	defer k.underWay.begin(asks)()
	ctx, cancel := v.turn()
	defer cancel()
	ok, err := k.Passwords.CheckPassword(ctx, lane, u.PasswordHash, password)
	if err != nil {
		done()
		return err
	}
	if !ok || u.Disabled {
		k.Logger.Warn("refused a password", "user", printable(name), "address", address)
		return errWrong
	}
	done()
	return nil
}

// busy is shown with the form if too many passwords are being hashed.
const busy = "Too many passwords are being checked right now. Nothing was changed. Try again in a few seconds."

// Refusal returns the status and text with which to show the form again, or 0 if the error has a page.
func Refusal(err error) (int, string) {
	var many *tooMany
	switch {
	case errors.Is(err, errWrong):
		return http.StatusUnprocessableEntity, err.Error()
	case errors.As(err, &many):
		return http.StatusTooManyRequests, many.Error()
	case errors.Is(err, access.ErrBusy):
		return http.StatusServiceUnavailable, busy
	case errors.Is(err, errUndecided):
		return http.StatusServiceUnavailable, err.Error()
	}
	return 0, ""
}

// RetryAfter sets the Retry-After header if err says how long to wait.
func (v *Visit) RetryAfter(err error) {
	var many *tooMany
	var wait time.Duration
	switch {
	case errors.As(err, &many):
		wait = many.wait
	case errors.Is(err, access.ErrBusy), errors.Is(err, errUndecided):
		wait = time.Second
	default:
		return
	}
	v.Response().Header().Set("Retry-After", view.Digits(int64(math.Ceil(float64(wait)/float64(time.Second)))))
}
