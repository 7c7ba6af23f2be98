package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
)

// Bounds of one rules file. Beyond them ParseFile fails with a *TooLargeError.
const (
	// MaxFile is the largest file, in bytes.
	MaxFile = 64 << 20
	// MaxFileRules is the most rules in one file, and the most pools.
	MaxFileRules = 100_000
)

// TooLargeError is a file beyond a bound.
type TooLargeError struct{ message string }

func (e *TooLargeError) Error() string { return e.message }

func tooLarge(format string, args ...any) error {
	return &TooLargeError{fmt.Sprintf("The file "+format, args...)}
}

// maxFileErrors bounds how many problems of one file are reported.
const maxFileErrors = 100

// ParseFile reads a rules file, YAML or (if it begins with a brace) JSON:
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
//
// It is strict: unknown and repeated members, wrong types and anything that
// Validate refuses are errors, all reported at once in a *ValidationError under
// names such as "rules[3].scope", with the line. What does not even have the
// form of a file is reported under its place, such as "line 3:7". Rules come
// back normalised, in the order of the file, without identity: id, version,
// created_at and updated_at, as an export through the API has them, are ignored.
// A rule without is_active is active. An empty list is legal, and pools may be
// left out. Whether the pools that rules name exist is for CheckPools.
func ParseFile(data []byte) (File, error) {
	if len(data) > MaxFile {
		return File{}, tooLarge("has more than %d bytes (64 MiB)", MaxFile)
	}
	d := newFileDecoder()
	if err := readFile(data, d); err != nil {
		var se *syntaxError
		var large *TooLargeError
		switch {
		case errors.As(err, &large):
			return File{}, err
		case errors.As(err, &se):
			return File{}, &ValidationError{Fields: []FieldError{{fmt.Sprintf("line %d:%d", se.line, se.column), se.message}}}
		}
		return File{}, &ValidationError{Fields: []FieldError{{"file", err.Error()}}}
	}
	return d.file()
}

// readFile reads data and hands on to d what it finds at the top.
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

// fileDecoder turns what a file holds into rules and pools, element by element, so
// that a large file is never in memory as a tree. It collects what is wrong.
type fileDecoder struct {
	ps    problems // of the file as a whole
	rules section[Rule]
	pools section[Pool]
}

// section is one list of a file.
type section[T any] struct {
	name  string
	read  func(*section[T], int, item) T
	there bool
	count int
	out   []T
	ps    problems
	names map[string]int // name to position in the list
}

func newFileDecoder() *fileDecoder {
	return &fileDecoder{
		rules: section[Rule]{name: "rules", read: readRule, names: map[string]int{}},
		pools: section[Pool]{name: "pools", read: readPool, names: map[string]int{}},
	}
}

// file is what has been read, or everything that is wrong with it.
func (d *fileDecoder) file() (File, error) {
	if !d.rules.there && len(d.ps) == 0 {
		d.ps.add("rules", "is missing")
	}
	ps := slices.Concat(d.ps, d.pools.ps, d.rules.ps)
	if len(ps) > maxFileErrors {
		name := "rules"
		if len(d.ps)+len(d.pools.ps) > maxFileErrors {
			name = "pools"
		}
		ps = append(ps[:maxFileErrors:maxFileErrors], FieldError{name, "has more errors than are listed here"})
	}
	if len(ps) > 0 {
		return File{}, &ValidationError{Fields: ps}
	}
	return File{Pools: d.pools.out, Rules: d.rules.out}, nil
}

// root takes a file that has been read whole.
func (d *fileDecoder) root(root item) error {
	if root.kind != itemObject {
		d.ps.add("file", "must be an object with the member rules, not %s", itemNames[root.kind])
		return nil
	}
	for i := range root.members {
		if err := d.member(&root.members[i]); err != nil {
			return err
		}
	}
	return nil
}

// member takes one member of the file that has been read whole.
func (d *fileDecoder) member(m *member) error {
	if !d.begins(m.name, m.line) {
		return nil
	}
	if m.value.kind != itemList {
		d.noList(m)
		return nil
	}
	for i := range m.value.list {
		if err := d.element(m.name, m.value.list[i]); err != nil {
			return err
		}
	}
	return nil
}

