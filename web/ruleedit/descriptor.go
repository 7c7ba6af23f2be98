package ruleedit

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/web/bind"
	"sluice/web/view"
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
	factFields = []string{"scope", "route", "method", "host", "when", "tiers["}
	// descriptorFields begins with the fields of the descriptor itself.
	descriptorFields = []string{"descriptor.domain", "descriptor.entries", "addend", "quota",
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

// descriptor reads the fields of a rule with a descriptor that bind.Read does not read.
func (rd *ruleReader) descriptor(r *rules.Rule) {
	r.Replaces = nil
	for line := range rd.lines("replaces") {
		r.Replaces = append(r.Replaces, line)
	}
	if rd.Form.Get(kindField) != kindDescriptor {
		return
	}
	d := &rules.RuleDescriptor{Domain: chars.Unescape(rd.Text("descriptor.domain"))}
	for line := range rd.lines("descriptor.entries") {
		d.Entries = append(d.Entries, elementOf(line))
	}
	r.Descriptor = d
	r.Metadata = rd.pairs("metadata")
}

// pairs reads one name=value per line, nil for none.
func (rd *ruleReader) pairs(field string) (out map[string]string) {
	for line := range rd.lines(field) {
		name, value, ok := strings.Cut(line, "=")
		name = chars.Unescape(name)
		if _, twice := out[name]; twice || !ok {
			rd.Wrong(field, "must have one name=value per line, each name once")
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = chars.Unescape(value)
	}
	return out
}

// pairLines writes what pairs reads.
func pairLines(pairs map[string]string) string {
	lines := make([]string, 0, len(pairs))
	for name, value := range pairs {
		lines = append(lines, chars.Escape(name, "=")+"="+chars.Escape(value, ""))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// lines yields the lines of a field that are not blank, trimmed.
func (rd *ruleReader) lines(name string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(rd.Form.Get(name)) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// putDescriptor writes what descriptor reads.
func putDescriptor(form url.Values, r *rules.Rule) {
	form.Set(kindField, kindFacts)
	bind.PutText(form, "replaces", strings.Join(r.Replaces, "\n"))
	if r.Unlimited && r.Limit == 0 {
		form.Del("limit")
	}
	d := r.Descriptor
	if d == nil {
		return
	}
	form.Set(kindField, kindDescriptor)
	form.Set("descriptor.domain", chars.Escape(d.Domain, ""))
	var lines []string
	for _, e := range d.Entries {
		lines = append(lines, elementLine(&e))
	}
	bind.PutText(form, "descriptor.entries", strings.Join(lines, "\n"))
	bind.PutText(form, "metadata", pairLines(r.Metadata))
}

// An entry of a descriptor is a line: key=value, key~pattern, key~~pattern if all values that fit share a bucket, or
// key for any value. %XX stands for a byte that would be read as something else.

// elementLine writes an entry as a line.
func elementLine(e *entries.Element) string {
	key := chars.Escape(e.Key, "=~")
	switch {
	case e.Pattern != "" && e.Shared:
		return key + "~~" + chars.Escape(e.Pattern, "")
	case e.Pattern != "":
		text := chars.Escape(e.Pattern, "")
		if strings.HasPrefix(text, "~") {
			text = "%7E" + text[1:]
		}
		return key + "~" + text
	case e.Value != "":
		return key + "=" + chars.Escape(e.Value, "")
	}
	return key
}

// elementOf reads a line of elementLine. A key before = or ~ without a text after it has any value.
func elementOf(line string) entries.Element {
	i := strings.IndexAny(line, "=~")
	if i < 0 {
		return entries.Element{Key: chars.Unescape(line)}
	}
	e := entries.Element{Key: chars.Unescape(strings.TrimSpace(line[:i]))}
	text := strings.TrimSpace(line[i+1:])
	if line[i] == '=' {
		e.Value = chars.Unescape(text)
		return e
	}
	text, e.Shared = strings.CutPrefix(text, "~")
	e.Pattern = chars.Unescape(text)
	return e
}

// toDescriptorField moves an error about an element of a list, which is a line of the form, to its field.
func toDescriptorField(e field.Problem) field.Problem {
	for _, list := range []string{"descriptor.entries", "replaces", "metadata", "warn.set"} {
		rest, ok := strings.CutPrefix(e.Field, list)
		switch {
		case !ok || rest == "":
		case list == "metadata", list == "warn.set":
			return field.Problem{Field: list, Message: strings.TrimPrefix(rest, ".") + " " + e.Message}
		default:
			index, part, _ := strings.Cut(strings.TrimPrefix(rest, "["), "]")
			i, err := strconv.Atoi(index)
			if err != nil {
				return e
			}
			return field.Problem{Field: list,
				Message: "line " + view.Digits(i+1) + ": " + strings.TrimSpace(strings.TrimPrefix(part, ".")+" "+e.Message)}
		}
	}
	if e.Field == "descriptor" {
		e.Field = "descriptor.entries"
	}
	return e
}
