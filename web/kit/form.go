package kit

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
)

// lastPage bounds page numbers.
const lastPage = 1_000_000

// PageNumber reads the parameter page, which counts from 1.
func PageNumber(q url.Values) int {
	n, err := strconv.Atoi(q.Get("page"))
	if err != nil {
		return 1
	}
	return min(max(n, 1), lastPage)
}

// OneOf is value if it is among the allowed ones, else "".
func OneOf(value string, allowed ...string) string {
	for _, a := range allowed {
		if value == a {
			return value
		}
	}
	return ""
}

// ID is an ID in the path. ErrMissing if the parameter is not a valid ID.
func (v *Visit) ID(param string) (int64, error) {
	id, err := strconv.ParseInt(v.Param(param), 10, 64)
	if err != nil || id < 1 {
		return 0, ErrMissing
	}
	return id, nil
}

// Version reads the version that the page showed, or -1, which no row has.
func Version(form url.Values) int64 {
	n, err := strconv.ParseInt(form.Get("version"), 10, 64)
	if err != nil || n < 1 {
		return -1
	}
	return n
}

// FieldsOf are the fields of a *field.ValidationError, nil for no error.
func FieldsOf(err error) []field.Problem {
	var invalid *field.ValidationError
	var taken *rules.TakenError
	switch {
	case errors.As(err, &invalid):
		return invalid.Fields
	case errors.As(err, &taken):
		return []field.Problem{taken.Problem}
	}
	return nil
}

// Form reads the posted form.
func (v *Visit) Form() (url.Values, error) {
	if err := v.Request().ParseForm(); err != nil {
		return nil, v.formError(err)
	}
	return v.Request().PostForm, nil
}

// formError is the page for a form that could not be read.
func (v *Visit) formError(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return &Problem{http.StatusRequestEntityTooLarge, "Too large", v.route.upload().TooLarge}
	}
	return &Problem{http.StatusBadRequest, "Invalid form", "The form could not be read."}
}

// File is a form with a file.
type File struct {
	Form url.Values
	// Text is the file that was chosen, or what was typed in its place: then it is
	// Pasted.
	Text   string
	Pasted bool
}

// File reads a posted form with a file. With an error, f holds what could be read.
func (v *Visit) File() (f File, err error) {
	r, field := v.Request(), v.route.upload().Field
	f.Form = url.Values{}
	paste := func(form url.Values) {
		f.Form, f.Text = form, unixLines(form.Get(field))
		f.Pasted = f.Text != ""
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "multipart/form-data" {
		form, err := v.Form()
		if err == nil {
			paste(form)
		}
		return f, err
	}
	if err := r.ParseMultipartForm(MaxCarried); err != nil {
		return f, v.formError(err)
	}
	defer func() { _ = r.MultipartForm.RemoveAll() }()
	paste(r.PostForm)
	file, head, err := r.FormFile("file")
	if errors.Is(err, http.ErrMissingFile) {
		return f, nil
	}
	if err != nil {
		return f, v.formError(err)
	}
	defer file.Close()
	if head.Size == 0 {
		return f, nil
	}
	var b strings.Builder
	b.Grow(int(head.Size))
	if _, err := io.Copy(&b, file); err != nil {
		return f, err
	}
	f.Text, f.Pasted = unixLines(b.String()), false
	return f, nil
}

// unixLines replaces the line ends that browsers send.
func unixLines(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// Local returns path if it leads to a page of the console, and otherwise the path of the home page, so that a form or
// link cannot lead to another site.
func Local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.Opaque != "" || strings.ContainsAny(path, "\\\r\n\t") ||
		u.Path != PathHome && !strings.HasPrefix(u.Path, PathHome+"/") || strings.Contains(u.Path, "//") ||
		strings.Contains(u.Path, "..") {
		return PathHome
	}
	return u.RequestURI()
}

// Unreadable reports whether figures are missing: neither figures of all nodes nor figures of this node could be read.
func Unreadable(err error) bool {
	var own *history.OwnError
	return err != nil && !errors.As(err, &own)
}

// MustBeEmpty returns an error for each named field that is filled in although the selected option does not use it.
func MustBeEmpty(form url.Values, names ...string) (fields []field.Problem) {
	for _, name := range names {
		if strings.TrimSpace(form.Get(name)) != "" {
			fields = append(fields, field.Problem{Field: name,
				Message: "applies only to a custom limit; choose that, or leave this field empty"})
		}
	}
	return fields
}
