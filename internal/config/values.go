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
// declaration. Secrets are never shown, and URLs are shown without passwords.
func Values(of any) []Value {
	var out []Value
	for _, f := range fieldsOf(reflect.TypeOf(of), "") {
		text, standard := "", f.setting.Default
		switch v := reflect.ValueOf(of).FieldByIndex(f.index).Interface().(type) {
		case Secret:
			out = append(out, Value{Setting: f.setting, Value: shown(v.Value, f.tag.Get("url") != "true"),
				IsDefault: v.Value == ""}, Value{Setting: f.setting.file(f.tag.Get("changed")), Value: v.File,
				IsDefault: v.File == ""})
			continue
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
		out = append(out, Value{Setting: f.setting, Value: shown(text, false),
			IsDefault: text == standard || text == "false" && standard == ""})
	}
	return out
}

// shown is a value without its secrets.
func shown(text string, secret bool) string {
	switch {
	case text == "":
	case secret:
		return hidden
	case strings.Contains(text, "://"):
		return addresses(text)
	}
	return text
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
