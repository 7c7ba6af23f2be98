// Package field describes objects that people write by tables of their fields. A table decodes, normalises, compares,
// copies, stores and bounds its objects, and Problems collects what is wrong with one.
package field

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/rules/chars"
)

// Field describes one field of an object that people write: of a Rule, a Pool, or a part of a rule
// such as its Schedule. Decoding, files, forms, history, copies, defaults and bounds all use this
// description.
type Field[T any] struct {
	// Name is the field's name in JSON, YAML, forms and history.
	Name string
	// At returns a pointer to the field: *string, *int64 or *bool, where "" and null mean Default;
	// **string, **int64 or **time.Time, where nil is null; or a composite, such as **Schedule or
	// *[]string.
	At func(*T) any
	// Default is filled in by Normalize and left out of files; nil means none.
	Default any
	// Required fields have no default: an object without one is refused, unless Waived, which may be
	// nil, returns true for the object.
	Required bool
	Waived   func(*T) bool
	// NotZero: 0 means that the number is absent, so it is not a valid input.
	NotZero bool
	// OneOf lists the allowed words, nil for any text.
	OneOf []string
	// Least and Most bound a number, Most also the length of a list or map. They are 0 and 0 if the
	// bounds depend on other fields.
	Least, Most int64
	// Noun is what the elements of a list or map are called, in the plural.
	Noun string
	// Bytes and Characters bound a text for people on one line, which may be empty for Bytes. They
	// are 0 for a text with its own syntax.
	Bytes, Characters int
	// Millis marks a duration in milliseconds.
	Millis bool
	// Label fields are for people: editing one changes no decision.
	Label bool
	// Aside fields change no decision of the limit either, but what happens beside it: what becomes of requests that it
	// does not decide, what denied clients receive, what is tried or kept.
	Aside bool
	// Filter fields can filter listings and exports. The column in the database, or the policy, has the same name.
	Filter bool
	// Policy fields are stored together in one JSON column. A new one needs no migration.
	Policy bool
	// Spelled reports whether a file contains the field even at its default; nil for never.
	Spelled func(*T) bool
	// File returns the value that files show, if it differs from Value.
	File func(*T) any
	// Damaged is what an unreadable policy becomes: a value that validation refuses. It is nil for an optional object
	// that may not be empty, and for a type that is no composite.
	Damaged any
	// Composite reads the field if it is no text, number, truth, instant, or list of texts or numbers.
	Composite Composite
}

// text is the default of a text field, "" if it has none.
func (f *Field[T]) text() string {
	s, _ := f.Default.(string)
	return s
}

// Reset sets the field to its default, which is then the target's own.
func (f *Field[T]) Reset(t *T) {
	v := reflect.ValueOf(f.At(t)).Elem()
	if f.Default == nil {
		v.SetZero()
		return
	}
	v.Set(reflect.ValueOf(f.Default))
	Detach(v)
}

// Fresh returns an object whose fields are at their defaults.
func Fresh[T any](fields []Field[T]) (t T) {
	for i := range fields {
		fields[i].Reset(&t)
	}
	return t
}

// Value returns the field's JSON value: text, int64, bool, the value of a composite, or nil for
// null. Times are texts, as in JSON. A map without members is null, and so is an empty list unless
// the default has elements.
func (f *Field[T]) Value(t *T) any {
	v := reflect.ValueOf(f.At(t)).Elem()
	switch v.Kind() {
	case reflect.Map:
		if v.Len() == 0 {
			return nil
		}
	case reflect.Slice:
		if v.Len() == 0 && (f.Default == nil || reflect.ValueOf(f.Default).Len() == 0) {
			return nil
		}
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if at, ok := v.Interface().(*time.Time); ok {
			return FormatInstant(at)
		}
		v = v.Elem()
	}
	return v.Interface()
}

// IsDefault reports whether the field of a normalised object is at its default, so that a file can
// leave it out.
func (f *Field[T]) IsDefault(t *T) bool {
	switch p := f.At(t).(type) {
	case *string:
		return !f.Needed(t) && *p == f.text()
	case *int64:
		return f.Default != nil && f.Value(t) == f.Default || f.Required && !f.Needed(t) && *p == 0
	case *bool:
		return f.Default != nil && f.Value(t) == f.Default
	}
	v := f.Value(t)
	return v == nil || f.Default != nil && reflect.DeepEqual(v, f.Default)
}

// Needed reports whether an object without the field is refused.
func (f *Field[T]) Needed(t *T) bool { return f.Required && (f.Waived == nil || !f.Waived(t)) }

// Assign copies the field of src to dst; both then share the value that it points to.
func (f *Field[T]) Assign(dst, src *T) {
	reflect.ValueOf(f.At(dst)).Elem().Set(reflect.ValueOf(f.At(src)).Elem())
}

// Diff lists the fields in which two objects differ. A nil object has null in all fields.
func Diff[T any](fields []Field[T], was, is *T) []Change {
	var changes []Change
	for i := range fields {
		f := &fields[i]
		c := Change{Field: f.Name}
		if was != nil {
			c.Old = f.Value(was)
		}
		if is != nil {
			c.New = f.Value(is)
		}
		if !reflect.DeepEqual(c.Old, c.New) {
			changes = append(changes, c)
		}
	}
	return changes
}

// Clone returns a copy that shares nothing with the original.
func Clone[T any](t *T) T {
	c := *t
	Detach(reflect.ValueOf(&c).Elem())
	return c
}

