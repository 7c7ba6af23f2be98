package envoyfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/rulefile"
	"sluice/rules/tree"
)

// Options say how files become rules.
type Options struct {
	// Algorithm is the algorithm of the rules. "" means fixed_window, which counts as envoyproxy/ratelimit does, for
	// new rules, and no change for stored rules.
	Algorithm string
	// MergeDomains allows several documents for one domain. Their descriptors stand side by side, in the order of the
	// files.
	MergeDomains bool
	// CalendarMonths gives limits per month the calendar months of UTC instead of windows of 30 days, as
	// USE_CALENDAR_MONTH_RATE_LIMIT does. It needs fixed_window. A stored rule of another algorithm, or with a calendar of
	// its own, keeps its windows.
	CalendarMonths bool
}

// Import is what files say.
type Import struct {
	// Domains are sorted.
	Domains []string
	// Report lists what a person should know about the files, in their order: what differs here, and what has no effect.
	Report []Note

	algorithm string
	rules     []*found
	ofSets    []*regexp.Regexp // the names of rules that were sets
}

// Note is one line of a report.
type Note struct {
	// File is "" if it has no name. Line is 0 for a note about all files.
	File    string `json:"file,omitempty"`
	Line    int    `json:"line"`
	Message string `json:"message"`
}

// MaxNotes bounds a report. The last note counts the missing ones.
const MaxNotes = 200

// String returns the note as compilers write messages.
func (n Note) String() string {
	if n.Line == 0 {
		return n.Message
	}
	return n.Place() + ": " + n.Message
}

// Place returns the file and the line.
func (n Note) Place() string { return place{n.File, n.Line}.String() }

// place is a line of a file.
type place struct {
	file string
	line int
}

func (p place) String() string {
	if p.file == "" {
		return "line " + strconv.Itoa(p.line)
	}
	return p.file + ":" + strconv.Itoa(p.line)
}

// found is a rule with its place in the files.
type found struct {
	rule  rules.Rule
	place place
	// set stands for the descriptor of a rule that has none, because it was a set.
	set *rules.RuleDescriptor
	// label is its name in the files, "" for none. replaces are labels of other rules.
	label    string
	replaces []label
}

// descriptor returns the descriptor of the rule in the files.
func (f *found) descriptor() *rules.RuleDescriptor {
	if f.set != nil {
		return f.set
	}
	return f.rule.Descriptor
}

// identity identifies the stored rule of f.
func (f *found) identity() string {
	if f.set != nil {
		return f.rule.Name
	}
	return identity(f.rule.Descriptor)
}

type label struct {
	text string
	line int
}

// Parse reads files. The error is a *field.ValidationError that lists all problems with file and line, or a
// *rulefile.TooLargeError.
func Parse(files []Source, opt Options) (*Import, error) {
	r := reader{opt: opt, domains: map[string]*domain{}}
	for _, f := range files {
		r.file = f.Name
		if err := r.source(f.Data); err != nil {
			return nil, err
		}
	}
	in := Import{algorithm: opt.Algorithm, rules: r.rules}
	for name := range r.domains {
		in.Domains = append(in.Domains, name)
		in.ofSets = append(in.ofSets, ofSets(name))
	}
	slices.Sort(in.Domains)
	if r.elements > maxElements {
		return nil, rulefile.TooLarge("has more than %d descriptors", maxElements)
	}
	if r.comparisons > maxComparisons {
		return nil, rulefile.TooLarge("has too many patterns of one key, at most about 6,000 can stand in one list")
	}
	r.nameRules()
	r.resolveReplaces()
	if err := r.err(); err != nil {
		return nil, err
	}
	in.Report = r.notes
	if r.unlisted > 0 {
		in.Report = append(in.Report, Note{Message: fmt.Sprintf("and %d more notes", r.unlisted)})
	}
	return &in, nil
}

// reader collects what the files say.
type reader struct {
	opt      Options
	file     string
	before   int // lines of the file before the document
	domains  map[string]*domain
	rules    []*found
	problems []field.Problem
	notes    []Note
	unlisted int // notes above MaxNotes

	// What bounds the work.
	documents   int
	elements    int // elements of lists; elements of aliases count each time
	comparisons int // of patterns, and of keys of sets, with earlier ones
}

// Bounds of all files together.
const (
	maxDocuments   = 10_000
	maxElements    = 300_000
	maxComparisons = 20_000_000
)

// domain is a domain of the files.
type domain struct {
	name  string
	first place
	root  level
	// sets are the sets that can apply, in their order, and places their positions.
	sets   []set
	places []place
}

// problem adds a problem. line is the line in the document.
func (r *reader) problem(line int, format string, args ...any) {
	if len(r.problems) <= rules.MaxFileErrors { // which is enough to say that there are more
		r.problems = append(r.problems, field.Problem{Field: r.at(line).String(), Message: fmt.Sprintf(format, args...)})
	}
}

