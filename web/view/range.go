package view

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/rules"
	"sluice/rules/field"
)

// Range is the time that a page with charts shows, from its address: range=1h, or from and to.
type Range struct {
	// From and To bound the range; To is excluded. They are in UTC and multiples of Width, except for the present time.
	From, To time.Time
	// Name is one of the fixed lengths, "" if the address has from and to. A range with a name ends now.
	Name string
	// Step is the step of the figures, Width the length of a point of a chart: a multiple of it.
	Step, Width time.Duration
	// Compare is the range that a chart is compared with: "", previous or yesterday.
	Compare string
	// Typed are the parameters as they were typed.
	Typed url.Values
	// Problems are what is wrong with the parameters. The range is then the default.
	Problems []field.Problem
}

// rangeLengths are the ranges with a name.
var rangeLengths = []struct {
	name, words string
	length      time.Duration
}{
	{"5m", "5 minutes", 5 * time.Minute}, {"15m", "15 minutes", 15 * time.Minute}, {"1h", "hour", time.Hour},
	{"3h", "3 hours", 3 * time.Hour}, {"24h", "24 hours", 24 * time.Hour}, {"7d", "7 days", 7 * history.Day},
	{"30d", "30 days", 30 * history.Day}, {"90d", "90 days", 90 * history.Day},
}

// widths are the steps and points of ranges up to a length.
var widths = []struct{ length, step, width time.Duration }{
	{history.SecondsKept, time.Second, 5 * time.Second}, {3 * time.Hour, time.Minute, time.Minute},
	{25 * time.Hour, time.Minute, 10 * time.Minute}, {8 * history.Day, time.Hour, time.Hour},
	{32 * history.Day, time.Hour, 6 * time.Hour}, {200 * history.Day, history.Day, history.Day},
	{history.MaxPoints * history.Day, history.Day, 14 * history.Day},
}

// RangeParams are the parameters of an address that make a range.
var RangeParams = []string{"range", "from", "to", "zone", "compare"}

// compared are the values of Range.Compare with their names for people.
var compared = [][2]string{{"", "Nothing"}, {"previous", "The period before"}, {"yesterday", "A day earlier"}}

// ParseRange reads a range. Where the parameters are wrong it is the one named def, with Problems.
func ParseRange(q url.Values, now time.Time, def string) Range {
	r := Range{Typed: url.Values{}, Name: def}
	for _, p := range RangeParams {
		if q.Has(p) {
			r.Typed.Set(p, q.Get(p))
		}
	}
	for _, c := range compared {
		if c[0] == q.Get("compare") {
			r.Compare = c[0]
		}
	}
	if r.Compare != q.Get("compare") {
		r.wrong("compare", "must be previous or yesterday")
	}
	if q.Get("from") != "" || q.Get("to") != "" {
		r.between(q, now)
	} else if name := q.Get("range"); name != "" {
		if r.Name = name; lengthOf(name) == 0 {
			var names []string
			for _, l := range rangeLengths {
				names = append(names, l.name)
			}
			r.wrong("range", "must be one of "+strings.Join(names, ", "))
		}
	}
	if len(r.Problems) > 0 {
		r.Name = def
	}
	now = now.UTC()
	if r.Name != "" {
		r.From, r.To = now.Add(-lengthOf(r.Name)), now
	}
	r.measure(now)
	return r
}

func (r *Range) wrong(member, message string) {
	r.Problems = append(r.Problems, field.Problem{Field: member, Message: message})
}

// between reads from and to.
func (r *Range) between(q url.Values, now time.Time) {
	zone := time.UTC
	if name := strings.TrimSpace(q.Get("zone")); name != "" {
		var err error
		if zone, err = rules.Zone(name); err != nil {
			r.wrong("zone", err.Error())
			return
		}
	}
	read := func(name string, otherwise time.Time) time.Time {
		if q.Get(name) == "" {
			return otherwise
		}
		at, err := ParseMoment(q.Get(name), zone)
		if err != nil {
			r.wrong(name, err.Error())
		}
		return at
	}
	to := read("to", now.UTC())
	from := read("from", to.Add(-time.Hour))
	switch {
	case len(r.Problems) > 0:
	case !from.Before(to):
		r.wrong("to", "must be after the start")
	case from.Unix() < 0:
		r.wrong("from", "must be since 1970")
	case to.Year() >= 9999:
		r.wrong("to", "must be before the year 9999")
	case to.Sub(from) < time.Second:
		r.wrong("to", "must be at least a second after the start")
	case to.Sub(from) > widths[len(widths)-1].length:
		r.wrong("from", "the range is too long: at most 5000 days")
	default:
		r.From, r.To, r.Name = from, to, ""
	}
}

