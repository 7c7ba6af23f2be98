package rulefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
)

// Format writes a YAML file that Parse reads back: rules, pools and profiles in order
// of name, without identity, version and times, and without fields at their defaults
// (except fail_mode, whose default is a setting of the server that reads the file);
// no section pools or profiles if there are none. The same content always gives the same
// bytes. The error is a *field.ValidationError when it holds something that Parse
// would refuse; its fields name it, as in rules[charges].limit.
func Format(f rules.File) ([]byte, error) {
	var b strings.Builder
	list, err := checked(rules.RuleKind, f.Rules)
	if err != nil {
		return nil, err
	}
	pools, err := checked(rules.PoolKind, f.Pools)
	if err != nil {
		return nil, err
	}
	profiles, err := checked(rules.ProfileKind, f.Profiles)
	if err != nil {
		return nil, err
	}
	elements(&b, rules.PoolKind, pools)
	elements(&b, rules.ProfileKind, profiles)
	if len(list) == 0 {
		b.WriteString("rules: []\n")
	}
	elements(&b, rules.RuleKind, list)
	return []byte(b.String()), nil
}

// checked are normalised copies in order of name.
func checked[T any](k *rules.Kind[T], list []T) ([]T, error) {
	out := make([]T, len(list))
	for i := range list {
		t := k.Clone(&list[i])
		k.Normalize(&t)
		if err := k.Validate(&t); err != nil {
			return nil, namedErrors(k.Plural(), k.Name(&t), err)
		}
		out[i] = t
	}
	slices.SortStableFunc(out, func(a, b T) int { return strings.Compare(k.Name(&a), k.Name(&b)) })
	return out, nil
}

// elements writes the section of a kind, if there are any.
func elements[T any](b *strings.Builder, k *rules.Kind[T], list []T) {
	if len(list) > 0 {
		b.WriteString(k.Plural() + ":\n")
	}
	for i := range list {
		element(b, k.Fields, &list[i])
	}
}

// FormatDraft writes a rules file with one rule as Format does, but also accepts an invalid rule, which Parse then
// refuses: it is for a rule that someone is still writing.
func FormatDraft(r *rules.Rule) []byte {
	draft := r.Clone()
	draft.Normalize()
	var b strings.Builder
	b.WriteString("rules:\n")
	element(&b, rules.Fields(), &draft)
	return []byte(b.String())
}

// element writes one normalised object as an element of its list.
func element[T any](b *strings.Builder, fields []field.Field[T], t *T) {
	lead := "  - "
	for i := range fields {
		f := &fields[i]
		v := f.Value(t)
		if v == nil || f.IsDefault(t) && (f.Spelled == nil || !f.Spelled(t)) {
			continue
		}
		if f.File != nil {
			v = f.File(t)
		}
		if lines, ok := v.([]string); ok && len(lines) > 0 {
			fmt.Fprintf(b, "%s%s:\n", lead, f.Name)
			for _, line := range lines {
				fmt.Fprintf(b, "      - %s\n", yamlScalar(line))
			}
		} else {
			fmt.Fprintf(b, "%s%s: %s\n", lead, f.Name, yamlValue(v))
		}
		lead = "    "
	}
}

// namedErrors puts the section and the name before the fields of a
// *field.ValidationError.
func namedErrors(section, name string, err error) error {
	var ve *field.ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	fields := make([]field.Problem, len(ve.Fields))
	for i, f := range ve.Fields {
		fields[i] = field.Problem{Field: section + "[" + field.SafeField(name) + "]." + f.Field, Message: f.Message}
	}
	return &field.ValidationError{Fields: fields}
}

// plainText is what YAML reads as text without quotes, among the values that
// rules have; the words that mean something else are left to yamlScalar.
var plainText = regexp.MustCompile(`^[A-Za-z/][A-Za-z0-9_./*{}+:-]*[A-Za-z0-9_/*}]$`)

var yamlWords = []string{"null", "true", "false", "yes", "no", "on", "off"}

// yamlValue writes a JSON value on one line: scalars as yamlScalar does, objects
// and lists in brackets.
func yamlValue(v any) string {
	switch v.(type) {
	case string, int64, bool:
		return yamlScalar(v)
	}
	d := json.NewDecoder(strings.NewReader(field.JSONText(v)))
	d.UseNumber()
	var b strings.Builder
	if err := yamlFlow(&b, d); err != nil { // impossible: the text is JSON
		return yamlScalar(v)
	}
	return b.String()
}

// yamlFlow copies one JSON value in the flow style of YAML.
func yamlFlow(b *strings.Builder, d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	open, nested := t.(json.Delim)
	if !nested {
		b.WriteString(flowScalar(t))
		return nil
	}
	b.WriteRune(rune(open))
	for n := 0; d.More(); n++ {
		if n > 0 {
			b.WriteString(", ")
		}
		if open == '{' {
			name, err := d.Token()
			if err != nil {
				return err
			}
			b.WriteString(flowScalar(name) + ": ")
		}
		if err := yamlFlow(b, d); err != nil {
			return err
		}
	}
	end, err := d.Token()
	if err == nil {
		fmt.Fprint(b, end)
	}
	return err
}

// flowWord is text that needs no quotes inside brackets.
var flowWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_/]*$`)

func flowScalar(t json.Token) string {
	if s, ok := t.(string); ok && (!flowWord.MatchString(s) || slices.Contains(yamlWords, strings.ToLower(s))) {
		return yamlSigns.Replace(field.JSONText(s))
	}
	if t == nil {
		return "null"
	}
	return fmt.Sprint(t)
}

// yamlScalar writes a JSON value as YAML. Quoted text is written as JSON,
// which is a subset of YAML's double-quoted style except for two signs, which
// become escapes.
func yamlScalar(v any) string {
	s, ok := v.(string)
	if ok && plainText.MatchString(s) && !slices.Contains(yamlWords, strings.ToLower(s)) {
		return s
	}
	return yamlSigns.Replace(field.JSONText(v))
}

var yamlSigns = strings.NewReplacer("\ufffe", `\ufffe`, "\uffff", `\uffff`)
