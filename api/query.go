package api

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/rules"
	"sluice/rules/field"
)

// Bounds and default of page_size.
const (
	defaultPage = 50
	maxPage     = 500
)

// query holds the query parameters of a request.
type query struct {
	values url.Values
	errs   []field.Problem
}

// parseQuery parses the query parameters. It rejects unknown and repeated ones, so that a
// misspelt filter does not silently select everything.
func parseQuery(c echo.Context, known ...string) (*query, error) {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, reply.Malformed.Problem("The query string is malformed.")
	}
	q := &query{values: values}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch v := values[name]; {
		case !slices.Contains(known, name):
			q.wrong(shownName(strings.ToValidUTF8(name, "�")),
				"is not a parameter of this path; allowed: "+strings.Join(known, ", "))
		case len(v) > 1:
			q.wrong(name, "must not be repeated")
		case len(v[0]) > maxText:
			q.wrong(name, "must not be longer than "+strconv.Itoa(maxText)+" bytes")
		}
	}
	return q, nil
}

func (q *query) wrong(member, message string) {
	q.errs = append(q.errs, field.Problem{Field: member, Message: message})
}

func (q *query) err() error {
	if len(q.errs) > 0 {
		return &field.ValidationError{Fields: q.errs}
	}
	return nil
}

// boolean reads a parameter that is true or false; nil if it is absent.
func (q *query) boolean(name string) *bool {
	if !q.values.Has(name) {
		return nil
	}
	v := q.values.Get(name) == "true"
	if !v && q.values.Get(name) != "false" {
		q.wrong(name, "must be true or false")
	}
	return &v
}

// oneOf reads a parameter with a fixed list of values; "" if it is absent.
func (q *query) oneOf(name string, allowed ...string) string {
	v := q.values.Get(name)
	if q.values.Has(name) && !slices.Contains(allowed, v) {
		q.wrong(name, "must be "+strings.Join(allowed, " or "))
	}
	return v
}

// filters returns the filters of rules by the names of fields; nil if there are none.
func (q *query) filters() map[string]string {
	var filters map[string]string
	for _, name := range rules.Filters() {
		if !q.values.Has(name) {
			continue
		}
		if f := rules.FieldNamed(name); f != nil && len(f.OneOf) > 0 {
			q.oneOf(name, f.OneOf...)
		}
		value := q.values.Get(name)
		if value == "" {
			continue // an empty filter selects everything
		}
		if filters == nil {
			filters = map[string]string{}
		}
		filters[name] = value
	}
	return filters
}

func (q *query) pageSize() int {
	if !q.values.Has("page_size") {
		return defaultPage
	}
	n, err := strconv.Atoi(q.values.Get("page_size"))
	if err != nil || n < 1 || n > maxPage {
		q.wrong("page_size", "must be between 1 and "+strconv.Itoa(maxPage))
		return defaultPage
	}
	return n
}

// pageToken reads the number in a page token; 0 if it is absent.
func (q *query) pageToken() int64 {
	if q.values.Get("page_token") == "" {
		return 0
	}
	raw, err := base64.RawURLEncoding.DecodeString(q.values.Get("page_token"))
	if text, ok := strings.CutPrefix(string(raw), "after:"); ok && err == nil {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 {
			return n
		}
	}
	q.wrong("page_token", "must be a next_page_token from a response")
	return 0
}

// pageToken returns the opaque token of the page after n.
func pageToken(n int64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt([]byte("after:"), n, 10))
}
