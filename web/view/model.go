package view

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"

	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/field"
)

// Frame is the model of the frame around every page.
type Frame struct {
	Title string
	// Here is the path and query of the page, to which small forms return.
	Here string
	// Theme is system, light or dark.
	Theme string
	Nav   []NavGroup
	// User is empty if nobody is signed in; then there is no navigation.
	User, Role        string
	CanEdit, CanAdmin bool
	// Version is the version of Sluice.
	Version string
	// Flash is a message about the last action, shown once. Undo offers to undo that action, nil if it cannot be undone.
	Flash string
	Undo  *Undo
	// Banners are warnings. Live are warnings that appear and disappear while the page is open.
	Live, Banners []Banner
	Alerts        Bell
	// Saved are the saved views of the page, nil if it can have none.
	Saved *Saved
	// Tour is the stop of a tour at this page, nil if the page is no stop.
	Tour *Tour
}

// Undo is the offer to undo a change.
type Undo struct {
	// What names the change.
	What string
	// Left is how long the offer lasts.
	Left time.Duration
}

// Bell is the number of active alerts that nobody has acknowledged or silenced, and of those that somebody has, unless
// they are unknown.
type Bell struct {
	Active, Handled int
	Known           bool
}

// words are the name of the link: "Alerts: 3 active".
func (b Bell) words() string {
	switch {
	case !b.Known:
		return "Alerts"
	case b.Handled > 0:
		return "Alerts: " + Count(int64(b.Active)) + " active, besides " + Count(int64(b.Handled)) +
			" acknowledged or silenced"
	case b.Active == 0:
		return "Alerts: none active"
	}
	return "Alerts: " + Count(int64(b.Active)) + " active"
}

// figure is the number as it fits on the bell.
func (b Bell) figure() string {
	if b.Active > 99 {
		return "99+"
	}
	return Count(b.Active)
}

// NavGroup is a group of the navigation.
type NavGroup struct {
	Label string
	Items []NavItem
}

// NavItem is an entry of the navigation.
type NavItem struct {
	Path, Label, Icon string
	Current           bool
}

// Banner is a warning at the top of a page. Kind is bad, warn or info.
type Banner struct {
	Kind, Text string
	// Since is shown if it is not zero.
	Since time.Time
	// Primary is the address of the page in a console that is not read-only, or "".
	Primary string
	// Page is the path of the page that says more, and PageName its name; "" for none.
	Page, PageName string
}

// Form holds the values and errors of a form.
type Form struct {
	Values url.Values
	errors map[string]string
	// Rest are errors about fields that the form does not show separately.
	Rest []field.Problem
}

// NewForm is a form with values, and errors by the names of its fields.
func NewForm(values url.Values, errs []field.Problem) Form {
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

// Query holds the URL parameters that filter and sort a table. Links of the table change one parameter and keep the
// others.
type Query struct {
	path   string
	values url.Values
}

// escapedParam has the names of the parameters of a form that Query.Field wrote with %XX.
const escapedParam = "escaped"

// NewQuery keeps the named parameters of a page's URL.
func NewQuery(path string, from url.Values, keep ...string) Query {
	q := Query{path: path, values: url.Values{}}
	for _, k := range keep {
		v := from.Get(k)
		if slices.Contains(from[escapedParam], k) {
			v = chars.UnescapeShown(v)
		}
		if v != "" {
			q.values.Set(k, v)
		}
	}
	return q
}

// Field is one parameter as the field of a form shows it. Browsers change the ends of lines in a field, so a text that
// people would not see as it is has %XX, and % itself is %25. Such a form has EscapedFields.
func (q Query) Field(name string) string {
	if q.escaped(name) {
		return chars.Escape(q.Get(name), "")
	}
	return q.Get(name)
}

func (q Query) escaped(name string) bool { return chars.Shown(q.Get(name)) != q.Get(name) }

// Get is one parameter.
func (q Query) Get(name string) string { return q.values.Get(name) }

// others are the parameters besides the named ones, as name and value, in order of name.
func (q Query) others(but ...string) (pairs [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if value := q.values.Get(name); value != "" && !slices.Contains(but, name) {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	return pairs
}

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
func (q Query) With(name, value string) string { return q.Set(name, value).URL() }

// Set is the query with parameters changed, given as name, value, name, value; "" removes one.
func (q Query) Set(pairs ...string) Query {
	values := url.Values{}
	for k, v := range q.values {
		values[k] = v
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if values.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			values.Del(pairs[i])
		}
	}
	return Query{path: q.path, values: values}
}

// URL is the path with the query.
func (q Query) URL() string { return q.link(q.values) }

// Sort is the URL that sorts by a column, or reverses the order if the table is already sorted by it.
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

// Pager is the part of a list that a page shows.
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
	return q.With("page", Digits(page))
}

// RuleLine is a row of a table of rules.
type RuleLine struct {
	Rule *rules.Rule
	// By is the last editor, "" if unknown.
	By string
	// Denied counts denials in the last minute, if Known; on this node only, if Own.
	Denied     int64
	Known, Own bool
}

// Has reports whether the form has a value or an error under one of the name prefixes. The section with these fields is
// then shown open.
func (f Form) Has(names ...string) bool {
	for _, n := range names {
		for field, vs := range f.Values {
			if strings.HasPrefix(field, n) && strings.Join(vs, "") != "" && !strings.HasSuffix(field, ".unit") &&
				!strings.HasSuffix(field, ".zone") {
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

// Differs reports whether a selection is not the default, or has an error.
func (f Form) Differs(name, standard string) bool {
	return f.Get(name) != "" && f.Get(name) != standard || f.Error(name) != ""
}

// Holds reports whether a field with several values has this one.
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

// Ask is a question before an act on the object of a row.
type Ask struct {
	// ID is unique on the page.
	ID string
	// Verb is the act, Icon the sign of its button, "" for a button with the verb. What names the object.
	Verb, Icon, What string
	Action           templ.SafeURL
	// Version is the version that the page shows, 0 for objects without one.
	Version int64
}
