package rules

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/tree"
)

// Problem is a FieldError with the line of the file.
type Problem struct {
	FieldError
	Line int
}

// Reading says how a value is read and how its problems are worded.
type Reading bool

const (
	// FromFile accepts what people write in files and Normalize corrects.
	FromFile Reading = false
	// FromRequest refuses texts that Normalize would change.
	FromRequest Reading = true
)

// Decode sets the field of t to a value; null means the default. It returns every formal problem,
// under a path that begins with the field's name; the field may then be unchanged. Validate checks
// what the values mean.
func (f *Field[T]) Decode(t *T, v *tree.Value, how Reading) []Problem {
	var d decoder
	decodeField(&d, f, t, f.Name, v, how)
	return d.problems
}

// decoder collects the problems of an object.
type decoder struct{ problems []Problem }

func (d *decoder) wrong(at string, v *tree.Value, format string, args ...any) {
	d.problems = append(d.problems, Problem{FieldError{at, fmt.Sprintf(format, args...)}, v.Line})
}

// set stores the result of reading one value. A value that could be read in spite of a mistake is
// stored too, so that no other field is blamed for its absence.
func set[V comparable](d *decoder, at string, v *tree.Value, dst *V, read func() (V, error)) {
	value, err := read()
	if err != nil {
		d.wrong(at, v, "%s", err)
	}
	var none V
	if err == nil || value != none {
		*dst = value
	}
}

func decodeField[T any](d *decoder, f *Field[T], t *T, at string, v *tree.Value, how Reading) {
	if f.composite != nil {
		f.composite(d, at, f.Noun, v, f.At(t))
		return
	}
	null := v.Kind == tree.Null
	text := func() (string, error) { return readText(f, v, how) }
	whole := func() (int64, error) { return readWhole(f, v, how) }
	switch p := f.At(t).(type) {
	case *string:
		if null {
			*p = "" // which Normalize makes the default
			return
		}
		set(d, at, v, p, text)
	case **string:
		optional(d, at, v, p, text)
	case *int64:
		if null && !f.Required {
			*p, _ = f.Default.(int64)
			return
		}
		set(d, at, v, p, whole)
	case **int64:
		optional(d, at, v, p, whole)
	case *bool:
		if null {
			*p, _ = f.Default.(bool)
			return
		}
		set(d, at, v, p, func() (bool, error) { return readTruth(v, how) })
	case **time.Time:
		optional(d, at, v, p, func() (time.Time, error) { return readInstant(v, how) })
	case *[]string:
		decodeTexts(d, f, at, v, p)
	case *[]int64:
		decodeNumbers(d, f, at, v, p, how)
	}
}

// composite reads a value into what a field's At returns. The noun is that of the field.
type composite func(d *decoder, at, noun string, v *tree.Value, p any)

// as is p with its type, which the field of a composite has.
func as[P any](p any) P {
	typed, _ := p.(P)
	return typed
}

// part is a composite of fields that may be null.
func part[P any](fields []Field[P]) composite {
	return func(d *decoder, at, _ string, v *tree.Value, p any) { decodePart(d, fields, at, v, as[**P](p)) }
}

// always is a composite of fields that have defaults.
func always[P any](fields []Field[P]) composite {
	return func(d *decoder, at, _ string, v *tree.Value, p any) { decodeStruct(d, fields, at, v, as[*P](p)) }
}

// listOf is a list of 1 to most objects.
func listOf[P any](fields []Field[P], most int) composite {
	return func(d *decoder, at, noun string, v *tree.Value, p any) {
		decodeObjects(d, fields, at, noun, most, v, as[*[]P](p))
	}
}

// mapOf is an object whose members have any name.
func mapOf[V any](one func(d *decoder, at string, v *tree.Value, dst *V)) composite {
	return func(d *decoder, at, noun string, v *tree.Value, p any) {
		decodeMap(d, at, noun, v, as[*map[string]V](p), one)
	}
}

func decodeText(d *decoder, at string, v *tree.Value, dst *string) {
	set(d, at, v, dst, func() (string, error) { return readText[struct{}](nil, v, FromFile) })
}

// optional sets *dst to nil for null.
func optional[V comparable](d *decoder, at string, v *tree.Value, dst **V, read func() (V, error)) {
	if v.Kind == tree.Null {
		*dst = nil
		return
	}
	var value, none V
	before := len(d.problems)
	if set(d, at, v, &value, read); len(d.problems) == before || value != none {
		*dst = &value
	}
}

// decodePart reads a composite field as a whole, because the meanings of its members depend on
// each other.
func decodePart[T any](d *decoder, fields []Field[T], at string, v *tree.Value, dst **T) {
	*dst = nil
	if v.Kind == tree.Null {
		return
	}
	part := new(T)
	if decodeObject(d, fields, at, v, part) {
		*dst = part
	}
}

// decodeObject reads the members of an object. It returns false if v is not an object.
func decodeObject[T any](d *decoder, fields []Field[T], at string, v *tree.Value, t *T) bool {
	if v.Kind != tree.Object {
		d.wrong(at, v, "must be an object, not %s", v.Kind)
		return false
	}
	for i := range v.Members {
		m := &v.Members[i]
		where := at + "." + SafeField(m.Name)
		if f := named(fields, m.Name); f != nil {
			decodeField(d, f, t, where, &m.Value, FromFile)
		} else {
			d.wrong(where, &m.Value, "is not a known field")
		}
	}
	return true
}

// decodeStruct reads an object whose members all have defaults, which null stands for.
func decodeStruct[T any](d *decoder, fields []Field[T], at string, v *tree.Value, dst *T) {
	*dst = FreshFields(fields)
	if v.Kind != tree.Null {
		decodeObject(d, fields, at, v, dst)
	}
}

