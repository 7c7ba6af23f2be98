package traffic

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"sluice/internal/history"
	"sluice/web/view"
)

// Table is the traffic of a range by rule, key, route, tenant or node.
type Table struct {
	// By is one of history.Pivots.
	By    string
	Lines []Line
	// Rows is how many rows there are before the filter. Bounded means that there may be more that are not known.
	Rows    int
	Bounded bool
	// Of is what the rows are shares of, unless it is not Known.
	Of    history.Figures
	Known bool
	// From and To bound the time that the rows cover. It is Wider than the time of the page if the rows are counted by
	// longer steps.
	From, To time.Time
	Wider    bool
	// LineStep is how long a part of the trend of a row is, 0 if that is not known. Rest is the largest number of
	// decisions that a key, route or tenant without a row may have had.
	LineStep time.Duration
	Rest     int64
}

// Line is a row of a Table.
type Line struct {
	history.Row
	// Link filters the page by the row, or leads to where the row can be seen alone. It is never empty.
	Link string
	// More are other pages about the row.
	More []Link
}

// Link is a link with its text. About is its text without the row around it.
type Link struct{ Path, Text, About string }

// Total is the number of decisions of the row.
func (l *Line) Total() int64 { return l.Allowed + l.Denied }

// A column is one by which a table can be sorted.
type column struct {
	name, label string
	// ascending is the order of the first click; numbers begin with the largest.
	ascending bool
	compare   func(a, b *Line) int
}

// columns are the columns of the table, in order. A page without a sort is sorted by sortedFirst, descending.
var columns = []column{
	{"name", "", true, func(a, b *Line) int { return cmp.Compare(a.Key, b.Key) }},
	{"allowed", "Allowed", false, func(a, b *Line) int { return cmp.Compare(a.Allowed, b.Allowed) }},
	{"denied", "Denied", false, func(a, b *Line) int { return cmp.Compare(a.Denied, b.Denied) }},
	{"all", "Of all", false, func(a, b *Line) int { return cmp.Compare(a.Total(), b.Total()) }},
	{"share", "Of denied", false, func(a, b *Line) int { return cmp.Compare(a.Denied, b.Denied) }},
	{"peak", "Peak/s", false, func(a, b *Line) int { return cmp.Compare(a.Peak, b.Peak) }},
}

const sortedFirst = "denied"

// order is the column that a query sorts by, and whether the largest are first.
func order(q view.Query) (by column, desc bool) {
	for _, c := range columns {
		if c.name == q.Get("sort") {
			return c, q.Get("desc") != ""
		}
	}
	i := slices.IndexFunc(columns, func(c column) bool { return c.name == sortedFirst })
	return columns[i], true
}

// sortLink is the address that sorts by a column, or reverses its order if it is sorted by.
func (c column) sortLink(q view.Query) string {
	desc := "1"
	if by, now := order(q); by.name == c.name && now || by.name != c.name && c.ascending {
		desc = ""
	}
	return q.Set("sort", c.name, "desc", desc).URL()
}

// sorted is the aria-sort of a column, "" if the table is not sorted by it.
func (c column) sorted(q view.Query) string {
	by, desc := order(q)
	switch {
	case by.name != c.name:
		return ""
	case desc:
		return "descending"
	}
	return "ascending"
}

// arrange keeps the lines whose name has every word of a filter, and sorts them.
func (t *Table) arrange(q view.Query) {
	t.Rows = len(t.Lines)
	words := strings.Fields(strings.ToLower(q.Get("q")))
	t.Lines = slices.DeleteFunc(t.Lines, func(l Line) bool {
		name := strings.ToLower(l.Key)
		return slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(name, w) })
	})
	by, desc := order(q)
	slices.SortStableFunc(t.Lines, func(a, b Line) int {
		n := by.compare(&a, &b)
		if desc {
			n = -n
		}
		return cmp.Or(n, cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Total(), a.Total()), cmp.Compare(a.Key, b.Key))
	})
}

// pivots are the values of by with their nouns.
var pivots = map[string]string{history.ByRule: "rule", history.ByKey: "key", history.ByRoute: "route",
	history.ByTenant: "tenant", history.ByNode: "node"}

// title begins a sentence with a pivot: "Rule".
func title(by string) string {
	noun := pivots[by]
	return strings.ToUpper(noun[:1]) + noun[1:]
}

// ofAll reports whether the rows are of all requests although the page is filtered by a rule: nodes are not counted for
// each rule.
func (t *Table) ofAll(rule string) bool { return t.By == history.ByNode && rule != "" }

// share writes a part of a whole, which it may exceed because rows may be estimated.
func share(part, whole int64) string { return view.Percent(min(part, whole), whole) }

// known writes a number, "–" if it is not known.
func known(n int64, known bool) string {
	if !known {
		return "–"
	}
	return view.Count(n)
}

// hasTrend reports whether enough of a row is known over time for a small chart.
func (l *Line) hasTrend() bool {
	known := 0
	for _, n := range l.Line {
		if n != history.LineUnknown {
			known++
		}
	}
	return known > 1
}

// trendAbout says in which steps the trends are drawn, or why there are none.
func (t *Table) trendAbout() string {
	switch {
	case t.LineStep < time.Hour:
		return ""
	case !slices.ContainsFunc(t.Lines, func(l Line) bool { return l.hasTrend() }):
		return " There are no trends: " + pivots[t.By] + "s are counted by the " + view.StepWords(t.LineStep) +
			", and fewer than two of them have ended in this range."
	}
	return " Trends are by " + view.StepWords(t.LineStep) + ", up to the last one that has ended. A gap is not known."
}

// floats are the values of a small chart.
func floats(line []int64) []float64 {
	out := make([]float64, len(line))
	for i, n := range line {
		out[i] = float64(n)
	}
	return out
}

// about says which rows the table has.
func (t *Table) about(rule string) string {
	noun := pivots[t.By]
	s := view.Plural(int64(len(t.Lines)), noun) + "."
	if len(t.Lines) < t.Rows {
		s = view.Count(int64(len(t.Lines))) + " of " + view.Plural(int64(t.Rows), noun) + " match the filter."
	}
	if t.Bounded {
		s += " The table has the " + view.Count(int64(t.Rows)) + " " + noun + "s with the most denials, then those " +
			"with the most decisions. There may be more; sorting and filter apply to these."
	}
	if t.ofAll(rule) {
		s += " Nodes are counted for all rules together, so the rows are of all requests."
	}
	if t.By == history.ByKey && rule == "" {
		s += " A request counts under each of its keys, and as denied under those whose limit denied it."
	}
	if slices.ContainsFunc(t.Lines, func(l Line) bool { return l.Error > 0 }) {
		s += " These are the most active " + noun + "s. ± is by how much a count may differ, because it is an estimate."
	}
	return s + t.trendAbout()
}

// none says why no row matches the filter.
func (t *Table) none() string {
	s := "The filter applies to " + view.Plural(int64(t.Rows), "row") + "."
	if t.Bounded {
		s = "The filter applies to the " + view.Plural(int64(t.Rows), "row") + " of the table. There may be more " +
			pivots[t.By] + "s."
	}
	return s
}
