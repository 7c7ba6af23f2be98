package rulepages

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"sluice/rules"
	"sluice/rules/entries"
)

// The field kind says to what a rule applies.
const (
	kindField      = "kind"
	kindFacts      = "facts"
	kindDescriptor = "descriptor"
)

// Fields of the form that only one kind of rule has. Those of the other kind are hidden, and what they hold does not
// count.
var (
	factFields = []string{"scope", "route", "method", "when", "tiers["}
	// descriptorFields begins with the fields of the descriptor itself.
	descriptorFields = []string{"descriptor.domain", "descriptor.entries", "addend", "unlimited", "quota", "replaces",
		"share_threshold", "metadata"}
)

// ofKind copies a form without the fields of the other kind of rule.
func ofKind(form url.Values) url.Values {
	hidden := descriptorFields
	if form.Get(kindField) == kindDescriptor {
		hidden = factFields
	}
	out := url.Values{}
	for name, values := range form {
		if !slices.ContainsFunc(hidden, func(start string) bool { return strings.HasPrefix(name, start) }) {
			out[name] = values
		}
	}
	return out
}

// descriptor reads the fields of a rule with a descriptor that readFields does not read.
func (rd *ruleReader) descriptor(r *rules.Rule) {
	r.Replaces = nil
	if rd.form.Get(kindField) != kindDescriptor {
		return
	}
	d := &rules.RuleDescriptor{Domain: unescapeText(rd.text("descriptor.domain"))}
	for line := range rd.lines("descriptor.entries") {
		d.Entries = append(d.Entries, elementOf(line))
	}
	r.Descriptor = d
	for line := range rd.lines("replaces") {
		r.Replaces = append(r.Replaces, line)
	}
	for line := range rd.lines("metadata") {
		name, value, ok := strings.Cut(line, "=")
		name = unescapeText(name)
		if _, twice := r.Metadata[name]; twice || !ok {
			rd.wrong("metadata", "must have one name=value per line, each name once")
		}
		if r.Metadata == nil {
			r.Metadata = map[string]string{}
		}
		r.Metadata[name] = unescapeText(value)
	}
}

// lines yields the lines of a field that are not blank, trimmed.
func (rd *ruleReader) lines(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(rd.form.Get(name)) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// putDescriptor writes what descriptor reads.
func putDescriptor(form url.Values, r *rules.Rule) {
	form.Set(kindField, kindFacts)
	form.Del("replaces")
	d := r.Descriptor
	if d == nil {
		return
	}
	form.Set(kindField, kindDescriptor)
	form.Set("descriptor.domain", escapeText(d.Domain, ""))
	var lines []string
	for _, e := range d.Entries {
		lines = append(lines, elementLine(&e))
	}
	put(form, "descriptor.entries", strings.Join(lines, "\n"))
	put(form, "replaces", strings.Join(r.Replaces, "\n"))
	lines = nil
	for name, value := range r.Metadata {
		lines = append(lines, escapeText(name, "=")+"="+escapeText(value, ""))
	}
	slices.Sort(lines)
	put(form, "metadata", strings.Join(lines, "\n"))
	if r.Unlimited && r.Limit == 0 {
		form.Del("limit")
	}
}

// An entry of a descriptor is a line: key=value, key~pattern, key~~pattern if all values that fit share a bucket, or
// key for any value. %XX stands for a byte that would be read as something else.

// elementLine writes an entry as a line.
func elementLine(e *entries.Element) string {
	key := escapeText(e.Key, "=~")
	switch {
	case e.Pattern != "" && e.Shared:
		return key + "~~" + escapeText(e.Pattern, "")
	case e.Pattern != "":
		text := escapeText(e.Pattern, "")
		if strings.HasPrefix(text, "~") {
			text = "%7E" + text[1:]
		}
		return key + "~" + text
	case e.Value != "":
		return key + "=" + escapeText(e.Value, "")
	}
	return key
}

// elementOf reads a line of elementLine. A key before = or ~ without a text after it has any value.
func elementOf(line string) entries.Element {
	i := strings.IndexAny(line, "=~")
	if i < 0 {
		return entries.Element{Key: unescapeText(line)}
	}
	e := entries.Element{Key: unescapeText(strings.TrimSpace(line[:i]))}
	text := strings.TrimSpace(line[i+1:])
	if line[i] == '=' {
		e.Value = unescapeText(text)
		return e
	}
	text, e.Shared = strings.CutPrefix(text, "~")
	e.Pattern = unescapeText(text)
	return e
}

// escapeText writes the bytes of a text that a line would not keep as %XX: control characters, blanks at its ends, %
// and those of more.
func escapeText(text, more string) string {
	var b strings.Builder
	trimmed := strings.TrimSpace(text)
	start := strings.Index(text, trimmed)
	for i, c := range text {
		edge := i < start || i >= start+len(trimmed)
		if c == '%' || edge || unicode.IsControl(c) || strings.ContainsRune(more, c) {
			for _, by := range []byte(string(c)) {
				fmt.Fprintf(&b, "%%%02X", by)
			}
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// unescapeText reads escapeText. A % without two hexadecimal digits stands for itself.
func unescapeText(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if n, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// toDescriptorField moves an error about an element of a list, which is a line of the form, to its field.
func toDescriptorField(e rules.FieldError) rules.FieldError {
	for _, list := range []string{"descriptor.entries", "replaces", "metadata"} {
		rest, ok := strings.CutPrefix(e.Field, list)
		switch {
		case !ok || rest == "":
		case list == "metadata":
			return rules.FieldError{Field: list, Message: strings.TrimPrefix(rest, ".") + " " + e.Message}
		default:
			index, part, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
			i, err := strconv.Atoi(index)
			if err != nil {
				return e
			}
			return rules.FieldError{Field: list,
				Message: fmt.Sprintf("line %d: %s", i+1, strings.TrimSpace(strings.TrimPrefix(part, ".")+" "+e.Message))}
		}
	}
	if e.Field == "descriptor" {
		e.Field = "descriptor.entries"
	}
	return e
}
