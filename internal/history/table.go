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
	parts []linePart
	byKey map[string]*Row
	// last is the row of the last access: figures of one key often follow each other.
	last *Row
}

// linePart describes a part of the small charts: whether its figures are known, and rest, the most decisions that a key
// without an entry in it may have had.
type linePart struct {
	known bool
	rest  int64
}

// newTable creates a table of a range of whole steps, which is read in steps.
func newTable(from, to time.Time, step time.Duration) *table {
	part := lineStep(from, to, step)
	return &table{from: from, part: part, parts: make([]linePart, (to.Sub(from)+part-1)/part), byKey: map[string]*Row{}}
}

// lineStep is the length of the parts of the small charts of a range that is read in steps: of whole steps, because
// nothing is known of less, and such that there are up to lines parts.
func lineStep(from, to time.Time, step time.Duration) time.Duration {
	part := max(step, (to.Sub(from)+lines-1)/lines)
	return (part + step - 1).Truncate(step)
}

func (t *table) row(key string) *Row {
	if t.last != nil && t.last.Key == key {
		return t.last
	}
	r := t.byKey[key]
	if r == nil {
		r = &Row{Key: key, Peak: -1, Line: make([]int64, len(t.parts))}
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

// counter adds the figures that it visits: of rules, or of nodes if by is ByNode. Those of all requests say what is
// known.
func (t *table) counter(by string) visit {
	return func(rule string, at int64, s *slot) {
		if rule == "" {
			t.see(at, 0)
			return
		}
		if node, isNode := strings.CutPrefix(rule, NodePrefix); isNode == (by == ByNode) {
			t.add(node, at, s)
		}
	}
}

// clone copies a table.
func (t *table) clone() *table {
	c := *t
	c.last, c.byKey, c.parts = nil, make(map[string]*Row, len(t.byKey)), slices.Clone(t.parts)
	n := len(t.parts)
	rows, lines := make([]Row, 0, len(t.byKey)), make([]int64, 0, len(t.byKey)*n)
	for key, r := range t.byKey {
		lines = append(lines, r.Line...)
		rows = append(rows, *r)
		rows[len(rows)-1].Line = lines[len(lines)-n : len(lines) : len(lines)]
		c.byKey[key] = &rows[len(rows)-1]
	}
	return &c
}

// line adds decisions of a period that begins at at, in s since 1970, to the small chart of a row.
func (t *table) line(r *Row, at, n int64) {
	if i, in := t.partAt(at); in {
		r.Line[i] += n
	}
}

// see notes that the figures of a period are known. A key without an entry may have had up to rest decisions in it.
func (t *table) see(at, rest int64) {
	if i, in := t.partAt(at); in {
		t.parts[i].known = true
		t.parts[i].rest += rest
	}
}

// partAt is the part in which a period begins.
func (t *table) partAt(at int64) (i int, in bool) {
	since := time.Duration(at-t.from.Unix()) * time.Second
	i = int(since / t.part)
	return i, since >= 0 && i < len(t.parts)
}

// count sets the figures of a key from a sketch.
func (t *table) count(e TopEntry) {
	r := t.row(e.Key)
	r.Allowed, r.Denied, r.Error = e.Allowed, e.Denied, e.Error()
}

// rows returns the rows with decisions, the most denied first, then the most active. A row of which most may not have
// been is left out; unsure is the largest number of decisions that such a row may have.
func (t *table) rows() (out []Row, unsure int64) {
	for _, r := range t.byKey {
		n := r.Allowed + r.Denied
		if r.Error > n {
			unsure = max(unsure, n+r.Error)
		} else if n > 0 {
			for i, p := range t.parts {
				if !p.known || r.Line[i] == 0 && p.rest > 0 {
					r.Line[i] = LineUnknown
				}
			}
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Row) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Allowed, a.Allowed), cmp.Compare(a.Key, b.Key))
	})
	return out, unsure
}
