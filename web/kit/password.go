package kit

import (
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"sluice/internal/access"
	"sluice/rules"
)

// Hash sets the password hash of an account that is not stored yet. If too many passwords are being hashed, it returns
// the status and errors with which to show the form again.
func (v *Visit) Hash(u *access.User, lane access.Lane, password string) (status int, fields []rules.FieldError,
	err error) {
	u.PasswordHash, err = v.kit.Passwords.HashPassword(v.Ctx, lane, password)
	if !errors.Is(err, access.ErrBusy) {
		return http.StatusUnprocessableEntity, nil, err
	}
	v.RetryAfter(err)
	return http.StatusServiceUnavailable, []rules.FieldError{{Field: "password", Message: busy}}, nil
}

// CheckPassword validates a new password and its repetition.
func CheckPassword(field, name, password, repeat string) []rules.FieldError {
	if err := access.CheckNewPassword(name, password); err != nil {
		return []rules.FieldError{{Field: field, Message: err.Error()}}
	}
	if password != repeat {
		return []rules.FieldError{{Field: "repeat", Message: "must match the password"}}
	}
	return nil
}

// errWrong does not say whether the name or the password was wrong.
var errWrong = errors.New("Wrong name or password.") //nolint:staticcheck,revive // shown to people as it stands

// Authenticate returns the account with a name and password. Refusal maps errors about them. Unknown names take as long
// as known ones. An attempt whose password was not compared is refunded.
func (v *Visit) Authenticate(lane access.Lane, name, password string) (access.User, error) {
	ctx, k, address := v.Ctx, v.kit, v.kit.addressOf(v.RealIP())
	done, err := k.limitSignIn(ctx, name, address)
	if err != nil {
		return access.User{}, err
	}
	u, err := k.Users.GetUserByName(ctx, name)
	if err != nil && !errors.Is(err, rules.ErrNotFound) {
		return access.User{}, err
	}
	ok, failed := k.Passwords.CheckPassword(ctx, lane, u.PasswordHash, password)
	if failed != nil {
		done()
		return access.User{}, failed
	}
	if err != nil || !ok || u.Disabled {
		k.Logger.Warn("refused to sign in", "user", printable(name), "address", address)
		return access.User{}, errWrong
	}
	done()
	return u, nil
}

// busy is shown with the form if too many passwords are being hashed.
const busy = "Too many passwords are being checked right now. Nothing was changed. Try again in a few seconds."

// Refusal is the status and text with which to show the form again, or 0 if the error has a page of its own.
func Refusal(err error) (int, string) {
	var many *tooMany
	switch {
	case errors.Is(err, errWrong):
		return http.StatusUnprocessableEntity, err.Error()
	case errors.As(err, &many):
		return http.StatusTooManyRequests, many.Error()
	case errors.Is(err, access.ErrBusy):
		return http.StatusServiceUnavailable, busy
	}
	return 0, ""
}

// busyWait is about how long a full queue for hashing takes to empty.
const busyWait = 2 * time.Second

// RetryAfter sets the Retry-After header if err says how long to wait.
func (v *Visit) RetryAfter(err error) {
	var many *tooMany
	wait := busyWait
	if errors.As(err, &many) {
		wait = many.wait
	} else if !errors.Is(err, access.ErrBusy) {
		return
	}
	v.Response().Header().Set("Retry-After", strconv.FormatInt(int64(math.Ceil(float64(wait)/float64(time.Second))), 10))
}
