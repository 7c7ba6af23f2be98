package webtest

import (
	"context"
	"html"
	"net/url"
	"strings"

	"sluice/rules"
)

// Credentials returns the form values of a sign-in.
func Credentials(name, password string) url.Values {
	return url.Values{"name": {name}, "password": {password}}
}

// RuleForm is the form of a valid new rule, with changes: names and values by turns.
func RuleForm(change ...string) url.Values {
	f := url.Values{"name": {"exports-per-user"}, "scope": {"user"}, "route": {"/v1/exports"}, "method": {"post"},
		"limit": {"10"}, "window_ms": {"1"}, "window_ms.unit": {"minute"}, "is_active": {"on"}}
	for i := 0; i < len(change); i += 2 {
		f.Set(change[i], change[i+1])
	}
	return f
}

// Field is the value of a field that a page carries along, "" if it has none.
func (p Page) Field(name string) string {
	_, rest, _ := strings.Cut(p.Body, `name="`+name+`" value="`)
	value, _, _ := strings.Cut(rest, `"`)
	return html.UnescapeString(value)
}

// Named is the stored rule of a name, nil if there is none.
func (f *Rules) Named(name string) *rules.Rule {
	for i := range f.List {
		if f.List[i].Name == name {
			return &f.List[i]
		}
	}
	return nil
}

// Meanwhile has ada edit the first rule.
func (f *Rules) Meanwhile(edit func(*rules.Rule)) error {
	r := f.List[0].Clone()
	edit(&r)
	_, err := f.UpdateRule(context.Background(), rules.Actor{Kind: "user", Name: "ada"}, r, r.Version)
	return err
}