// Detach copies what a value points to, so that it shares nothing with the original.
func Detach(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			own := reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			Detach(own.Elem())
			v.Set(own)
		}
	case reflect.Slice:
		if !v.IsNil() {
			own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range own.Len() {
				Detach(own.Index(i))
			}
			v.Set(own)
		}
	case reflect.Map:
		if !v.IsNil() {
			own := reflect.MakeMapWithSize(v.Type(), v.Len())
			for key, shared := range v.Seq2() {
				e := reflect.New(shared.Type()).Elem()
				e.Set(shared)
				Detach(e)
				own.SetMapIndex(key, e)
			}
			v.Set(own)
		}
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[time.Time]() {
			for i := range v.NumField() {
				Detach(v.Field(i))
			}
		}
	}
}

// Normalize fills in defaults and trims texts. It never writes through a pointer, because the
// caller may share the target.
func Normalize[T any](fields []Field[T], t *T) {
	for i := range fields {
		f := &fields[i]
		switch p := f.At(t).(type) {
		case *string:
			if *p = strings.TrimSpace(*p); *p == "" {
				*p = f.text()
			}
		case **string:
			*p = trimOptional(*p)
		case **time.Time:
			*p = wholeMillis(*p)
		case *[]string:
			if *p == nil && f.Default != nil {
				f.Reset(t)
			}
		}
	}
}

// Bounds checks the constraints of the table for each field of a normalised object.
func Bounds[T any](fields []Field[T], t *T, under string, ps *Problems) {
	for i := range fields {
		f := &fields[i]
		if len(f.OneOf)+f.Bytes+f.Characters == 0 && f.Most == 0 {
			continue
		}
		at := under + f.Name
		switch p := f.At(t).(type) {
		case *string:
			f.BoundText(at, *p, ps)
		case **string:
			if *p != nil {
				f.BoundText(at, **p, ps)
			}
		case *int64:
			f.BoundNumber(at, *p, ps)
		case **int64:
			if *p != nil {
				f.BoundNumber(at, **p, ps)
			}
		default:
			if n := reflect.ValueOf(p).Elem().Len(); int64(n) > f.Most {
				ps.Add(at, "must not have more than %d %s", f.Most, f.Noun)
			}
		}
	}
}

// BoundText checks a text against the bounds of the field.
func (f *Field[T]) BoundText(at, s string, ps *Problems) {
	if len(f.OneOf) > 0 && !slices.Contains(f.OneOf, s) {
		ps.Add(at, "must be %s", strings.Join(f.OneOf, " or "))
	}
	switch {
	case f.Bytes+f.Characters == 0:
	case f.Bytes > 0 && len(s) > f.Bytes:
		ps.Add(at, "must not be longer than %d bytes", f.Bytes)
	case f.Characters > 0 && utf8.RuneCountInString(s) > f.Characters:
		ps.Add(at, "must not be longer than %d characters", f.Characters)
	case !utf8.ValidString(s):
		ps.Add(at, "must be valid UTF-8")
	case strings.ContainsFunc(s, chars.Unsafe):
		ps.Add(at, "must not contain control characters or line breaks")
	}
}

// BoundNumber checks a number against the bounds of the field.
func (f *Field[T]) BoundNumber(at string, n int64, ps *Problems) {
	if f.Most != 0 && (n < f.Least || n > f.Most) {
		ps.Add(at, "must be between %d and %d", f.Least, f.Most)
	}
}

// Check returns a *ValidationError with more, and with what the bounds of a table say about a normalised object,
// in the order of its fields; nil if nothing is wrong.
func Check[T any](fields []Field[T], t *T, more []Problem) error {
	ps := Problems(more)
	Bounds(fields, t, "", &ps)
	if len(ps) == 0 {
		return nil
	}
	Sort(fields, ps)
	return &ValidationError{Fields: ps}
}

// Sort sorts problems by the order of their fields.
func Sort[T any](fields []Field[T], ps Problems) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return position(fields, a.Field) - position(fields, b.Field)
	})
}

func position[T any](fields []Field[T], at string) int {
	return slices.IndexFunc(fields, func(f Field[T]) bool { return f.Name == TopField(at) })
}

// TopField returns the field of an object that a path such as tiers.free.limit leads into.
func TopField(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// SafeField makes a caller's member name short and printable.
func SafeField(name string) string {
	if chars.IsName(name) {
		return name
	}
	return fmt.Sprintf("%.40q", name)
}

// SafeKey is SafeField for the name of a tier, an attribute or a missing fact.
func SafeKey(name string) string {
	for _, prefix := range []string{AttributePrefix, FieldPrefix} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && chars.IsName(rest) {
			return name
		}
	}
	return SafeField(name)
}

func trimOptional(p *string) *string {
	if p == nil {
		return nil
	}
	s := strings.TrimSpace(*p)
	switch s {
	case "":
		return nil
	case *p:
		return p
	}
	return &s
}

// wholeMillis returns a time as it is stored: UTC, whole milliseconds.
func wholeMillis(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := time.UnixMilli(t.UnixMilli()).UTC()
	return &u
}

// FormatInstant returns a time in its JSON form.
func FormatInstant(t *time.Time) any {
	if t == nil {
		return nil
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Named returns the field with a name, nil if there is none.
func Named[T any](fields []Field[T], name string) *Field[T] {
	for i := range fields {
		if fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}

// Names returns the names of fields, in their order.
func Names[T any](fields []Field[T]) []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].Name
	}
	return names
}

// Change is one differing field. Old and New are JSON values.
type Change struct {
	Field string `json:"field"`
	Old   any    `json:"old"`
	New   any    `json:"new"`
}
