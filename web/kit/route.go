package kit

import (
	"cmp"
	"net/url"

	"sluice/internal/access"
)

// Route is one row of the tables of everything the console serves. Tests try
// every row as everyone.
type Route struct {
	Method string
	// Path is in Echo's notation.
	Path string
	// Role is who may; "" means everyone, signed in or not.
	Role access.Role
	// Reauth asks for the password once more when it was not given lately. It is
	// for what cannot be undone: deleting, resetting, tokens and people.
	Reauth bool
	// Accounts: it may end sessions of others.
	Accounts bool
	// Offline: it changes nothing in the rules database, so it may be posted while
	// that is unreachable.
	Offline bool
	// Stream: scripts ask it for a stream.
	Stream bool
	// Upload is for forms with a file, nil for all others.
	Upload *Upload

	Handle func(*Visit) error
}

// Posted is an action that begins with the posted form.
func Posted(act func(*Visit, url.Values) error) func(*Visit) error {
	return func(v *Visit) error {
		form, err := v.Form()
		if err != nil {
			return err
		}
		return act(v, form)
	}
}

// Upload says what file a form takes.
type Upload struct {
	// Field carries the file as text where none was chosen.
	Field string
	// Most is the most bytes of the form, TooLarge what a larger one is told.
	Most     int64
	TooLarge string
}

const (
	// MaxForm bounds a posted form, in bytes.
	MaxForm = 1 << 20
	// MaxCarried is the longest text that a page carries along in a form, in bytes.
	MaxCarried = 1 << 20
)

// anyForm is the Upload of routes that expect no file.
var anyForm = Upload{Field: "text", Most: MaxForm, TooLarge: "A form can have up to 1 MiB."}

func (r *Route) upload() *Upload { return cmp.Or(r.Upload, &anyForm) }