// decodeMap reads an object whose members have any name; null is none. one reads the value of a
// member.
func decodeMap[V any](d *decoder, at, noun string, v *tree.Value, dst *map[string]V,
	one func(d *decoder, at string, v *tree.Value, dst *V)) {
	*dst = nil
	switch v.Kind {
	case tree.Null:
		return
	case tree.Object:
	default:
		d.wrong(at, v, "must be an object of %s, not %s", noun, v.Kind)
		return
	}
	*dst = make(map[string]V, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		var value V
		one(d, at+"."+SafeKey(m.Name), &m.Value, &value)
		(*dst)[m.Name] = value
	}
}

// decodeObjects reads a list of up to most objects.
func decodeObjects[T any](d *decoder, fields []Field[T], at, noun string, most int, v *tree.Value, dst *[]T) {
	switch {
	case v.Kind != tree.List:
		d.wrong(at, v, "must be a list of %s, not %s", noun, v.Kind)
		return
	case len(v.List) > most:
		d.wrong(at, v, "must be a list of 1 to %d %s", most, noun)
		return
	}
	*dst = make([]T, len(v.List))
	for i := range v.List {
		decodeObject(d, fields, path(at, i), &v.List[i], &(*dst)[i])
	}
}

// decodeTexts reads a list of texts; null is the default.
func decodeTexts[T any](d *decoder, f *Field[T], at string, v *tree.Value, dst *[]string) {
	switch {
	case v.Kind == tree.Null:
		*dst = nil // which Normalize makes the default
		return
	case v.Kind != tree.List || f.Least > 0 && (len(v.List) < int(f.Least) || len(v.List) > int(f.Most)):
		d.wrong(at, v, "must be a list of %s", f.Noun)
		return
	}
	texts := make([]string, len(v.List))
	for i := range v.List {
		text := &v.List[i]
		set(d, path(at, i), text, &texts[i], func() (string, error) { return readText(f, text, FromFile) })
	}
	*dst = texts
}

func decodeNumbers[T any](d *decoder, f *Field[T], at string, v *tree.Value, dst *[]int64, how Reading) {
	*dst = nil
	switch v.Kind {
	case tree.Null:
	case tree.List:
		numbers := make([]int64, len(v.List))
		for i := range v.List {
			number := &v.List[i]
			set(d, path(at, i), number, &numbers[i], func() (int64, error) { return readWhole(f, number, how) })
		}
		*dst = numbers
	default:
		d.wrong(at, v, "must be a list of %s", f.Noun)
	}
}

func readText[T any](f *Field[T], v *tree.Value, how Reading) (string, error) {
	switch {
	case v.Kind == tree.Null:
		return "", nil
	case v.Kind != tree.Text && how == FromFile:
		return "", fmt.Errorf("must be text, not %s; put it in quotes", v.Kind)
	case v.Kind != tree.Text:
		return "", errors.New("must be a string" + orNull(f))
	case how == FromFile:
		return v.Text, nil
	case v.Text == "" && f.Required:
		return "", errors.New("must not be empty")
	case f.Bytes > 0:
		return v.Text, nil
	case v.Text == "":
		return "", errors.New("must not be empty; leave it out for the default")
	case strings.TrimSpace(v.Text) != v.Text:
		return v.Text, errors.New("must not begin or end with blanks")
	}
	return v.Text, nil
}

// orNull adds that null is allowed too, if that differs from an empty text.
func orNull[T any](f *Field[T]) string {
	var t T
	if _, plain := f.At(&t).(*string); plain {
		return ""
	}
	return " or null"
}

func readWhole[T any](f *Field[T], v *tree.Value, how Reading) (int64, error) {
	if how == FromRequest && v.Kind == tree.Null {
		return 0, errors.New("is required")
	}
	if v.Kind != tree.Whole {
		switch {
		case how == FromFile:
			return 0, fmt.Errorf("must be a whole number, not %s", v.Kind)
		case v.Kind == tree.Number:
			return 0, errors.New("must be an integer, written without a decimal point or exponent")
		}
		return 0, errors.New("must be an integer")
	}
	n, err := strconv.ParseInt(v.Text, 10, 64)
	beyond := errors.Is(err, strconv.ErrRange)
	switch {
	case beyond && how == FromFile:
		return 0, errors.New("is out of range")
	case how == FromRequest && (beyond || n > limiter.MaxExact || n < -limiter.MaxExact):
		least := int64(0)
		if f.Name == "anchor_ms" {
			least = -limiter.MaxExact
		}
		return 0, fmt.Errorf("must be between %d and %d", least, limiter.MaxExact)
	case err != nil:
		return 0, errors.New("must be a whole number in plain decimal digits")
	case n == 0 && f.NotZero:
		return -1, nil // out of every range that begins at 1, as 0 stands for none
	}
	return n, nil
}

func readTruth(v *tree.Value, how Reading) (bool, error) {
	if v.Kind == tree.Truth {
		return v.True(), nil
	}
	if how == FromRequest {
		return false, errors.New("must be true or false")
	}
	return false, fmt.Errorf("must be true or false, not %s", v.Kind)
}

func readInstant(v *tree.Value, how Reading) (time.Time, error) {
	switch {
	case v.Kind == tree.Text:
		return ParseInstant(v.Text)
	case how == FromRequest:
		return time.Time{}, errors.New("must be a string or null")
	}
	return time.Time{}, fmt.Errorf("must be a time such as 2026-11-27T00:00:00Z in quotes, not %s", v.Kind)
}

// ParseInstant parses a time of RFC 3339. The error says what is expected.
func ParseInstant(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time with date and offset as in RFC 3339, such as 2026-11-27T00:00:00Z")
	}
	return t.UTC(), nil
}