// begins reports whether a member of the file is a section, and says so if not.
func (d *fileDecoder) begins(name string, line int) bool {
	switch name {
	case "rules":
		d.rules.there = true
	case "pools":
		d.pools.there = true
	default:
		d.ps.add(safeField(name), "is not known here; only rules and pools are (line %d)", line)
		return false
	}
	return true
}

func (d *fileDecoder) noList(m *member) {
	ps := &d.rules.ps
	if m.name == "pools" {
		ps = &d.pools.ps
	}
	ps.add(m.name, "must be a list of %s, [] for none, not %s (line %d)", m.name, itemNames[m.value.kind], m.value.line)
}

// element takes the next element of a section.
func (d *fileDecoder) element(section string, it item) error {
	if section == "pools" {
		return d.pools.add(it)
	}
	return d.rules.add(it)
}

// add reads one element, unless too much is wrong already.
func (s *section[T]) add(it item) error {
	if s.count == MaxFileRules {
		return tooLarge("has more than %d %s", MaxFileRules, s.name)
	}
	s.count++
	if len(s.ps) <= maxFileErrors {
		s.out = append(s.out, s.read(s, s.count-1, it))
	}
	return nil
}

// readRule reads one rule, then validates it unless it could not be read whole.
func readRule(d *section[Rule], i int, it item) Rule {
	r := Rule{IsActive: true}
	prefix := fmt.Sprintf("rules[%d]", i)
	if it.kind != itemObject {
		d.ps.add(prefix, "must be an object, not %s (line %d)", itemNames[it.kind], it.line)
		return r
	}
	lines := make(map[string]int, len(it.members))
	bad := make(map[string]bool)
	for j := range it.members {
		m := &it.members[j]
		lines[m.name] = m.line
		if IsComposite(m.name) {
			n := setComposite(&r, m.name, &m.value)
			for _, f := range n.ps {
				bad[m.name] = true
				d.ps.add(prefix+"."+f.Field, "%s (line %d)", f.Message, n.lines[f.Field])
			}
			continue
		}
		if err := setMember(&r, m); err != nil {
			bad[m.name] = true
			d.ps.add(prefix+"."+safeField(m.name), "%s (line %d)", err, m.line)
		}
	}
	r.Normalize()
	d.refused(prefix, Validate(&r), bad, lines, it.line)
	d.distinct(i, r.Name, lines["name"])
	return r
}

// readPool reads one pool as readRule reads a rule.
func readPool(d *section[Pool], i int, it item) Pool {
	p := NewPool()
	prefix := path("pools", i)
	if it.kind != itemObject {
		d.ps.add(prefix, "must be an object, not %s (line %d)", itemNames[it.kind], it.line)
		return p
	}
	lines := make(map[string]int, len(it.members))
	bad := make(map[string]bool)
	for j := range it.members {
		m := &it.members[j]
		lines[m.name] = m.line
		if err := setPoolMember(&p, m); err != nil {
			bad[m.name] = true
			d.ps.add(prefix+"."+safeField(m.name), "%s (line %d)", err, m.line)
		}
	}
	p.Normalize()
	d.refused(prefix, ValidatePool(&p), bad, lines, it.line)
	d.distinct(i, p.Name, lines["name"])
	return p
}

