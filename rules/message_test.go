package rules

import (
	"errors"
	"strings"
	"testing"

	"sluice/rules/field"
)

func TestMessage_FillsInItsPlaceholders(t *testing.T) {
	v := MessageValues{Limit: "100", WindowMS: 60_000, Key: "user:42", Route: "/v1/charges", RetryAfter: 12}
	for text, want := range map[string]string{
		"Too many for {key} on {route}. Retry in {retry_after}s.": "Too many for user:42 on /v1/charges. Retry in 12s.",
		"{limit} per {window}":          "100 per minute",
		"no placeholder":                "no placeholder",
		"{{key}} is {key}, {{{limit}}":  "{key}} is user:42, {100}",
		"}":                             "}",
		"{retry_after}{retry_after}{{x": "1212{x",
	} {
		m, err := parseMessage(text, "")
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := m.Text(&v); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
		never := v
		never.RetryAfter = -1
		if got := m.Text(&never); (got == "") != strings.Contains(text, "retry_after") {
			t.Errorf("%s: got %q where waiting does not help", text, got)
		}
	}
	m, _ := parseMessage("on {route}", "")
	if got := m.Text(&MessageValues{}); got != "on every route" {
		t.Errorf("without a route: %q", got)
	}
}

func TestMessage_BadPlaceholdersAreRefused(t *testing.T) {
	for _, text := range []string{"{", "{}", "{user}", "{Key}", "{key", "a {limit} {", "{{{", "{ key }"} {
		r := Rule{Name: "r", Scope: "user", Limit: 5, WindowMS: 1000}
		r.Normalize()
		r.Message = &text
		var bad *field.ValidationError
		if err := Validate(&r); !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Field != "message" {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{strings.Repeat("é", 301), "a\nb", "a\x00b", "\u202e"} {
		r := Rule{Name: "r", Scope: "user", Limit: 5, WindowMS: 1000}
		r.Normalize()
		r.Message = &text
		if Validate(&r) == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
