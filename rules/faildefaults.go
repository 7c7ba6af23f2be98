package rules

import (
	"fmt"
	"slices"
	"strings"

	"sluice/rules/field"
	"sluice/rules/route"
)

// MaxFailDefaults is the largest number of entries of FailDefaults.
const MaxFailDefaults = 100

// FailLeftOut is Rule.FailFrom of a rule that left fail_mode out, on a node without FailDefaults.
const FailLeftOut = "left out"

// FailDefaults are the fail modes that a node gives to new rules that leave fail_mode out, in order:
// the first that matches counts, and FailOpen if none does. A rule keeps its fail mode once it is stored.
type FailDefaults []failDefault

type failDefault struct {
	text    string
	methods []string // in capitals; nil for a route
	route   string   // without the star at its end
	below   bool     // the route had a star: every rule whose route begins with it
	fold    bool     // routes are compared in lower case, as route is
	mode    string
}

// ParseFailDefaults reads entries such as "POST,PUT,DELETE=closed;/payments*=closed": methods or a route, and a fail
// mode. Methods match a rule for one of them, a route matches a rule with exactly this route, or with a route
// that begins with it if it ends in a star. A rule without a method or route has none that matches.
func ParseFailDefaults(text string) (FailDefaults, error) {
	var out FailDefaults
	for n, entry := range strings.Split(text, ";") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		d, problem := parseFailDefault(entry)
		if problem != "" {
			return nil, fmt.Errorf("entry %d, %q, %s", n+1, entry, problem)
		}
		out = append(out, d)
	}
	if len(out) > MaxFailDefaults {
		return nil, fmt.Errorf("must have at most %d entries", MaxFailDefaults)
	}
	return out, nil
}

func parseFailDefault(entry string) (d failDefault, problem string) {
	at := strings.LastIndexByte(entry, '=')
	if at < 0 {
		return d, "must be METHODS=MODE or /ROUTE=MODE"
	}
	what, mode := strings.TrimSpace(entry[:at]), strings.TrimSpace(entry[at+1:])
	if modes := FieldNamed("fail_mode").OneOf; !slices.Contains(modes, mode) {
		return d, "must end in =open, =closed or =local"
	}
	d = failDefault{text: what + "=" + mode, mode: mode}
	if strings.HasPrefix(what, "/") {
		d.route, d.below = strings.CutSuffix(what, "*")
		rest := ""
		if d.below {
			rest = "x" // the text in place of a star
		}
		if normal := route.Normalize(d.route + rest); normal != d.route+rest {
			return d, fmt.Sprintf("must have a route as rules have it; write %s%s", strings.TrimSuffix(normal, rest),
				what[len(d.route):])
		}
		return d, ""
	}
	for _, m := range strings.Split(what, ",") {
		if m = route.NormalizeMethod(strings.TrimSpace(m)); !route.IsMethod(m) {
			return d, "must begin with methods, as in POST,PUT=closed, or with a route, as in /payments*=closed"
		}
		d.methods = append(d.methods, m)
	}
	return d, ""
}

// Folded returns the entries for a server that compares routes without regard to the case of ASCII letters.
func (d FailDefaults) Folded() FailDefaults {
	out := slices.Clone(d)
	for i := range out {
		out[i].fold, out[i].route = true, route.Fold(out[i].route)
	}
	return out
}

func (d *failDefault) matches(r *Rule) bool {
	if d.methods != nil {
		return r.Method != nil && slices.Contains(d.methods, *r.Method)
	}
	if r.Route == nil {
		return false
	}
	path := *r.Route
	if d.fold {
		path = route.Fold(path)
	}
	return path == d.route || d.below && strings.HasPrefix(path, d.route)
}

