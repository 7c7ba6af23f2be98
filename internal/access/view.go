package access

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
	"sluice/rules/field"
)

// Bounds of saved views.
const (
	// MaxSavedViews is how many views an account can save.
	MaxSavedViews = 50
	// MaxViewName is the longest name of a view, in characters.
	MaxViewName = 60
	// MaxViewQuery is the longest query of a view, in bytes.
	MaxViewQuery = 2000
)

// SavedView is a page of the console with filters, which a person saved under a name. Only that person sees it.
type SavedView struct {
	// ID is assigned by the database; 0 before that.
	ID int64
	// Name is unique among the views of the account and the page.
	Name string
	// Path is the page, Query its filters as the query of a URL.
	Path, Query string
}

// URL is the address of the view on this server.
func (s *SavedView) URL() string {
	if s.Query == "" {
		return s.Path
	}
	return s.Path + "?" + s.Query
}

// CheckViewName trims the name of a view and says what is wrong with it. The error is a *field.ValidationError.
func CheckViewName(name string) (string, error) {
	name = strings.TrimSpace(name)
	if name == "" || utf8.RuneCountInString(name) > MaxViewName || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, chars.Unsafe) {
		return name, &field.ValidationError{Fields: []field.Problem{{Field: "name",
			Message: fmt.Sprintf("must have 1 to %d characters on one line", MaxViewName)}}}
	}
	return name, nil
}

// ErrTooManyViews refuses a view beyond MaxSavedViews.
var ErrTooManyViews error = &field.ValidationError{Fields: []field.Problem{{Field: "name",
	Message: fmt.Sprintf("cannot be saved: you already have %d saved views; delete one", MaxSavedViews)}}}
