package kit

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/web/view"
)

// errSignedOut is the answer to a form whose session ended while it was filled in.
var errSignedOut = &Problem{
	http.StatusUnauthorized, "You are signed out",
	"Nothing was changed. What you typed is kept on this page: sign in in another tab, then come back here and send it " +
		"again.",
}

// secretFields are never sent back to a browser.
var secretFields = []string{"password", "repeat", "current", confirmField}

// kept returns the form of a failed request, so that it can be sent again from the error page; nil for none. It leaves
// out passwords, and returns nil for requests that were rejected before authorization, such as requests of another
// site.
func (v *Visit) kept() url.Values {
	if v.Request().Method != http.MethodPost || v.route == nil || v.route.Role == "" {
		return nil
	}
	if v.User.ID == 0 { // read no more than a form from visitors
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

// posted is the form as it was sent. An uploaded file is included as text.
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
		out.Del(field) // the person still has the file
	}
	return out
}

// hiddenFields are fields that people do not fill in.
var hiddenFields = []string{"version", "id", "to", "back", "act"}

// resend offers to send a failed form again, if it has typed values or if sending it again can succeed.
func (v *Visit) resend(status int, err error) *view.Resend {
	if errors.Is(err, errCrossOrigin) || errors.Is(err, ErrMissing) {
		return nil
	}
	values := v.kept()
	if values == nil {
		return nil
	}
	var typed []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !slices.Contains(hiddenFields, name) {
			typed = append(typed, name)
		}
	}
	elsewhere := errors.As(err, new(*rules.ReplicaError))
	if len(typed) == 0 && (elsewhere || status != http.StatusUnauthorized && status < http.StatusInternalServerError) {
		return nil
	}
	out := &view.Resend{Action: v.Request().URL.RequestURI(), Values: values, SignIn: errors.Is(err, errSignedOut)}
	if elsewhere {
		out.Typed = typed
	}
	return out
}
