package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// fileDefaults are the values that FormatFile leaves out.
var fileDefaults = map[string]any{
	"description": "", "algorithm": defaultAlgorithm, "throttle": ThrottleHard,
	"mode": ModeEnforce, "fail_mode": FailOpen, "is_active": true,
	"charge_on": ChargeOnRequest, "over_limit": OverLimitDeny, "hot_keys": HotKeysExact,
}

// FormatFile writes a YAML file that ParseFile reads back: rules and pools in
// order of name, without identity, version and times, and without fields at
// their defaults; no section pools if there are none. The same content always
// gives the same bytes. The error is a *ValidationError when it holds something
// that ParseFile would refuse; its fields name it, as in rules[charges].limit.
func FormatFile(f File) ([]byte, error) {
	rs := f.Rules
	sorted := make([]Rule, len(rs))
	for i := range rs {
		sorted[i] = rs[i].Clone()
		sorted[i].Normalize()
		if err := Validate(&sorted[i]); err != nil {
			return nil, namedErrors("rules", sorted[i].Name, err)
		}
	}
	slices.SortStableFunc(sorted, func(a, b Rule) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	if err := formatPools(f.Pools, &b); err != nil {
		return nil, err
	}
	if len(sorted) == 0 {
		b.WriteString("rules: []\n")
		return []byte(b.String()), nil
	}
	b.WriteString("rules:\n")
	for i := range sorted {
		formatRule(&sorted[i], &b)
	}
	return []byte(b.String()), nil
}

// FormatDraft writes a rules file with one rule as FormatFile does, but takes a
// rule that is not valid as well, which ParseFile then refuses: it is for a rule
// that someone is still writing.
func FormatDraft(r *Rule) []byte {
	draft := r.Clone()
	draft.Normalize()
	var b strings.Builder
	b.WriteString("rules:\n")
	formatRule(&draft, &b)
	return []byte(b.String())
}

// formatRule writes one normalised rule as an element of the list.
func formatRule(r *Rule, b *strings.Builder) {
	lead := "  - "
	for _, f := range fields {
		v := f.get(r)
		if def, ok := fileDefaults[f.name]; v == nil || ok && v == def {
			continue
		}
		fmt.Fprintf(b, "%s%s: %s\n", lead, f.name, yamlValue(v))
		lead = "    "
	}
}

// namedErrors puts the section and the name before the fields of a
// *ValidationError.
func namedErrors(section, name string, err error) error {
	var ve *ValidationError
	if !errors.As(err, &ve) {
		return err
	}
	fields := make([]FieldError, len(ve.Fields))
	for i, f := range ve.Fields {
		fields[i] = FieldError{Field: section + "[" + safeField(name) + "]." + f.Field, Message: f.Message}
	}
	return &ValidationError{Fields: fields}
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
	d := json.NewDecoder(strings.NewReader(jsonText(v)))
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
		return yamlSigns.Replace(jsonText(s))
	}
	if t == nil {
		return "null"
	}
	return fmt.Sprint(t)
}

// yamlScalar writes a JSON value as YAML. Quoted text is written as JSON,
// which is a subset of YAML's double-quoted style, with the signs that begin a
// block of text or a merge key as escapes: ParseFile refuses those before it
// looks for quotes.
func yamlScalar(v any) string {
	s, ok := v.(string)
	if ok && plainText.MatchString(s) && !slices.Contains(yamlWords, strings.ToLower(s)) {
		return s
	}
	return yamlSigns.Replace(jsonText(v))
}

var yamlSigns = strings.NewReplacer("|", `\u007c`, ">", `\u003e`, "<<", `\u003c\u003c`)
