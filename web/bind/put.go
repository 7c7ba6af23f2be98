package bind

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/rules/field"
	"sluice/web/view"
)

// Put writes the fields of an object, except composite ones.
func Put[T any](form url.Values, under string, fields []field.Field[T], t *T) {
	for i := range fields {
		f := &fields[i]
		name := under + f.Name
		switch p := f.At(t).(type) {
		case **time.Time:
			PutInstant(form, name, *p)
			continue
		case *[]string:
			if len(*p) > 0 {
				form[name] = slices.Clone(*p)
			}
			continue
		case *[]int64:
			PutText(form, name, listOf(*p))
			continue
		}
		switch v := f.Value(t).(type) {
		case string:
			PutText(form, name, v)
		case int64:
			if f.Millis {
				PutMillis(form, name, &v)
			} else {
				form.Set(name, view.Digits(v))
			}
		case bool:
			if v {
				form.Set(name, "on")
			}
		}
	}
}

// listOf writes numbers as the method numbers reads them.
func listOf(numbers []int64) string {
	texts := make([]string, len(numbers))
	for i, n := range numbers {
		texts[i] = view.Digits(n)
	}
	return strings.Join(texts, ", ")
}

// PutText fills in an input unless value is "".
func PutText(f url.Values, name, value string) {
	if value != "" {
		f.Set(name, value)
	}
}

// PutMillis writes a length of time in the largest unit that divides it.
func PutMillis(f url.Values, name string, ms *int64) {
	if ms == nil {
		return
	}
	for _, u := range timeUnits {
		if *ms%u.ms == 0 && (*ms != 0 || u.ms == 1) {
			f.Set(name, view.Digits(*ms/u.ms))
			f.Set(name+UnitSuffix, u.name)
			return
		}
	}
}

// PutInstant writes a date and time in UTC, nothing if it is nil.
func PutInstant(f url.Values, name string, t *time.Time) {
	if t == nil {
		return
	}
	layout := "2006-01-02T15:04:05.999"
	if t.Equal(t.Truncate(time.Minute)) {
		layout = "2006-01-02T15:04" // browsers then show no seconds
	}
	f.Set(name, t.UTC().Format(layout))
}
