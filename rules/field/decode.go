package field

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/rules/tree"
)

// LineProblem is a Problem with the line of the file.
type LineProblem struct {
	Problem
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
func (f *Field[T]) Decode(t *T, v *tree.Value, how Reading) []LineProblem {
	var d Decoder
	decodeField(&d, f, t, f.Name, v, how)
	return d.problems
}

// Decoder collects the problems of an object.
type Decoder struct{ problems []LineProblem }

// Wrong adds a problem of the value v at a path.
func (d *Decoder) Wrong(at string, v *tree.Value, format string, args ...any) {
	d.problems = append(d.problems, LineProblem{Problem{at, fmt.Sprintf(format, args...)}, v.Line})
}

// Set stores the result of reading one value. A value that could be read in spite of a mistake is
// stored too, so that no other field is blamed for its absence.
func Set[V comparable](d *Decoder, at string, v *tree.Value, dst *V, read func() (V, error)) {
	value, err := read()
	if err != nil {
		d.Wrong(at, v, "%s", err)
	}
	var none V
	if err == nil || value != none {
		*dst = value
	}
}

func decodeField[T any](d *Decoder, f *Field[T], t *T, at string, v *tree.Value, how Reading) {
	if f.Composite != nil {
		f.Composite(d, at, f.Noun, v, f.At(t))
		return
	}
	null := v.Kind == tree.Null
	text := func() (string, error) { return ReadText(f, v, how) }
	whole := func() (int64, error) { return readWhole(f, v, how) }
	switch p := f.At(t).(type) {
	case *string:
		if null {
			*p = "" // which Normalize makes the default
			return
		}
		Set(d, at, v, p, text)
	case **string:
		optional(d, at, v, p, text)
	case *int64:
		if null && !f.Required {
			*p, _ = f.Default.(int64)
			return
		}
		Set(d, at, v, p, whole)
	case **int64:
		optional(d, at, v, p, whole)
	case *bool:
		if null {
			*p, _ = f.Default.(bool)
			return
		}
		Set(d, at, v, p, func() (bool, error) { return readTruth(v, how) })
	case **time.Time:
		optional(d, at, v, p, func() (time.Time, error) { return readInstant(v, how) })
	case *[]string:
		decodeTexts(d, f, at, v, p)
	case *[]int64:
		decodeNumbers(d, f, at, v, p, how)
	}
}

// Composite reads a value into the result of a field's At. The noun describes the field.
type Composite func(d *Decoder, at, noun string, v *tree.Value, p any)

// As is p with its type, which the field of a composite has.
func As[P any](p any) P {
	typed, _ := p.(P)
	return typed
}

// Part is a composite of fields that may be null.
func Part[P any](fields []Field[P]) Composite {
	return func(d *Decoder, at, _ string, v *tree.Value, p any) { decodePart(d, fields, at, v, As[**P](p)) }
}

// Always is a composite of fields that have defaults.
func Always[P any](fields []Field[P]) Composite {
	return func(d *Decoder, at, _ string, v *tree.Value, p any) { decodeStruct(d, fields, at, v, As[*P](p)) }
}

// ListOf is a list of 1 to most objects.
func ListOf[P any](fields []Field[P], most int) Composite {
	return func(d *Decoder, at, noun string, v *tree.Value, p any) {
		decodeObjects(d, fields, at, noun, most, v, As[*[]P](p))
	}
}

// MapOf is an object whose members have any name.
func MapOf[V any](one func(d *Decoder, at string, v *tree.Value, dst *V)) Composite {
	return func(d *Decoder, at, noun string, v *tree.Value, p any) {
		decodeMap(d, at, noun, v, As[*map[string]V](p), one)
	}
}

// DecodeText reads a text that may be empty.
func DecodeText(d *Decoder, at string, v *tree.Value, dst *string) {
	Set(d, at, v, dst, func() (string, error) { return ReadText[struct{}](nil, v, FromFile) })
}

// optional sets *dst to nil for null.
func optional[V comparable](d *Decoder, at string, v *tree.Value, dst **V, read func() (V, error)) {
	if v.Kind == tree.Null {
		*dst = nil
		return
	}
	var value, none V
	before := len(d.problems)
	if Set(d, at, v, &value, read); len(d.problems) == before || value != none {
		*dst = &value
	}
}

// decodePart reads a composite field as a whole, because the meanings of its members depend on
// each other.
func decodePart[T any](d *Decoder, fields []Field[T], at string, v *tree.Value, dst **T) {
	*dst = nil
	if v.Kind == tree.Null {
		return
	}
	part := new(T)
	if DecodeObject(d, fields, at, v, part) {
		*dst = part
	}
}

// DecodeObject reads the members of an object. It returns false if v is not an object.
func DecodeObject[T any](d *Decoder, fields []Field[T], at string, v *tree.Value, t *T) bool {
	if v.Kind != tree.Object {
		d.Wrong(at, v, "must be an object, not %s", v.Kind)
		return false
	}
	for i := range v.Members {
		m := &v.Members[i]
		where := at + "." + SafeField(m.Name)
		if f := Named(fields, m.Name); f != nil {
			decodeField(d, f, t, where, &m.Value, FromFile)
		} else {
			d.Wrong(where, &m.Value, "is not a known field")
		}
	}
	return true
}

// decodeStruct reads an object whose members all have defaults, which null stands for.
func decodeStruct[T any](d *Decoder, fields []Field[T], at string, v *tree.Value, dst *T) {
	*dst = Fresh(fields)
	if v.Kind != tree.Null {
		DecodeObject(d, fields, at, v, dst)
	}
}

// decodeMap reads an object whose members have any name; null is none. one reads the value of a
// member.
func decodeMap[V any](d *Decoder, at, noun string, v *tree.Value, dst *map[string]V,
	one func(d *Decoder, at string, v *tree.Value, dst *V)) {
	*dst = nil
	switch v.Kind {
	case tree.Null:
		return
	case tree.Object:
	default:
		d.Wrong(at, v, "must be an object of %s, not %s", noun, v.Kind)
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
func decodeObjects[T any](d *Decoder, fields []Field[T], at, noun string, most int, v *tree.Value, dst *[]T) {
	switch {
	case v.Kind != tree.List:
		d.Wrong(at, v, "must be a list of %s, not %s", noun, v.Kind)
		return
	case len(v.List) > most:
		d.Wrong(at, v, "must be a list of 1 to %d %s", most, noun)
		return
	}
	*dst = make([]T, len(v.List))
	for i := range v.List {
		DecodeObject(d, fields, Path(at, i), &v.List[i], &(*dst)[i])
	}
}

// decodeTexts reads a list of texts; null is the default.
func decodeTexts[T any](d *Decoder, f *Field[T], at string, v *tree.Value, dst *[]string) {
	switch {
	case v.Kind == tree.Null:
		*dst = nil // which Normalize makes the default
		return
	case v.Kind != tree.List || f.Least > 0 && (len(v.List) < int(f.Least) || len(v.List) > int(f.Most)):
		d.Wrong(at, v, "must be a list of %s", f.Noun)
		return
	}
	texts := make([]string, len(v.List))
	for i := range v.List {
		text := &v.List[i]
		Set(d, Path(at, i), text, &texts[i], func() (string, error) { return ReadText(f, text, FromFile) })
	}
	*dst = texts
}

func decodeNumbers[T any](d *Decoder, f *Field[T], at string, v *tree.Value, dst *[]int64, how Reading) {
	*dst = nil
	switch v.Kind {
	case tree.Null:
	case tree.List:
		numbers := make([]int64, len(v.List))
		for i := range v.List {
			number := &v.List[i]
			Set(d, Path(at, i), number, &numbers[i], func() (int64, error) { return readWhole(f, number, how) })
		}
		*dst = numbers
	default:
		d.Wrong(at, v, "must be a list of %s", f.Noun)
	}
}

// ReadText returns a text. The field, which may be nil FromFile, says whether it may be empty.
func ReadText[T any](f *Field[T], v *tree.Value, how Reading) (string, error) {
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