func (r *reader) note(line int, format string, args ...any) {
	if len(r.notes) == MaxNotes {
		r.unlisted++
		return
	}
	r.notes = append(r.notes, Note{File: r.file, Line: r.at(line).line, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) at(line int) place { return place{r.file, r.before + line} }

// err returns the problems, nil if there are none.
func (r *reader) err() error {
	if len(r.problems) > rules.MaxFileErrors {
		r.problems = append(r.problems[:rules.MaxFileErrors], field.Problem{Field: "file",
			Message: "has more problems than are listed here"})
	}
	if len(r.problems) > 0 {
		return &field.ValidationError{Fields: r.problems}
	}
	return nil
}

// source reads one file.
func (r *reader) source(data []byte) error {
	empty, before := true, len(r.problems)
	for d := range documents(data) {
		if r.documents++; r.documents > maxDocuments {
			return rulefile.TooLarge("has more than %d documents", maxDocuments)
		}
		r.before = d.before
		err := r.yaml(d.data, func(root tree.Value) error {
			empty = false
			if root.Kind != tree.Object {
				r.problem(root.Line, "the document must be an object with a domain, not %s", root.Kind)
				return nil
			}
			if what := notAConfiguration(fromGloo(&root)); what != "" {
				r.problem(root.Line, "%s", what)
				return nil
			}
			return r.document(fromGloo(&root))
		})
		if err != nil {
			return err
		}
	}
	if empty && len(r.problems) == before {
		r.before = 0
		r.problem(1, "the file has no domain")
	}
	return nil
}

// document reads one domain.
func (r *reader) document(root *tree.Value) error {
	m := r.members(root, "domain", "descriptors", "set_descriptors")
	name := r.text(m, "domain")
	if name == "" {
		r.problem(root.Line, "the domain must not be empty")
	}
	list, sets, line := r.list(m, "descriptors"), r.list(m, "set_descriptors"), root.Line
	if at := m["domain"]; at != nil {
		line = at.Line
	}
	d := r.domains[name]
	switch {
	case d == nil:
		d = &domain{name: name, first: r.at(line), root: newLevel()}
		if name != "" {
			r.domains[name] = d
		}
	case !r.opt.MergeDomains:
		r.problem(line, "the domain %s is already defined at %s (documents of one domain can be merged by request)",
			tree.Shown(name), d.first)
		d = &domain{name: name, root: newLevel()} // to find its other problems
	}
	if len(list) > 0 && len(sets) > 0 {
		r.problem(line, "the domain has descriptors and sets: here a profile reads the descriptors of a domain with sets, "+
			"and rules with descriptors do not apply to it; give the two different domains")
		return nil
	}
	if len(list)+len(sets) == 0 && name != "" {
		r.note(line, "the domain %s has no descriptors, so nothing is limited in it", tree.Shown(name))
	}
	if len(sets) > 0 {
		return r.sets(d, sets, line)
	}
	return r.descriptors(d, &d.root, nil, list)
}

// keys are the keys that a configuration may contain, at any place: envoyproxy/ratelimit accepts them everywhere and
// ignores them where they have no meaning.
var keys = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode",
	"quota_mode", "name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
	"unit_multiplier",
}

// members returns the members of an object that have a meaning there, by name.
func (r *reader) members(v *tree.Value, meant ...string) map[string]*tree.Member {
	out := make(map[string]*tree.Member, len(v.Members))
	for i := range v.Members {
		m := &v.Members[i]
		switch {
		case slices.Contains(meant, m.Name):
			out[m.Name] = m
		case slices.Contains(keys, m.Name):
			r.note(m.Line, "%s has no effect at this place, as in envoyproxy/ratelimit", m.Name)
		default:
			r.problem(m.Line, "unknown key %s", tree.Shown(m.Name))
		}
	}
	return out
}

// text returns a member as text; numbers and truths are taken as they are written.
func (r *reader) text(m map[string]*tree.Member, name string) string {
	at := m[name]
	if at == nil {
		return ""
	}
	v := &at.Value
	switch v.Kind {
	case tree.Null:
		return ""
	case tree.Text, tree.Truth, tree.Whole:
		return v.Text
	case tree.Number:
		if _, whole := wholeNumber(v.Text); whole {
			return v.Text
		}
		r.problem(at.Line, "%s: write a number with a fraction in quotes", name)
		return v.Text
	default:
		r.problem(at.Line, "%s must be text, not %s", name, v.Kind)
		return ""
	}
}

// truth returns a member that is true or false, also as YAML 1.1 writes it.
func (r *reader) truth(m map[string]*tree.Member, name string) bool {
	at := m[name]
	if at == nil || at.Value.Kind == tree.Null {
		return false
	}
	switch word := strings.ToLower(at.Value.Text); {
	case at.Value.Kind == tree.Truth, at.Value.Kind == tree.Text && slices.Contains(truths, word):
		return isTrue(word)
	}
	r.problem(at.Line, "%s must be true or false, not %s", name, at.Value.Kind)
	return false
}

// truths are the truths of YAML 1.1 that are text since.
var truths = []string{"y", "yes", "on", "n", "no", "off"}

// isTrue reports whether one of the truths, or true or false, is true.
func isTrue(word string) bool {
	word = strings.ToLower(word)
	return word[0] == 't' || word[0] == 'y' || word == "on"
}

// count returns a member that is a whole number of 32 bits, and whether it is there.
func (r *reader) count(m map[string]*tree.Member, name string) (int64, bool) {
	at := m[name]
	if at == nil || at.Value.Kind == tree.Null {
		return 0, false
	}
	n, whole := wholeNumber(at.Value.Text)
	if !at.Value.IsNumber() || !whole || n < 0 || n > maxCount {
		r.problem(at.Line, "%s must be a whole number from 0 to %d", name, int64(maxCount))
		return 0, true
	}
	return n, true
}

const maxCount = 1<<32 - 1

// wholeNumber reads a number in any base of YAML 1.1.
func wholeNumber(text string) (int64, bool) {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	return n, err == nil
}

// list returns the elements of a member that is a list of objects.
func (r *reader) list(m map[string]*tree.Member, name string) []tree.Value {
	at := m[name]
	switch {
	case at == nil || at.Value.Kind == tree.Null:
		return nil
	case at.Value.Kind != tree.List:
		r.problem(at.Line, "%s must be a list, not %s", name, at.Value.Kind)
		return nil
	}
	if r.elements += len(at.Value.List); r.elements > maxElements || len(r.problems) > rules.MaxFileErrors {
		return nil
	}
	return at.Value.List
}
