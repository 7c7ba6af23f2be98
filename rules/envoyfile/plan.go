package envoyfile

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/quantity"
	"sluice/rules/tree"
)

// spokenBySets are the fields that a set determines.
var spokenBySets = []string{"scope", "when", "limit", "window_ms", "mode"}

// spoken are the fields that the files determine. The others of a stored rule, which people have edited, stay as they
// are.
var spoken = []string{
	"descriptor", "limit", "window_ms", "unlimited", "quota", "replaces", "share_threshold", "metadata", "mode",
}

// ofAlgorithm are the fields that belong to an algorithm. The files determine them if the import changes the algorithm.
var ofAlgorithm = []string{"algorithm", "burst", "align", "anchor_ms", "buckets", "addend"}

// Plan compares the files with the stored rules. Rules of the domains that the files no longer have are deleted, unless
// keep is true; all others stay. A stored rule is recognised by its descriptor, whatever its name. The error is a
// *field.ValidationError with file and line.
func (in *Import) Plan(stored []rules.Rule, keep bool) (rules.Plan, error) {
	var current []rules.Rule
	byDescriptor := in.byDescriptor(stored)
	takenBy := make(map[string]*rules.Rule, len(stored)) // rules whose names cannot be used
	for i := range stored {
		s := &stored[i]
		if !in.owns(s) {
			takenBy[s.Name] = s
			continue
		}
		current = append(current, *s)
		if keep {
			takenBy[s.Name] = s
		}
	}
	for _, f := range in.rules {
		if s := byDescriptor[f.identity()]; s != nil {
			takenBy[s.Name] = s
		}
	}
	p := planner{in: in, names: make(map[string]string, len(in.rules))}
	wanted := make([]rules.Rule, len(in.rules))
	for i, f := range in.rules {
		wanted[i] = p.wanted(f, byDescriptor[f.identity()], takenBy)
	}
	for i, f := range in.rules {
		p.finish(f, &wanted[i])
	}
	if len(p.problems) > rules.MaxFileErrors {
		p.problems = append(p.problems[:rules.MaxFileErrors], field.Problem{Field: "file",
			Message: "has more problems than are listed here"})
	}
	if len(p.problems) > 0 {
		return rules.Plan{}, &field.ValidationError{Fields: p.problems}
	}
	plan := rules.MakePlan(current, wanted, !keep)
	plan.Untouched += len(stored) - len(current)
	return plan, nil
}

// Notes returns the report about an import over the stored rules: the rules that stay disabled because people have
// disabled them, the rules that keep the window of their calendar, and the notes of Report.
func (in *Import) Notes(stored []rules.Rule) []Note {
	byDescriptor := in.byDescriptor(stored)
	var out []Note
	for _, f := range in.rules {
		message := in.kept(f, byDescriptor[f.identity()])
		switch {
		case message == "":
		case len(out) == MaxNotes:
			return append(append(out, Note{Message: "and more rules that keep what people have edited"}), in.Report...)
		default:
			out = append(out, Note{File: f.place.file, Line: f.place.line, Message: message})
		}
	}
	return append(out, in.Report...)
}

// kept names the members of a rule in the files that have no effect on the stored one, "" if there are none.
func (in *Import) kept(f *found, stored *rules.Rule) string {
	var out []string
	if stored == nil {
		return ""
	}
	if !stored.IsActive {
		out = append(out, "is disabled and stays disabled; enable it to have its limit applied")
	}
	if p := stored.Calendar.Period(); p != nil && !in.setsAlgorithm(stored) && !f.rule.Unlimited &&
		f.rule.WindowMS != p.Unit.Window*p.Multiplier {
		out = append(out, "has a calendar of every "+p.Every+", which stays, so the window of the file, "+
			quantity.Period(f.rule.WindowMS)+", is not imported; remove the calendar to import it")
	}
	if out == nil {
		return ""
	}
	return "the rule " + stored.Name + " " + strings.Join(out, ", and ")
}

