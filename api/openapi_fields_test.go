package api

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"sluice/internal/alerts"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// describes holds a schema to the table of fields that it describes. Shapes that
// depend on other fields, and formats, stay with the requests that are held to the
// document.
func describes[T any](t *testing.T, schema *openapi3.Schema, fields []field.Field[T], others ...string) {
	t.Helper()
	var names, required []string
	for name, p := range schema.Properties {
		if !p.Value.ReadOnly && !slices.Contains(others, name) {
			names = append(names, name)
		}
	}
	want := make([]string, 0, len(fields))
	for i := range fields {
		f := &fields[i]
		want = append(want, f.Name)
		p := schema.Properties[f.Name]
		if p == nil {
			continue // told below
		}
		t.Run(f.Name, func(t *testing.T) { describesField(t, p.Value, f) })
		if f.Required && slices.Contains(schema.Required, f.Name) {
			required = append(required, f.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("members (-table +openapi.yaml):\n%s", d)
	}
	if len(required) != len(schema.Required) {
		t.Errorf("openapi.yaml requires %v, of which the table requires %v", schema.Required, required)
	}
}

func describesField[T any](t *testing.T, p *openapi3.Schema, f *field.Field[T]) {
	var object T
	kind := "object"
	at := reflect.TypeOf(f.At(&object)).Elem()
	optional := at.Kind() == reflect.Pointer
	if optional {
		at = at.Elem()
	}
	switch at.Kind() {
	case reflect.String:
		kind = "string"
	case reflect.Int64:
		kind = "integer"
	case reflect.Bool:
		kind = "boolean"
	case reflect.Slice:
		kind = "array"
	case reflect.Struct:
		if at == reflect.TypeFor[time.Time]() {
			kind = "string"
		}
	}
	if !p.Type.Is(kind) {
		t.Errorf("is %v, want %s", p.Type, kind)
	}
	if f.Required && f.Waived == nil && p.Nullable {
		t.Error("may be null, and is required")
	}
	if f.Waived != nil && !p.Nullable {
		t.Error("may be left out, and not be null")
	}
	if f.Default != nil && !p.Nullable && len(f.OneOf) > 0 {
		t.Error("has a default, and cannot be null")
	}
	// The default of an object is that of its members.
	if f.Default != nil && at.Kind() != reflect.Struct &&
		!strings.Contains(inOneLine(p.Description), defaultInWords(f.Default)) {
		t.Errorf("its description lacks %q: %s", defaultInWords(f.Default), p.Description)
	}
	var words []string
	for _, w := range p.Enum {
		if s, ok := w.(string); ok {
			words = append(words, s)
		}
	}
	if len(f.OneOf) > 0 && !slices.Equal(words, f.OneOf) {
		t.Errorf("is one of %v, want %v", words, f.OneOf)
	}
	switch {
	case f.Most == 0:
	case at.Kind() == reflect.Slice:
		if p.MaxItems == nil || *p.MaxItems != uint64(f.Most) {
			t.Errorf("does not end at %d elements", f.Most)
		}
	case at.Kind() == reflect.Map:
		if p.MaxProps == nil || *p.MaxProps != uint64(f.Most) {
			t.Errorf("does not end at %d members", f.Most)
		}
	case p.Min == nil || p.Max == nil || *p.Min != float64(f.Least) || *p.Max != float64(f.Most):
		t.Errorf("is not between %d and %d", f.Least, f.Most)
	}
	if n := f.Bytes + f.Characters; n > 0 && (p.MaxLength == nil || *p.MaxLength != uint64(n)) {
		t.Errorf("does not end at %d characters", n)
	}
}

// defaultInWords is what a description says of a default. The keyword default of OpenAPI does not stand
// in bodies, because generated clients send it (TestGenerators_NoDefaultInBodies).
func defaultInWords(v any) string {
	text := field.JSONText(v)
	switch {
	case text == `""` || text == "[]" || text == "{}":
		text = "empty"
	case strings.HasPrefix(text, "["):
		text = strings.ReplaceAll(strings.Trim(text, "[]"), ",", ", ")
	}
	return "Default " + strings.ReplaceAll(text, `"`, "") + "."
}

func inOneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestOpenAPI_DescribesTheFieldsOfTheTables(t *testing.T) {
	schemas := loadDocument(t).Components.Schemas
	rule, pool, override := schemas["RuleInput"].Value, schemas["PoolInput"].Value, schemas["KeyOverrideInput"].Value
	t.Run("rule", func(t *testing.T) { describes(t, rule, rules.Fields()) })
	t.Run("candidate", func(t *testing.T) { describes(t, rule.Properties["candidate"].Value, rules.CandidateFields()) })
	t.Run("window", func(t *testing.T) { describes(t, schemas["ScheduleWindowInput"].Value, rules.WindowFields()) })
	t.Run("denial", func(t *testing.T) { describes(t, schemas["RuleDenialInput"].Value, rules.DenialFields()) })
	t.Run("delay", func(t *testing.T) { describes(t, schemas["RuleDelayInput"].Value, rules.DelayFields()) })
	t.Run("warn", func(t *testing.T) { describes(t, schemas["RuleWarnInput"].Value, rules.WarnFields()) })
	t.Run("tier", func(t *testing.T) { describes(t, schemas["TierLimitInput"].Value, rules.TierFields()) })
	t.Run("pool", func(t *testing.T) { describes(t, pool, rules.PoolKind.Fields) })
	stored := schemas["ProfileInput"].Value
	t.Run("profile", func(t *testing.T) { describes(t, stored, rules.ProfileKind.Fields) })
	part := func(name string) *openapi3.Schema { return stored.Properties[name].Value }
	t.Run("facts", func(t *testing.T) { describes(t, part("facts"), profile.FactFields()) })
	t.Run("source", func(t *testing.T) { describes(t, schemas["FactSourceInput"].Value, profile.SourceFields()) })
	t.Run("client_ip", func(t *testing.T) { describes(t, part("client_ip"), profile.ClientIPFields()) })
	t.Run("proof", func(t *testing.T) { describes(t, part("proof"), profile.ProofFields()) })
	t.Run("silence", func(t *testing.T) { describes(t, schemas["SilenceInput"].Value, alerts.SilenceFields()) })
	t.Run("override", func(t *testing.T) {
		describes(t, override, rules.OverrideFields(), "id", "rule_id", "version", "created_at", "updated_at")
	})
}

func TestOpenAPI_NamesTheFiltersOfTheTable(t *testing.T) {
	for _, path := range []string{"/ratelimit/rules", "/ratelimit/rules/export"} {
		var names []string
		for _, p := range loadDocument(t).Paths.Value(path).Get.Parameters {
			if name := p.Value.Name; rules.FieldNamed(name) != nil || name == rules.FilterDomain {
				names = append(names, name)
			}
		}
		if d := cmp.Diff(rules.Filters(), names); d != "" {
			t.Errorf("%s (-table +openapi.yaml):\n%s", path, d)
		}
	}
}
