package history

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// table gathers rows.
type table struct {
	from  time.Time
	part  time.Duration // each of the parts of a small chart
	parts int
	byKey map[string]*Row
	// last is the row that was asked for last: figures of one key often follow each other.
	last *Row
}

// newTable creates a table of a range, whose small charts have up to lines parts.
func newTable(from, to time.Time) *table {
	part := max(time.Minute, (to.Sub(from)+lines-1)/lines)
	return &table{from: from, part: part, parts: int((to.Sub(from) + part - 1) / part), byKey: map[string]*Row{}}
}

func (t *table) row(key string) *Row {
	if t.last != nil && t.last.Key == key {
		return t.last
	}
	r := t.byKey[key]
	if r == nil {
		r = &Row{Key: key, Peak: -1, Line: make([]int64, t.parts)}
		t.byKey[key] = r
	}
	t.last = r
	return r
}

// add adds exact figures.
func (t *table) add(key string, at int64, s *slot) {
	r := t.row(key)
	r.Allowed += s.Allowed
	r.Denied += s.Denied
	r.Peak = max(r.Peak, s.Peak)
	t.line(r, at, s.Allowed+s.Denied)
}

// counter adds the figures that it visits: of rules, or of nodes if by is ByNode.
func (t *table) counter(by string) visit {
	return func(rule string, at int64, s *slot) {
		node, isNode := strings.CutPrefix(rule, NodePrefix)
		if rule != "" && isNode == (by == ByNode) {
			t.add(node, at, s)
		}
	}
}

// clone copies a table.
func (t *table) clone() *table {
	c := *t
	c.last, c.byKey = nil, make(map[string]*Row, len(t.byKey))
	rows, lines := make([]Row, 0, len(t.byKey)), make([]int64, 0, len(t.byKey)*t.parts)
	for key, r := range t.byKey {
		lines = append(lines, r.Line...)
		rows = append(rows, *r)
		rows[len(rows)-1].Line = lines[len(lines)-t.parts : len(lines) : len(lines)]
		c.byKey[key] = &rows[len(rows)-1]
	}
	return &c
}

// line adds decisions of a period that begins at at, in s since 1970, to the small chart of a row.
func (t *table) line(r *Row, at, n int64) {
	since := time.Duration(at-t.from.Unix()) * time.Second
	if i := int(since / t.part); since >= 0 && i < t.parts {
		r.Line[i] += n
	}
}

// count sets the figures of a key from a sketch.
func (t *table) count(e TopEntry) {
	r := t.row(e.Key)
	r.Allowed, r.Denied, r.Error = e.Allowed, e.Denied, e.Error()
}

// rows returns the rows with decisions, the most denied first, then the most active.
func (t *table) rows() []Row {
	var out []Row
	for _, r := range t.byKey {
		if r.Allowed+r.Denied > 0 {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed), cmp.Compare(a.Key, b.Key))
	})
	return out
}