// measure sets the steps that fit the range, and widens it to whole points.
func (r *Range) measure(now time.Time) {
	length := r.To.Sub(r.From)
	for _, w := range widths {
		gone := w.step == time.Second && r.From.Before(now.Add(-history.SecondsKept-time.Second)) ||
			w.step == time.Minute && r.From.Before(now.Add(-history.MinutesKept))
		if r.Step, r.Width = w.step, w.width; length <= w.length && !gone {
			break
		}
	}
	if r.From = r.From.Truncate(r.Width); r.From.Unix() < 0 {
		r.From = time.Unix(0, 0).UTC()
	}
	if whole := r.To.Truncate(r.Width); whole.Before(r.To) {
		r.To = whole.Add(r.Width)
	}
}

func lengthOf(name string) time.Duration {
	for _, l := range rangeLengths {
		if l.name == name {
			return l.length
		}
	}
	return 0
}

// Status is the HTTP status of a page with the range: 422 if its address names a range that does not exist, otherwise
// 200.
func (r *Range) Status() int {
	if len(r.Problems) > 0 {
		return http.StatusUnprocessableEntity
	}
	return http.StatusOK
}

// Live reports whether the range ends now, so that a page can follow it.
func (r *Range) Live() bool { return r.Name != "" }

// Words describes the range.
func (r *Range) Words() string {
	for _, l := range rangeLengths {
		if l.name == r.Name {
			return "the last " + l.words
		}
	}
	return r.From.Format("2006-01-02 15:04") + " to " + r.To.Format("2006-01-02 15:04") + " UTC"
}

// Params are the parameters of the range, as name, value, for Query.Set.
func (r *Range) Params() []string {
	if r.Name != "" {
		return []string{"range", r.Name, "from", "", "to", "", "zone", "", "compare", r.Compare}
	}
	return append(between(r.From, r.To), "compare", r.Compare)
}

// between are the parameters of a range without a name.
func between(from, to time.Time) []string {
	return []string{"range", "", "from", from.UTC().Format(time.RFC3339), "to", to.UTC().Format(time.RFC3339), "zone", ""}
}

// Query asks for the figures of the range.
func (r *Range) Query(rule string) history.Query {
	return history.Query{Rule: rule, From: r.From, To: r.To, Step: r.Step}
}

// Earlier is the range that this one is compared with, false if there is none.
func (r *Range) Earlier() (Range, bool) {
	back := r.To.Sub(r.From)
	switch r.Compare {
	case "":
		return Range{}, false
	case "yesterday":
		back = max(history.Day, r.Width)
	}
	if r.From.Add(-back).Unix() < 0 {
		return Range{}, false
	}
	e := *r
	e.From, e.To, e.Name, e.Compare = r.From.Add(-back), r.To.Add(-back), "", ""
	return e, true
}

// Widen adds up points to the width of the range. A point is known if any part of it is.
func (r *Range) Widen(points []history.Point) []history.Point {
	out := make([]history.Point, 0, r.To.Sub(r.From)/r.Width)
	for at := r.From; at.Before(r.To); at = at.Add(r.Width) {
		out = append(out, history.Point{At: at, Peak: -1})
	}
	for i := range points {
		p := &points[i]
		if n := int(p.At.Sub(r.From) / r.Width); p.Known && n >= 0 && n < len(out) {
			out[n].Known = true
			out[n].Add(p.Figures)
			out[n].Peak = max(out[n].Peak, p.Peak)
		}
	}
	return out
}

// form is the range as a form.
func (r *Range) form() Form {
	f := NewForm(url.Values{}, r.Problems)
	for name, typed := range r.Typed {
		f.Values[name] = typed
	}
	if f.Get("from") == "" && f.Get("to") == "" && r.Name == "" {
		f.Values.Set("from", r.From.Format("2006-01-02T15:04:05"))
		f.Values.Set("to", r.To.Format("2006-01-02T15:04:05"))
	}
	for _, name := range []string{"from", "to"} { // a field for a date and time shows no zone
		if at, err := time.Parse(time.RFC3339, f.Get(name)); err == nil {
			f.Values.Set(name, at.UTC().Format("2006-01-02T15:04:05"))
			f.Values.Set("zone", "UTC")
		}
	}
	return f
}