// refused adds what validation says, but for fields that could not be read.
func (s *section[T]) refused(prefix string, err error, bad map[string]bool, lines map[string]int, first int) {
	var ve *ValidationError
	if errors.As(err, &ve) {
		for _, f := range ve.Fields {
			top := topField(f.Field)
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

// distinct refuses a name that appears twice in a section.
func (s *section[T]) distinct(i int, name string, line int) {
	if first, taken := s.names[name]; taken && name != "" {
		s.ps.add(path(s.name, i)+".name", "is the name of %s too (line %d)", path(s.name, first), line)
	} else {
		s.names[name] = i
	}
}

// topField is the field of the rule that a path such as tiers.free.limit leads
// into.
func topField(path string) string {
	if i := strings.IndexAny(path, ".["); i >= 0 {
		return path[:i]
	}
	return path
}

// safeField keeps a caller's member name short and printable.
func safeField(name string) string {
	if chars.IsName(name) {
		return name
	}
	return fmt.Sprintf("%.40q", name)
}

// setMember puts one member of the file into the rule.
func setMember(r *Rule, m *member) error {
	v := &m.value
	switch m.name {
	case "name":
		return v.intoText(&r.Name)
	case "description":
		return v.intoText(&r.Description)
	case "scope":
		return v.intoText(&r.Scope)
	case "route":
		return optional(v, &r.Route, v.intoText)
	case "method":
		return optional(v, &r.Method, v.intoText)
	case "algorithm":
		return v.intoText(&r.Algorithm)
	case "limit":
		return v.intoWhole(&r.Limit)
	case "window_ms": // which a calendar replaces
		return wholeOrNull(v, &r.WindowMS)
	case "burst":
		return optional(v, &r.Burst, v.intoWhole)
	case "align":
		return optional(v, &r.Align, v.intoText)
	case "anchor_ms":
		return optional(v, &r.AnchorMS, v.intoWhole)
	case "buckets":
		return optional(v, &r.Buckets, v.intoWhole)
	case "weight_field":
		return optional(v, &r.WeightField, v.intoText)
	case "throttle":
		return v.intoText(&r.Throttle)
	case "soft_percent":
		return optional(v, &r.SoftPercent, v.intoWhole)
	case "elastic_percent":
		return optional(v, &r.ElasticPercent, v.intoWhole)
	case "pool":
		return optional(v, &r.Pool, v.intoText)
	case "priority":
		return optional(v, &r.Priority, v.intoText)
	case "active_from":
		return optional(v, &r.ActiveFrom, v.intoInstant)
	case "active_until":
		return optional(v, &r.ActiveUntil, v.intoInstant)
	case "when":
		return optional(v, &r.When, v.intoText)
	case "charge_on":
		return v.intoText(&r.ChargeOn)
	case "over_limit":
		return v.intoText(&r.OverLimit)
	case "retry_jitter_ms":
		return optional(v, &r.RetryJitterMS, v.intoWhole)
	case "hot_keys":
		return v.intoText(&r.HotKeys)
	case "hot_raise_percent":
		return optional(v, &r.HotRaisePercent, v.intoWhole)
	case "mode":
		return v.intoText(&r.Mode)
	case "fail_mode":
		return v.intoText(&r.FailMode)
	case "is_active":
		return v.intoTruth(&r.IsActive)
	case "id", "version", "created_at", "updated_at":
		return nil
	}
	return errors.New("is not a field of a rule")
}

// setPoolMember puts one member of the file into the pool.
func setPoolMember(p *Pool, m *member) error {
	v := &m.value
	switch m.name {
	case "name":
		return v.intoText(&p.Name)
	case "description":
		return v.intoText(&p.Description)
	case "limit":
		return v.intoWhole(&p.Limit)
	case "window_ms":
		return v.intoWhole(&p.WindowMS)
	case "normal_percent":
		return wholeOrNull(v, &p.NormalPercent)
	case "low_percent":
		return wholeOrNull(v, &p.LowPercent)
	case "version", "created_at", "updated_at":
		return nil
	}
	return errors.New("is not a field of a pool")
}

// intoText leaves *dst for null, as the API does: nothing is given.
func (it *item) intoText(dst *string) error {
	if it.kind == itemNull {
		return nil
	}
	if it.kind != itemText {
		return fmt.Errorf("must be text, not %s; put it in quotes", itemNames[it.kind])
	}
	*dst = it.text
	return nil
}

func (it *item) intoWhole(dst *int64) error {
	if it.kind != itemWhole {
		return fmt.Errorf("must be a whole number, not %s", itemNames[it.kind])
	}
	n, err := strconv.ParseInt(it.text, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return errors.New("is out of range")
	}
	if err != nil {
		return errors.New("must be a whole number in plain decimal digits")
	}
	*dst = n
	return nil
}

// intoTruth leaves *dst for null.
func (it *item) intoTruth(dst *bool) error {
	if it.kind == itemNull {
		return nil
	}
	if it.kind != itemTruth {
		return fmt.Errorf("must be true or false, not %s", itemNames[it.kind])
	}
	*dst = it.text[0] == 't' || it.text[0] == 'T'
	return nil
}

// wholeOrNull is intoWhole that leaves *dst for null.
func wholeOrNull(it *item, dst *int64) error {
	if it.kind == itemNull {
		return nil
	}
	return it.intoWhole(dst)
}

// optional leaves *dst nil for null, else sets it to what into reads.
func optional[T any](it *item, dst **T, into func(*T) error) error {
	if it.kind == itemNull {
		return nil
	}
	v := new(T)
	if err := into(v); err != nil {
		return err
	}
	*dst = v
	return nil
}
