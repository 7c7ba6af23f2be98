package kit

import (
	"cmp"
	"net/url"
	"strings"

	"sluice/internal/access"
)

// Route is a route of the console. Tests request every route with every role.
type Route struct {
	Method string
	// Path is in the notation of Echo.
	Path string
	// Role is the required role; "" means that no session is required.
	Role access.Role
	// Reauth requires the password unless it was entered recently, and names the act on the page that asks for it. It is
	// set for deleting, resetting, tokens, people and webhooks, and nil for others.
	Reauth Act
	// Accounts means that the route can end sessions of other people. It needs a Role; a handler without one calls
	// ForgetSessions itself.
	Accounts bool
	// Offline means that the route changes nothing in the rules database, so it works while that is unreachable.
	Offline bool
	// Form means that the page is only a form whose changes a read replica refuses, so that it is not shown there.
	Form bool
	// Stream means that scripts request it as a stream.
	Stream bool
	// Upload describes the file of a form, nil for forms without one.
	Upload *Upload

	Handle func(*Visit) error
}

// Act returns the words that say what a request is about to do: "revoke the token edge-gateway". An error, such as that
// of an object that does not exist, is shown in place of the question for the password.
type Act func(v *Visit, form url.Values) (string, error)

// Does is the Act of a route that does the same with each request.
func Does(words string) Act {
	return func(*Visit, url.Values) (string, error) { return words, nil }
}

// DoesToRule is the Act of a route with the id of a rule. before and after are the words around its name.
func DoesToRule(before, after string) Act {
	return func(v *Visit, _ url.Values) (string, error) {
		r, err := v.Rule()
		return before + r.Name + after, err
	}
}

// maxNamed is the longest text of a form that the question for the password names, in characters.
const maxNamed = 80

// Named is a text of a form as an Act names it, shortened.
func Named(text string) string {
	if runes := []rune(strings.TrimSpace(text)); len(runes) > maxNamed {
		return string(runes[:maxNamed]) + "…"
	}
	return strings.TrimSpace(text)
}

// Posted wraps an action that needs the posted form.
func Posted(act func(*Visit, url.Values) error) func(*Visit) error {
	return func(v *Visit) error {
		form, err := v.Form()
		if err != nil {
			return err
		}
		return act(v, form)
	}
}

// Upload describes a file that a form accepts.
type Upload struct {
	// Field is the field for pasted text, if no file was chosen.
	Field string
	// Most is the maximum size of the form in bytes, TooLarge the error for larger ones.
	Most     int64
	TooLarge string
}

const (
	// MaxForm bounds a posted form, in bytes.
	MaxForm = 1 << 20
	// MaxCarried is the longest text that a page carries in a hidden field, in bytes.
	MaxCarried = 1 << 20
)

// anyForm is the Upload of routes without a file.
var anyForm = Upload{Field: "text", Most: MaxForm, TooLarge: "A form can have up to 1 MiB."}

func (r *Route) upload() *Upload { return cmp.Or(r.Upload, &anyForm) }