// OpenWrites warns of a rule for a method that writes and whose fail mode is open, where no FailDefaults are set: while
// the counter store is unavailable it limits nothing. It returns nil for other rules.
func (d FailDefaults) OpenWrites(r *Rule) []field.Problem {
	if len(d) > 0 || r.FailMode != FailOpen || r.Unlimited || r.Mode == ModeShadow || !r.IsActive {
		return nil
	}
	method := r.writes()
	if method == "" {
		return nil
	}
	text := "A rule for " + method + " has the fail mode open, so that it limits nothing while the counter store is " +
		"unavailable."
	if r.Descriptor == nil { // no FailDefaults match another
		text += " SLUICE_FAIL_DEFAULTS, which is not set, gives new rules for writes another one: " +
			"POST,PUT,PATCH,DELETE=closed."
	}
	return []field.Problem{{Field: "fail_mode", Message: text}}
}

// writes returns the method of a rule for requests that write, "" for other rules. A rule for descriptors has it as the
// value of an entry, whatever the entry's key is.
func (r *Rule) writes() string {
	is := func(method string) bool {
		return method == "POST" || method == "PUT" || method == "PATCH" || method == "DELETE"
	}
	switch {
	case r.Method != nil && is(*r.Method):
		return *r.Method
	case r.Descriptor != nil:
		for i := range r.Descriptor.Entries {
			if value := r.Descriptor.Entries[i].Value; is(value) {
				return value
			}
		}
	}
	return ""
}

// NoteIn fills in OpenWrites of a plan.
func (d FailDefaults) NoteIn(p *Plan) {
	note := func(r *Rule) {
		if d.OpenWrites(r) != nil {
			p.OpenWrites = append(p.OpenWrites, r.Name)
		}
	}
	for i := range p.Create {
		note(&p.Create[i])
	}
	for i := range p.Update {
		note(&p.Update[i].New)
	}
}

// openWritesNamed is how many rules OpenWritesWords names.
const openWritesNamed = 10

// OpenWritesWords says which rules for writes have the fail mode open, "" for none.
func (p *Plan) OpenWritesWords() string {
	n := len(p.OpenWrites)
	if n == 0 {
		return ""
	}
	names := strings.Join(p.OpenWrites[:min(n, openWritesNamed)], ", ")
	if n > openWritesNamed {
		names += fmt.Sprintf(" and %d more", n-openWritesNamed)
	}
	return "These rules for writes have the fail mode open, and SLUICE_FAIL_DEFAULTS is not set, so that they limit " +
		"nothing while the counter store is unavailable: " + names
}

// Fill sets the fail mode of a normalised rule without fail_mode from d, and notes that in FailFrom. It changes no
// other rule, and no rule if d is empty.
func (d FailDefaults) Fill(r *Rule) {
	if len(d) == 0 || r.FailFrom != FailLeftOut || r.IsMeter() { // which stays open
		return
	}
	r.FailMode, r.FailFrom = FailOpen, "no entry of SLUICE_FAIL_DEFAULTS matches"
	for i := range d {
		if d[i].matches(r) {
			r.FailMode, r.FailFrom = d[i].mode, "from SLUICE_FAIL_DEFAULTS, "+d[i].text
			return
		}
	}
}

// FillAll is Fill for each rule.
func (d FailDefaults) FillAll(list []Rule) {
	for i := range list {
		d.Fill(&list[i])
	}
}

// failDefaulted reports whether the fail mode is from FailDefaults.
func (r *Rule) failDefaulted() bool { return r.FailFrom != "" && r.FailFrom != FailLeftOut }

// FailModeWords says which fail mode a rule has and where it is from, "" if FailDefaults have no part in it.
func (r *Rule) FailModeWords() string {
	if !r.failDefaulted() {
		return ""
	}
	return "fail_mode " + r.FailMode + " (" + r.FailFrom + ")"
}

// KeepFailMode gives a rule whose fail mode comes from FailDefaults the fail mode of the stored rule that it replaces.
func (r *Rule) KeepFailMode(stored *Rule) {
	if r.failDefaulted() {
		r.FailMode, r.FailFrom = stored.FailMode, ""
	}
}
