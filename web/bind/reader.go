// Package bind reads and fills in the inputs of forms: by the field tables of rules and pools, and one by one.
//
// An input has the JSON name of its field, with the path of a composite one, such as schedule.windows[0].from. A
// duration has its unit in a second input, whose name ends in UnitSuffix. 90000 ms are filled in as window_ms=90 with
// window_ms.unit=second, and read back as 90000 from these, from 90000, or from 1m30s.
package bind

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"sluice/rules/field"
)

// UnitSuffix ends the name of the input for the unit of a duration.
const UnitSuffix = ".unit"

// Reader reads a form and collects values that cannot be parsed. Validation checks their meaning.
type Reader struct {
	Form url.Values
	// Zone is the input for the time zone of the times that Read reads.
	Zone string
	Errs []field.Problem
}

// Read reads the fields of an object, except composite ones.
func Read[T any](rd *Reader, under string, fields []field.Field[T], t *T) {
	for i := range fields {
		f := &fields[i]
		name := under + f.Name
		number := rd.Whole
		if f.Millis {
			number = rd.Millis
		}
		switch p := f.At(t).(type) {
		case *string:
			*p = rd.Text(name)
		case **string:
			if s := rd.Text(name); s != "" {
				*p = &s
			}
		case *bool:
			*p = rd.Ticked(name)
		case *int64:
			if n := number(name); n != nil {
				*p = *n
			} else if f.Needed(t) || f.Default != nil { // the form shows the default, so it must not be empty
				rd.Wrong(name, "is required")
			}
		case **int64:
			*p = number(name)
		case **time.Time:
			*p = rd.Instant(name, rd.Zone)
		case *[]string:
			*p = slices.Clone(rd.Form[name])
		case *[]int64:
			*p = rd.numbers(name)
		}
	}
}

// Wrong adds an error, unless the field has one.
func (rd *Reader) Wrong(member, message string) {
	if !slices.ContainsFunc(rd.Errs, func(e field.Problem) bool { return e.Field == member }) {
		rd.Errs = append(rd.Errs, field.Problem{Field: member, Message: message})
	}
}

// Text is an input without blanks around it.
func (rd *Reader) Text(name string) string { return strings.TrimSpace(rd.Form.Get(name)) }

// Ticked reports whether a checkbox is checked.
func (rd *Reader) Ticked(name string) bool { return rd.Form.Get(name) != "" }

// Whole reads a whole number, nil if the field is empty.
func (rd *Reader) Whole(name string) *int64 {
	s := rd.Text(name)
	if s == "" {
		return nil
	}
	n, err := parseWhole(s)
	if err != nil {
		rd.Wrong(name, "must be a whole number")
		return nil
	}
	return &n
}

// numbers reads whole numbers with commas or blanks between them, nil if the field is empty.
func (rd *Reader) numbers(name string) (out []int64) {
	for _, text := range strings.FieldsFunc(rd.Text(name), func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 64)
		if err != nil {
			rd.Wrong(name, "must be whole numbers such as 80, 100")
			return nil
		}
		out = append(out, n)
	}
	return out
}
