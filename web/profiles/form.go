package profiles

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"slices"
	"strings"

	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/web/kit"
	"sluice/web/view"
)

// input is one input of the form. Its name is the path of the field in the profile's JSON form.
type input struct{ name, label string }

// inputs are the inputs of the form, in their order.
var inputs = []input{
	{"name", "Name"},
	{"description", "Description"},
	{"facts.user", "User"},
	{"facts.api_key", "API key"},
	{"facts.tier", "Tier"},
	{"facts.attributes", "Attributes"},
	{"facts.fields", "Fields"},
	{"missing", "Missing facts"},
	{"routes", "Routes"},
	{"path", "Path"},
	{"client_ip.header", "Address header"},
	{"client_ip.trusted", "Trusted proxies"},
	{"proof.token", "Token"},
	{"proof.networks", "Networks of the gateway"},
	{"proof.certificates", "Client certificates"},
	{"claims", "Claims"},
	{"claims_header", "Claims header"},
	{"skip_methods", "Skipped methods"},
	{"weight.header", "Weight header"},
	{"headers", "Client headers"},
	{"dialect", "Dialect"},
	{"domain", "Domain"},
	{"entries", "Entries"},
}

// label is the label of an input.
func label(name string) string {
	i := slices.IndexFunc(inputs, func(in input) bool { return in.name == name })
	return inputs[i].label
}

// readyLists are lists of client headers that the form offers.
var readyLists = []struct {
	word, label string
	headers     []string
}{
	{"all", "All", profile.New().Headers},
	{"limit", "Limit only", []string{"Retry-After", "X-RateLimit-Limit"}},
	{"nothing", "Nothing but Retry-After", []string{"Retry-After"}},
}

// readyChoices begins with the headers that are typed.
func readyChoices() []view.Choice {
	choices := []view.Choice{{"", "As typed"}}
	for _, ready := range readyLists {
		choices = append(choices, view.Choice{ready.word, ready.label})
	}
	return choices
}

// lines yields the lines of a text that are not blank, trimmed.
func lines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" && !yield(line) {
				return
			}
		}
	}
}

// values fills in the form of a profile. Lists have one line per element.
func values(p *profile.Profile) url.Values {
	form := url.Values{
		"name": {p.Name}, "description": {p.Description}, "version": {view.Digits(p.Version)},
		"facts.user": {sourceLines("", p.Facts.User)}, "facts.api_key": {sourceLines("", p.Facts.APIKey)},
		"facts.tier": {sourceLines("", p.Facts.Tier)}, "facts.attributes": {sourceMap(p.Facts.Attributes)},
		"facts.fields": {sourceMap(p.Facts.Fields)}, "missing": {missingLines(p.Missing)},
		"routes": {strings.Join(p.Routes, "\n")}, "path": {p.Path}, "client_ip.header": {p.ClientIP.Header},
		"client_ip.trusted":  {strings.Join(p.ClientIP.Trusted, "\n")},
		"proof.networks":     {strings.Join(p.Proof.Networks, "\n")},
		"proof.certificates": {strings.Join(p.Proof.Certificates, "\n")},
		"claims":             {p.Claims}, "claims_header": {p.ClaimsHeader},
		"skip_methods": {strings.Join(p.SkipMethods, "\n")},
		"headers":      {strings.Join(p.Headers, "\n")},
		"dialect":      {p.Dialect},
		"domain":       {p.Domain}, "entries": {entryLines(p.Entries)},
	}
	if p.Proof.Token {
		form.Set("proof.token", "on")
	}
	if p.Weight != nil {
		form.Set("weight.header", p.Weight.Header)
	}
	return form
}

