package view

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/rules"
)

// Frame is what is around every page.
type Frame struct {
	Title string
	// Here is the path and query of the page, to which small forms lead back.
	Here string
	// Theme is system, light or dark.
	Theme string
	Nav   []NavItem
	// User is empty if nobody is signed in; then there is no navigation.
	User, Role        string
	CanEdit, CanAdmin bool
	// Version is of the program.
	Version string
	// Flash says once what has just been done.
	Flash   string
	Banners []Banner
}

// NavItem is an entry of the navigation.
type NavItem struct {
	Path, Label, Icon string
	Current           bool
}

// Banner is what everyone should know before reading on. Kind is bad, warn or info.
type Banner struct {
	Kind, Text string
	// Since is shown if it is not zero.
	Since time.Time
}

// Form is what was typed into a form and what is wrong with it.
type Form struct {
	Values url.Values
	errors map[string]string
	// Rest are errors about fields that the form does not show one by one.
	Rest []rules.FieldError
}

// NewForm is a form with values, and errors by the names of its fields.
func NewForm(values url.Values, errs []rules.FieldError) Form {
	f := Form{Values: values, errors: map[string]string{}}
	for _, e := range errs {
		if f.errors[e.Field] == "" {
			f.errors[e.Field] = e.Message
		}
	}
	return f
}

// Get is the value of a field.
func (f Form) Get(field string) string { return f.Values.Get(field) }

// Error is what is wrong with a field, "" if nothing.
func (f Form) Error(field string) string { return f.errors[field] }

// Query is the part of a URL that says how a table is filtered and sorted. Links
// of the table change one thing and keep the others.
type Query struct {
	path   string
	values url.Values
}

// NewQuery keeps those parameters of a page's URL that are named.
func NewQuery(path string, from url.Values, keep ...string) Query {
	q := Query{path: path, values: url.Values{}}
	for _, k := range keep {
		if v := from.Get(k); v != "" {
			q.values.Set(k, v)
		}
	}
	return q
}

// Get is one parameter.
func (q Query) Get(name string) string { return q.values.Get(name) }

// Path is the page's path without a query.
func (q Query) Path() string { return q.path }

// At is the same query of another page.
func (q Query) At(path string) Query { return Query{path: path, values: q.values} }

// Filtered reports whether any of the named parameters is set.
func (q Query) Filtered(names ...string) bool {
	for _, n := range names {
		if q.values.Get(n) != "" {
			return true
		}
	}
	return false
}

// With is the URL with one parameter changed; "" removes it.
func (q Query) With(name, value string) string {
	values := url.Values{}
	for k, v := range q.values {
		values[k] = v
	}
	values.Set(name, value)
	if value == "" {
		values.Del(name)
	}
	return q.link(values)
}

// Sort is the URL that sorts by a column, or turns the order round if it is the
// one already.
func (q Query) Sort(column, initial string) string {
	values := url.Values{}
	for k, v := range q.values {
		values[k] = v
	}
	values.Set("sort", column)
	if q.sortedBy(initial) == column && q.Get("desc") == "" {
		values.Set("desc", "1")
	} else {
		values.Del("desc")
	}
	return q.link(values)
}

func (q Query) sortedBy(initial string) string {
	if s := q.Get("sort"); s != "" {
		return s
	}
	return initial
}

// Order is the aria-sort of a column: ascending, descending or "".
func (q Query) Order(column, initial string) string {
	switch {
	case q.sortedBy(initial) != column:
		return ""
	case q.Get("desc") != "":
		return "descending"
	}
	return "ascending"
}

func (q Query) link(values url.Values) string {
	if len(values) == 0 {
		return q.path
	}
	return q.path + "?" + values.Encode()
}

// Pager says which part of a list a page shows.
type Pager struct {
	// Page counts from 1; Per is the rows of a page.
	Page, Per int
	Total     int64
}

// Pages is how many there are, at least one.
func (p Pager) Pages() int {
	return max(1, int((p.Total+int64(p.Per)-1)/int64(p.Per)))
}

// Range is the first and last row shown, counted from 1.
func (p Pager) Range() (from, to int64) {
	from = int64(p.Page-1)*int64(p.Per) + 1
	return min(from, p.Total), min(from+int64(p.Per)-1, p.Total)
}

// link is the URL of another page of the list.
func (p Pager) link(q Query, page int) string {
	if page <= 1 {
		return q.With("page", "")
	}
	return q.With("page", strconv.Itoa(page))
}

// RuleLine is a row of a table of rules.
type RuleLine struct {
	Rule *rules.Rule
	// By is who changed it last, "" if unknown.
	By string
	// Denied is how many requests it denied in the last minute, if Known; only on this
	// node if Own.
	Denied     int64
	Known, Own bool
}

// Has reports whether the form has something under one of the names, or an
// error: then the part with these fields is shown open.
func (f Form) Has(names ...string) bool {
	for _, n := range names {
		for field, vs := range f.Values {
			if strings.HasPrefix(field, n) && strings.Join(vs, "") != "" && !strings.HasSuffix(field, ".unit") && !strings.HasSuffix(field, ".zone") {
				return true
			}
		}
		for field := range f.errors {
			if strings.HasPrefix(field, n) {
				return true
			}
		}
	}
	return false
}

// Differs reports whether a choice is not at its default, or wrong.
func (f Form) Differs(name, standard string) bool {
	return f.Get(name) != "" && f.Get(name) != standard || f.Error(name) != ""
}

// Holds reports whether a field with several values has one.
func (f Form) Holds(name, value string) bool {
	for _, v := range f.Values[name] {
		if v == value {
			return true
		}
	}
	return false
}

// RuleLines are the rows of a table of rules.
func RuleLines(list *rules.Listing) []RuleLine {
	lines := make([]RuleLine, len(list.Rules))
	for i := range list.Rules {
		r := &list.Rules[i]
		lines[i] = RuleLine{Rule: r, By: list.Editors[r.ID].Name}
	}
	return lines
}
