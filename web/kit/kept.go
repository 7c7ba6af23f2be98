package kit

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/web/view"
)

// errSignedOut answers a form whose session ended while it was filled in.
var errSignedOut = &Problem{
	http.StatusUnauthorized, "You are signed out",
	"Nothing was changed. What you typed is kept on this page: sign in in another tab, then come back here and send it again.",
}

// secretFields are never sent back to a browser.
var secretFields = []string{"password", "repeat", "current", confirmField}

// kept is the form of a request that failed, to be sent again from the page that
// says so; nil if there is nothing to keep. What was never let in, such as what
// another site sent, keeps nothing, and passwords are left out.
func (v *Visit) kept() url.Values {
	if v.Request().Method != http.MethodPost || v.route == nil || v.route.Role == "" {
		return nil
	}
	if v.User.ID == 0 { // strangers get no more read than a form
		v.Request().Body = http.MaxBytesReader(v.Response(), v.Request().Body, MaxForm)
	}
	out := url.Values{}
	for name, values := range v.posted() {
		if !slices.Contains(secretFields, name) && strings.Join(values, "") != "" {
			out[name] = values
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// posted is the form as it came. A file that was uploaded is its text.
func (v *Visit) posted() url.Values {
	f, err := v.File()
	if err != nil {
		return nil
	}
	out, field := maps.Clone(f.Form), v.route.upload().Field
	if !f.Pasted && f.Text != "" {
		out.Set(field, f.Text)
	}
	if len(out.Get(field)) > MaxCarried {
		out.Del(field) // whoever chose a file still has it
	}
	return out
}

// mechanical are fields that nobody types.
var mechanical = []string{"version", "id", "to", "back", "act"}

// again offers to send once more what failed with a status, where that may help
// or somebody typed it.
func (v *Visit) again(status int, err error) *view.Again {
	if errors.Is(err, errCrossOrigin) || errors.Is(err, ErrMissing) {
		return nil
	}
	values := v.kept()
	if values == nil {
		return nil
	}
	typed := false
	for name := range values {
		typed = typed || !slices.Contains(mechanical, name)
	}
	if !typed && status != http.StatusUnauthorized && status < http.StatusInternalServerError {
		return nil
	}
	return &view.Again{Action: v.Request().URL.RequestURI(), Values: values, SignIn: errors.Is(err, errSignedOut)}
}