// sourceLines writes sources as "header X-User", each after a name if there is one.
func sourceLines(name string, list []profile.Source) string {
	var b strings.Builder
	for _, s := range list {
		if name != "" {
			b.WriteString(name + " ")
		}
		switch {
		case s.Header != "":
			b.WriteString("header " + s.Header)
		case s.Cookie != "":
			b.WriteString("cookie " + s.Cookie)
		case s.Claim != "":
			b.WriteString("claim " + s.Claim)
		default:
			b.WriteString("value " + s.Value)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// sourceMap writes the sources of named facts as "tenant header X-Tenant".
func sourceMap(m map[string][]profile.Source) string {
	var b strings.Builder
	for _, name := range sorted(m) {
		b.WriteString(sourceLines(name, m[name]))
	}
	return b.String()
}

// missingLines writes "user deny" or "user value anonymous".
func missingLines(m map[string]profile.MissingFact) string {
	var b strings.Builder
	for _, name := range sorted(m) {
		if fact := m[name]; fact.Action != "" {
			b.WriteString(name + " " + fact.Action + "\n")
		} else {
			b.WriteString(name + " value " + fact.Value + "\n")
		}
	}
	return b.String()
}

// entryLines writes "remote_address ip".
func entryLines(m map[string]string) string {
	var b strings.Builder
	for _, key := range sorted(m) {
		b.WriteString(key + " " + m[key] + "\n")
	}
	return b.String()
}

// reader reads the form. at knows the input and the line of each path in the profile.
type reader struct {
	form url.Values
	errs []lineError
	at   map[string]place
}

// place is a line of an input; line 0 is the input as a whole.
type place struct {
	input string
	line  int
}

type lineError struct {
	place
	message string
}

// read reads the form and validates the profile. Errors are named after the inputs.
func read(form url.Values) (profile.Profile, []field.Problem) {
	rd := &reader{form: form, at: map[string]place{}}
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	p := profile.New()
	p.Name, p.Description = text("name"), text("description")
	p.Facts.User = rd.sources("facts.user")
	p.Facts.APIKey = rd.sources("facts.api_key")
	p.Facts.Tier = rd.sources("facts.tier")
	p.Facts.Attributes = rd.named("facts.attributes", "tenant header X-Tenant")
	p.Facts.Fields = rd.named("facts.fields", "bytes header Content-Length")
	p.Missing = rd.missing()
	p.Routes, p.Path = rd.list("routes"), text("path")
	p.ClientIP = profile.ClientIP{Header: text("client_ip.header"), Trusted: rd.list("client_ip.trusted")}
	p.Proof = profile.Proof{Token: form.Get("proof.token") == "on", Networks: rd.list("proof.networks"),
		Certificates: rd.list("proof.certificates")}
	p.Claims, p.ClaimsHeader = text("claims"), text("claims_header")
	p.SkipMethods, p.Headers = rd.list("skip_methods"), rd.list("headers")
	for _, ready := range readyLists {
		if form.Get("ready_list") == ready.word {
			p.Headers = slices.Clone(ready.headers)
		}
	}
	p.Domain, p.Entries, p.Dialect = text("domain"), rd.entries(), text("dialect")
	if header := text("weight.header"); header != "" {
		p.Weight = &profile.WeightSource{Header: header}
	}
	p.Normalize()
	unreadable := len(rd.errs)
	for _, f := range kit.FieldsOf(profile.Validate(&p)) {
		rd.refused(f, rd.errs[:unreadable])
	}
	return p, rd.combined()
}

// each calls one with each line of an input and its number.
func (rd *reader) each(name string, one func(line int, text string)) {
	n := 0
	for text := range strings.Lines(rd.form.Get(name)) {
		if n++; strings.TrimSpace(text) != "" {
			one(n, strings.TrimSpace(text))
		}
	}
}

func (rd *reader) wrong(input string, line int, format string, args ...any) {
	rd.errs = append(rd.errs, lineError{place{input, line}, fmt.Sprintf(format, args...)})
}

// list reads a list with one element per line.
func (rd *reader) list(name string) []string {
	list := []string{}
	rd.each(name, func(line int, text string) {
		rd.at[name+"["+view.Digits(len(list))+"]"] = place{name, line}
		list = append(list, text)
	})
	return list
}

// sources reads the sources of a fact.
func (rd *reader) sources(name string) []profile.Source {
	list := []profile.Source{}
	rd.each(name, func(line int, text string) {
		s, ok := source(text)
		if !ok {
			rd.wrong(name, line, "must be header, cookie, claim or value, and then its name, such as header X-User")
		}
		rd.at[name+"["+view.Digits(len(list))+"]"] = place{name, line}
		list = append(list, s)
	})
	return list
}

// source reads "header X-User".
func source(text string) (s profile.Source, ok bool) {
	kind, name := word(text)
	switch kind {
	case "header":
		s.Header = name
	case "cookie":
		s.Cookie = name
	case "claim":
		s.Claim = name
	case "value":
		s.Value = name
	}
	return s, s != (profile.Source{})
}

// word splits a text after its first word.
func word(text string) (first, rest string) {
	first, rest, _ = strings.Cut(strings.ReplaceAll(text, "\t", " "), " ")
	return first, strings.TrimSpace(rest)
}

// named reads the sources of named facts, such as attributes.
func (rd *reader) named(name, example string) map[string][]profile.Source {
	m := map[string][]profile.Source{}
	rd.each(name, func(line int, text string) {
		fact, rest := word(text)
		s, ok := source(rest)
		if !ok {
			rd.wrong(name, line, "must be a name, then header, cookie, claim or value, and then its name, such as %s", example)
		}
		path := name + "." + field.SafeKey(fact)
		if _, known := rd.at[path]; !known {
			rd.at[path] = place{name, line}
		}
		rd.at[path+"["+view.Digits(len(m[fact]))+"]"] = place{name, line}
		m[fact] = append(m[fact], s)
	})
	return m
}

// missing reads what happens without a fact.
func (rd *reader) missing() map[string]profile.MissingFact {
	const name = "missing"
	m := map[string]profile.MissingFact{}
	rd.each(name, func(line int, text string) {
		fact, rest := word(text)
		what, value := word(rest)
		rd.at[name+"."+field.SafeKey(fact)] = place{name, line}
		if _, twice := m[fact]; twice {
			rd.wrong(name, line, "%s is listed twice", field.SafeKey(fact))
		}
		switch {
		case (what == profile.MissingSkip || what == profile.MissingDeny) && value == "":
			m[fact] = profile.MissingFact{Action: what}
		case what == "value" && value != "":
			m[fact] = profile.MissingFact{Value: value}
		default:
			rd.wrong(name, line, "must be a fact, then skip, deny or value and a text, such as user deny")
		}
	})
	return m
}

// entries reads which fact the entries of a key have. The fact is the last word, because a key may have blanks.
func (rd *reader) entries() map[string]string {
	const name = "entries"
	m := map[string]string{}
	rd.each(name, func(line int, text string) {
		i := strings.LastIndexAny(text, " \t")
		key, fact := strings.TrimSpace(text[:max(i, 0)]), text[i+1:]
		rd.at[name+"."+field.SafeKey(key)] = place{name, line}
		if _, twice := m[key]; twice {
			rd.wrong(name, line, "%s is listed twice", field.SafeKey(key))
		}
		if key == "" {
			rd.wrong(name, line, "must be the key of an entry, then a fact, such as remote_address ip")
		}
		m[key] = fact
	})
	return m
}

// refused moves an error of the validation to the input and line that it is about. It drops errors of lines that could
// not be read, because their content is not what was typed.
func (rd *reader) refused(f field.Problem, unreadable []lineError) {
	for path := f.Field; path != ""; path = path[:max(strings.LastIndexAny(path, ".["), 0)] {
		if at, ok := rd.at[path]; ok {
			if slices.ContainsFunc(unreadable, func(e lineError) bool { return e.place == at }) {
				return
			}
			message, other := f.Message, f.Message[strings.LastIndex(f.Message, " ")+1:]
			if first, ok := rd.at[other]; ok { // such as the same route in another line
				message = strings.TrimSuffix(f.Message, other) + "line " + view.Digits(first.line)
			}
			rd.wrong(at.input, at.line, "%s", message)
			return
		}
		if slices.ContainsFunc(inputs, func(in input) bool { return in.name == path }) {
			rd.wrong(path, 0, "%s", f.Message)
			return
		}
	}
	rd.wrong(f.Field, 0, "%s", f.Message)
}

// combined returns one error for each input, with a line of text for each line that is wrong, in order. After mostLines
// it counts the rest.
func (rd *reader) combined() (fields []field.Problem) {
	const mostLines = 5
	slices.SortStableFunc(rd.errs, func(a, b lineError) int { return cmp.Compare(a.line, b.line) })
	wrong := map[string]int{}
	for _, e := range rd.errs {
		if e.line > 0 {
			e.message = "Line " + view.Digits(e.line) + ": " + e.message
		}
		wrong[e.input]++
		i := slices.IndexFunc(fields, func(f field.Problem) bool { return f.Field == e.input })
		switch {
		case i < 0:
			fields = append(fields, field.Problem{Field: e.input, Message: e.message})
		case wrong[e.input] <= mostLines:
			fields[i].Message += "\n" + e.message
		}
	}
	for i := range fields {
		if rest := wrong[fields[i].Field] - mostLines; rest > 0 {
			fields[i].Message += "\nand " + view.Count(rest) + " more"
		}
	}
	return fields
}
