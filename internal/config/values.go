package config

import (
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"time"
)

// Value is a setting with the value in force, for people.
type Value struct {
	Setting
	// Value is "" where nothing is set. It does not contain secrets.
	Value string
	// IsDefault: the value is the default.
	IsDefault bool
}

// hidden stands for a secret that is set.
const hidden = "set, not shown"

// Values lists every setting of a struct with its value, in order of
// declaration. Fields tagged secret:"true" are never shown, and URLs are shown
// without passwords.
func Values(of any) []Value {
	settings, values := Settings(of), reflected(reflect.ValueOf(of))
	out := make([]Value, len(settings))
	for i, s := range settings {
		text, standard := "", s.Default
		switch v := values[i].value.Interface().(type) {
		case []string:
			text = strings.Join(v, ",")
		case time.Duration:
			text = duration(v)
			if d, err := time.ParseDuration(standard); err == nil {
				standard = duration(d)
			}
		default:
			text = fmt.Sprint(v)
		}
		out[i] = Value{Setting: s, Value: text, IsDefault: text == standard || text == "false" && standard == ""}
		switch {
		case text == "":
		case values[i].secret:
			out[i].Value = hidden
		case strings.Contains(text, "://"):
			out[i].Value = addresses(text)
		}
	}
	return out
}

// duration writes 12h for 12h0m0s.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

type reflectedField struct {
	value  reflect.Value
	secret bool
}

// reflected lists the fields in the order of Settings.
func reflected(v reflect.Value) []reflectedField {
	var out []reflectedField
	for i := range v.NumField() {
		switch f := v.Type().Field(i); {
		case f.Anonymous:
			out = append(out, reflected(v.Field(i))...)
		case isSetting(f):
			out = append(out, reflectedField{v.Field(i), f.Tag.Get("secret") == "true"})
		}
	}
	return out
}

// addresses keeps scheme, host and path of one or several URLs. Passwords are in
// the part before the host or in the query.
func addresses(text string) string {
	parts := strings.Split(text, ",")
	for i, p := range parts {
		u, err := url.Parse(strings.TrimSpace(p))
		if err != nil || strings.Contains(p, "@") && u.User == nil {
			return hidden
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		parts[i] = u.String()
	}
	return strings.Join(parts, ",")
}