// byDescriptor returns the stored rule that each descriptor of the domains in the files has.
func (in *Import) byDescriptor(stored []rules.Rule) map[string]*rules.Rule {
	out := map[string]*rules.Rule{}
	for i := range stored {
		s := &stored[i]
		if !in.owns(s) {
			continue
		}
		if s.Descriptor == nil {
			out[s.Name] = s
			continue
		}
		if known := out[identity(s.Descriptor)]; known == nil || sooner(s, known) {
			out[identity(s.Descriptor)] = s
		}
	}
	return out
}

// setsAlgorithm reports whether the import changes the algorithm of a stored rule.
func (in *Import) setsAlgorithm(stored *rules.Rule) bool {
	return in.algorithm != "" && in.algorithm != stored.Algorithm
}

// Rules returns the number of rules in the files.
func (in *Import) Rules() int { return len(in.rules) }

// Check validates the rules of the files without comparing them with stored ones.
func (in *Import) Check() error {
	_, err := in.Plan(nil, false)
	return err
}

// owns reports whether a stored rule is of the domains in the files.
func (in *Import) owns(s *rules.Rule) bool {
	if s.Descriptor != nil {
		return in.has(s.Descriptor.Domain)
	}
	return slices.ContainsFunc(in.ofSets, func(names *regexp.Regexp) bool { return names.MatchString(s.Name) })
}

func (in *Import) has(domain string) bool {
	_, found := slices.BinarySearch(in.Domains, domain)
	return found
}

// sooner reports whether a, and not b, applies. Both rules have the same descriptor.
func sooner(a, b *rules.Rule) bool {
	if a.IsActive != b.IsActive {
		return a.IsActive
	}
	return a.ID < b.ID
}

type planner struct {
	in *Import
	// names holds the names in the database by those in the files.
	names    map[string]string
	problems []field.Problem
}

// wanted returns the rule as it is to be stored, except for the names that it replaces.
func (p *planner) wanted(f *found, stored *rules.Rule, takenBy map[string]*rules.Rule) rules.Rule {
	r := f.rule.Clone()
	counts := r.Algorithm // of the stored rule after the import
	if stored != nil && !p.in.setsAlgorithm(stored) {
		counts = stored.Algorithm
	}
	switch {
	case counts != limiter.FixedWindow.String():
		r.Calendar = nil
	case r.Calendar != nil:
		r.WindowMS = 0 // the calendar sets it
	}
	if stored == nil {
		if takenBy[r.Name] != nil {
			r.Name = hashedName(r.Name, f.descriptor())
		}
		if other := takenBy[r.Name]; other != nil {
			p.problem(f, fmt.Sprintf("the name %s is that of another rule", other.Name))
		}
		takenBy[r.Name] = &r
		p.names[f.rule.Name] = r.Name
		return r
	}
	p.names[f.rule.Name] = stored.Name
	fields := slices.Clone(spoken)
	if f.set != nil {
		fields = slices.Clone(spokenBySets)
	}
	if p.in.setsAlgorithm(stored) {
		fields = append(fields, ofAlgorithm...)
	} else if stored.Calendar != nil { // which says how long the window is
		fields = slices.DeleteFunc(fields, func(name string) bool { return name == "window_ms" })
	}
	if r.Calendar != nil && stored.Calendar == nil {
		fields = append(fields, "calendar", "align", "anchor_ms")
	}
	merged, err := rules.Merge(stored, &r, fields)
	if err != nil { // impossible: the fields exist
		p.problem(f, err.Error())
	}
	return merged
}

// finish sets the names that a rule replaces and validates it.
func (p *planner) finish(f *found, r *rules.Rule) {
	if f.set == nil {
		r.Replaces = nil
	}
	for _, name := range f.rule.Replaces {
		r.Replaces = append(r.Replaces, p.names[name])
	}
	slices.Sort(r.Replaces)
	r.Normalize()
	var invalid *field.ValidationError
	if err := rules.Validate(r); errors.As(err, &invalid) {
		for _, e := range invalid.Fields {
			p.problem(f, e.Field+" "+e.Message)
		}
	} else if err != nil {
		p.problem(f, err.Error())
	}
}

func (p *planner) problem(f *found, message string) {
	name, _ := pathName(f.descriptor())
	p.problems = append(p.problems, field.Problem{Field: f.place.String(),
		Message: tree.Shown(strings.ToValidUTF8(name, "?")) + ": " + message})
}
