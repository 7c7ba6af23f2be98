package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
	"sluice/rules/tree"
)

// Bounds of one rules file. Above them Parse fails with a *TooLargeError.
const (
	// MaxFile is the largest file, in bytes.
	MaxFile = 64 << 20
	// MaxFileRules is the largest number of rules in one file, and of pools. Of profiles a file has
	// at most rules.MaxProfiles.
	MaxFileRules = 100_000
)

// TooLargeError reports a file above a bound.
type TooLargeError struct{ message string }

func (e *TooLargeError) Error() string { return e.message }

// TooLarge returns a *TooLargeError. The text follows "The file".
func TooLarge(format string, args ...any) error {
	return &TooLargeError{fmt.Sprintf("The file "+format, args...)}
}

// Parse reads a rules file, YAML or (if it begins with a brace) JSON:
//
//	rules:
//	  - name: charges-per-user
//	    scope: user
//	    route: /v1/charges
//	    limit: 5
//	    window_ms: 1000
//	pools:
//	  - name: shop
//	    limit: 10000
//	    window_ms: 60000
//	profiles:
//	  - name: shop
//	    facts: {user: [{header: X-User}]}
//
// It is strict: unknown and repeated members, wrong types and anything that Validate refuses are errors, all reported
// at once in a *field.ValidationError under names such as "rules[3].scope", with the line. Text that does not even have
// the form of a file is reported under its place, such as "line 3:7". Rules come back normalised, in the order of the
// file, without identity: id, version, created_at and updated_at, as an export through the API has them, are ignored. A
// rule without is_active is active. An empty list is legal, and pools and profiles may be left out. Whether the pools
// that rules name exist is for CheckPools.
func Parse(data []byte) (rules.File, error) {
	if len(data) > MaxFile {
		return rules.File{}, TooLarge("has more than %d bytes (64 MiB)", MaxFile)
	}
	d := newFileDecoder()
	if err := readFile(data, d); err != nil {
		var se *tree.SyntaxError
		var large *TooLargeError
		switch {
		case errors.As(err, &large):
			return rules.File{}, err
		case errors.As(err, &se):
			return rules.File{}, &field.ValidationError{Fields: []field.Problem{{Field: fmt.Sprintf("line %d:%d", se.Line,
				se.Column), Message: se.Message}}}
		}
		return rules.File{}, &field.ValidationError{Fields: []field.Problem{{Field: "file", Message: err.Error()}}}
	}
	return d.file()
}

// readFile reads data and passes the top level to d.
func readFile(data []byte, d *fileDecoder) error {
	if !utf8.Valid(data) {
		return errors.New("must be valid UTF-8")
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return readJSON(data, d)
	}
	if len(data) > maxWhole {
		return readLongYAML(data, d)
	}
	root, err := readYAML(data)
	if err != nil {
		return err
	}
	return d.root(root)
}

// fileDecoder turns the content of a file into rules, pools and profiles, element by element, so
// that a large file is never in memory as a tree. It collects the problems.
type fileDecoder struct {
	ps       problems // of the file as a whole
	rules    section[rules.Rule]
	pools    section[rules.Pool]
	profiles section[profile.Profile]
}

// anySection is a section of whatever type.
type anySection interface {
	begin()
	add(tree.Value) error
	found() *problems
}

// section returns the section with a name, nil if there is none.
func (d *fileDecoder) section(name string) anySection {
	switch name {
	case d.rules.kind.Plural():
		return &d.rules
	case d.pools.kind.Plural():
		return &d.pools
	case d.profiles.kind.Plural():
		return &d.profiles
	}
	return nil
}

// problems are errors of fields.
type problems []field.Problem

func (ps *problems) add(member, format string, args ...any) {
	*ps = append(*ps, field.Problem{Field: member, Message: fmt.Sprintf(format, args...)})
}

