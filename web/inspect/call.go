package inspect

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/facts"
	"sluice/rules/field"
	"sluice/rules/match"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// maxDescriptors bounds the descriptors of a call that is described in the form.
const maxDescriptors = 32

// maxShown is the most characters of a descriptor in a table.
const maxShown = 160

// AskedCall is a call of Envoy.
type AskedCall struct {
	Domain string
	// Descriptors are the entries of each descriptor.
	Descriptors [][]entries.Entry
	// Addend is in units. Explicit means that the call has it: a rule with addend charge then charges it in full.
	Addend   int64
	Explicit bool
}

// ExplainedDescriptor is the effect of the rules in force on one descriptor of a call of Envoy.
type ExplainedDescriptor struct {
	match.Explained
	// Replaced: the rule of another descriptor of the call replaces its rule. Full: its quota is used up, and another
	// quota of the call is not.
	Replaced, Full bool
	// Bucket is nil if no limit applies.
	Bucket *BucketFigures
}

// applies reports whether the rule of the descriptor applies.
func (d *ExplainedDescriptor) applies() bool {
	return !d.Replaced && (d.Matched || d.Reason == match.EntriesUnlimited)
}

// sentence explains the result to people.
func (d *ExplainedDescriptor) sentence() string {
	if d.Replaced {
		return "The rule of another descriptor of the call replaces it."
	}
	return d.Sentence
}

// explainCall shows the effect of the rules on the call of Envoy that the form describes. If a profile reads the
// domain, it fills in the form with the facts and explains these.
func (p *Pages) explainCall(v *kit.Visit, form url.Values) error {
	call, errs := callOf(form)
	m := Explain{}
	if errs = append(errs, tooLong(form)...); len(errs) > 0 {
		form.Set("weight", "1")
		m.Form = view.NewForm(form, errs)
		return v.Page(http.StatusUnprocessableEntity, p.explainPage(v, m))
	}
	if set := p.Sets.Load(); set != nil {
		if profile := set.ProfileOf(call.Domain); profile != nil {
			return p.explainByFacts(v, form, call, profile)
		}
	}
	e, err := p.ExplainCall(v.Ctx, call)
	if err != nil {
		return err
	}
	form.Set("weight", "1")
	m.Form, m.Asked, m.Result = view.NewForm(form, nil), call, &e
	return v.Page(http.StatusOK, p.explainPage(v, m))
}

// explainByFacts explains a call whose descriptors describe one request.
func (p *Pages) explainByFacts(v *kit.Visit, form url.Values, call *AskedCall, profile *profile.Profile) error {
	var m Explain
	reader, err := facts.New(profile)
	if err != nil {
		form.Set("weight", "1")
		m.Form = view.NewForm(form, []field.Problem{{Field: "domain", Message: unreadable(profile, err)}})
		return v.Page(http.StatusUnprocessableEntity, p.explainPage(v, m))
	}
	var read facts.Facts
	reader.ReadEntries(call.Descriptors, &read)
	read.Weight = call.Addend
	filled := fromFacts(&read)
	for _, name := range []string{"domain", "entries", "addend"} {
		filled.Set(name, form.Get(name))
	}
	name := profileWords(profile)
	switch {
	case read.Skip:
		m.Notes = []string{name + "allows " + read.Descriptor.Method + " without a check."}
	case read.Denied != "":
		m.Notes = []string{name + "denies this call, because the fact " + read.Denied + " is missing."}
	default:
		m.Notes = []string{name + "reads the descriptors as one request, with the fields below."}
		return p.showExplained(v, filled, m)
	}
	m.Form = view.NewForm(filled, nil)
	return v.Page(http.StatusOK, p.explainPage(v, m))
}

// fillCall fills in the form with a call to which a rule with a descriptor applies, as far as the rule says.
func (p *Pages) fillCall(id string, m *Explain) {
	n, err := strconv.ParseInt(id, 10, 64)
	set := p.Sets.Load()
	if err != nil || set == nil {
		return
	}
	c := set.Get(n)
	if c == nil {
		m.Notes = []string{"This rule is not in force on this node. Describe a request below."}
		return
	}
	if c.Rule.Descriptor == nil {
		return
	}
	d := c.Rule.Descriptor
	text := make([]string, len(d.Entries))
	for i := range d.Entries {
		e := &d.Entries[i]
		text[i] = chars.Escape(e.Key, "=") + "=" + chars.Escape(e.Value+e.Pattern, "")
	}
	m.Form.Values.Set("domain", chars.Escape(d.Domain, ""))
	m.Form.Values.Set("entries", strings.Join(text, "\n"))
	m.Rule = c.Rule.Name
}

// callOf reads the form of a call. A blank line begins another descriptor.
func callOf(form url.Values) (*AskedCall, []field.Problem) {
	var errs []field.Problem
	wrong := func(member, format string, values ...any) {
		errs = append(errs, field.Problem{Field: member, Message: fmt.Sprintf(format, values...)})
	}
	call := &AskedCall{Domain: chars.Unescape(strings.TrimSpace(form.Get("domain"))), Addend: 1}
	if n := len(call.Domain); n < 1 || n > entries.MaxDomain {
		wrong("domain", "must have 1 to %s bytes", view.Count(entries.MaxDomain))
	}
	if text := strings.TrimSpace(form.Get("addend")); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > limiter.MaxExact {
			wrong("addend", "must be a whole number, 0 or greater")
		}
		call.Addend, call.Explicit = n, true
	}
	descriptors, problem := descriptorsOf(form.Get("entries"))
	if problem != "" {
		wrong("entries", "%s", problem)
	}
	call.Descriptors = descriptors
	return call, errs
}

// descriptorsOf reads the lines of the descriptors of a call. problem is "" if there is none.
func descriptorsOf(text string) (list [][]entries.Entry, problem string) {
	number, begin := 0, true
	for line := range strings.Lines(text) {
		number++
		if line = strings.TrimSpace(line); line == "" {
			begin = true
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = chars.Unescape(strings.TrimSpace(key)); key == "" || !ok {
			return nil, "line " + view.Digits(number) + ": must have the form key=value, or key= for an empty value"
		}
		if begin {
			list, begin = append(list, nil), false
		}
		last := &list[len(list)-1]
		*last = append(*last, entries.Entry{Key: key, Value: chars.Unescape(strings.TrimSpace(value))})
		if len(*last) > rules.MaxEntries || len(list) > maxDescriptors {
			return nil, "must have at most " + view.Count(maxDescriptors) + " descriptors of " +
				view.Count(rules.MaxEntries) + " entries"
		}
	}
	if len(list) == 0 {
		return nil, "must have at least one line, such as path=/v1/pay"
	}
	return list, ""
}

// descriptorWords writes the entries of a descriptor as one line. A long one is cut.
func descriptorWords(list []entries.Entry) string {
	out := make([]string, len(list))
	for i, e := range list {
		out[i] = chars.Escape(e.Key, "=") + "=" + chars.Escape(e.Value, "")
	}
	text := []rune(strings.Join(out, ", "))
	if len(text) <= maxShown {
		return string(text)
	}
	return string(text[:maxShown]) + "…"
}