// path names an element of a list in a field error.
func path(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// section is one list of a file. The only allowed fields are the fields of the kind and the fields that an export of
// the API adds.
type section[T any] struct {
	kind   *rules.Kind[T]
	most   int // elements
	beside []string

	there bool
	count int
	out   []T
	ps    problems
	names map[string]int // name to position in the list
}

func newFileDecoder() *fileDecoder {
	read := []string{"version", "created_at", "updated_at"}
	return &fileDecoder{
		rules:    section[rules.Rule]{kind: rules.RuleKind, most: MaxFileRules, beside: append(read, "id")},
		pools:    section[rules.Pool]{kind: rules.PoolKind, most: MaxFileRules, beside: read},
		profiles: section[profile.Profile]{kind: rules.ProfileKind, most: profile.MaxProfiles, beside: read},
	}
}

// file returns the content, or all problems as an error.
func (d *fileDecoder) file() (rules.File, error) {
	if !d.rules.there && len(d.ps) == 0 {
		d.ps.add("rules", "is missing")
	}
	ps := d.ps
	for _, part := range []struct {
		name string
		ps   problems
	}{{"pools", d.pools.ps}, {"profiles", d.profiles.ps}, {"rules", d.rules.ps}} {
		if ps = append(ps, part.ps...); len(ps) > rules.MaxFileErrors {
			ps = append(ps[:rules.MaxFileErrors:rules.MaxFileErrors], field.Problem{Field: part.name,
				Message: "has more errors than are listed here"})
			break
		}
	}
	if len(ps) > 0 {
		return rules.File{}, &field.ValidationError{Fields: ps}
	}
	f := rules.File{Pools: d.pools.out, Profiles: d.profiles.out, Rules: d.rules.out}
	if err := f.CheckUnique(rules.File{}, true); err != nil {
		return rules.File{}, err
	}
	return f, nil
}

// root takes a file that was read as a whole.
func (d *fileDecoder) root(root tree.Value) error {
	if root.Kind != tree.Object {
		d.ps.add("file", "must be an object with the member rules, not %s", root.Kind)
		return nil
	}
	for i := range root.Members {
		if err := d.member(&root.Members[i]); err != nil {
			return err
		}
	}
	return nil
}

// member takes one member of the file that was read as a whole.
func (d *fileDecoder) member(m *tree.Member) error {
	if !d.begins(m.Name, m.Line) {
		return nil
	}
	if m.Value.Kind != tree.List {
		d.noList(m)
		return nil
	}
	for i := range m.Value.List {
		if err := d.element(m.Name, m.Value.List[i]); err != nil {
			return err
		}
	}
	return nil
}

// begins reports whether a member of the file is a section, and adds a problem if not.
func (d *fileDecoder) begins(name string, line int) bool {
	if s := d.section(name); s != nil {
		s.begin()
		return true
	}
	d.ps.add(field.SafeField(name), "is not a known member; use rules, pools and profiles (line %d)", line)
	return false
}

func (d *fileDecoder) noList(m *tree.Member) {
	d.section(m.Name).found().add(m.Name, "must be a list of %s, [] for none, not %s (line %d)", m.Name, m.Value.Kind,
		m.Value.Line)
}

// element takes the next element of a section.
func (d *fileDecoder) element(section string, it tree.Value) error { return d.section(section).add(it) }

// begin notes that the file contains the section.
func (s *section[T]) begin() {
	s.there = true
	s.out, s.names = []T{}, map[string]int{}
}

func (s *section[T]) found() *problems { return &s.ps }

// add reads one element, unless there are too many problems already.
func (s *section[T]) add(v tree.Value) error {
	if s.count == s.most {
		return TooLarge("has more than %d %s", s.most, s.kind.Plural())
	}
	s.count++
	if len(s.ps) <= rules.MaxFileErrors {
		s.out = append(s.out, s.read(s.count-1, &v))
	}
	return nil
}

// read reads element i, then validates it except for members that could not be read.
func (s *section[T]) read(i int, v *tree.Value) T {
	t := s.kind.New()
	prefix := path(s.kind.Plural(), i)
	if v.Kind != tree.Object {
		s.ps.add(prefix, "must be an object, not %s (line %d)", v.Kind, v.Line)
		return t
	}
	lines := make(map[string]int, len(v.Members))
	bad := make(map[string]bool)
	for j := range v.Members {
		m := &v.Members[j]
		lines[m.Name] = m.Line
		f := s.kind.Field(m.Name)
		if f == nil {
			if !slices.Contains(s.beside, m.Name) {
				bad[m.Name] = true
				message := "is not a field of a " + s.kind.Noun
				if near := field.Nearest(m.Name, field.Names(s.kind.Fields)); near != "" {
					message += "; did you mean " + near + "?"
				}
				s.ps.add(prefix+"."+field.SafeField(m.Name), "%s (line %d)", message, m.Line)
			}
			continue
		}
		for _, p := range f.Decode(&t, &m.Value, field.FromFile) {
			bad[m.Name] = true
			s.ps.add(prefix+"."+p.Field, "%s (line %d)", p.Message, p.Line)
		}
	}
	s.kind.Normalize(&t)
	s.refused(prefix, s.kind.Validate(&t), bad, lines, v.Line)
	s.distinct(i, s.kind.Name(&t), lines["name"])
	return t
}

// refused adds the errors of validation, except for fields that could not be read.
func (s *section[T]) refused(prefix string, err error, bad map[string]bool, lines map[string]int, first int) {
	var ve *field.ValidationError
	if errors.As(err, &ve) {
		for _, f := range ve.Fields {
			top := field.TopField(f.Field)
			line, ok := lines[top]
			if !ok {
				line = first
			}
			if !bad[top] {
				s.ps.add(prefix+"."+f.Field, "%s (line %d)", f.Message, line)
			}
		}
	}
}

// distinct refuses a repeated name in a section.
func (s *section[T]) distinct(i int, name string, line int) {
	if first, taken := s.names[name]; taken && name != "" {
		s.ps.add(path(s.kind.Plural(), i)+".name", "is already used by %s (line %d)", path(s.kind.Plural(), first), line)
	} else {
		s.names[name] = i
	}
}
