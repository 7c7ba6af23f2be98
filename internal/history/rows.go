package history

import (
	"context"
	"slices"
	"strings"
	"time"
)

// rows fills in the rows of a query, the most denied first, and the time that they cover.
func (l *loader) rows(ctx context.Context, q *Query, out *Result) {
	from, to := q.From.UTC(), q.To.UTC()
	step := time.Minute
	switch span := to.Sub(from); {
	case span > 8*Day:
		step = Day
	case span > 6*time.Hour:
		step = time.Hour
	}
	from, to = from.Truncate(step), wholeSteps(to, step)
	out.TopFrom, out.TopTo, out.LineStep = from, to, lineStep(from, to, step)
	if q.Rule == "" && (q.By == ByRule || q.By == ByNode) {
		key := tableKey{q.By, from.Unix(), to.Unix(), step}
		out.Top = l.keptRows(key, func() []Row { return l.counted(ctx, q, from, to, step) })
		return
	}
	if q.By == ByRule {
		out.Top = l.counted(ctx, q, from, to, step)
		return
	}
	width := time.Hour
	if to.Sub(from) > 8*Day || l.now.Sub(from) > MinutesKept {
		width = Day
	}
	from, to = from.Truncate(width), wholeSteps(to, width)
	out.TopFrom, out.TopTo, out.LineStep = from, to, lineStep(from, to, width)
	table := newTable(from, to, width)
	merged := l.tops(ctx, q, from, to, width, table)
	var unsure int64
	out.Top, unsure = table.rows()
	out.TopRest, out.Denied = max(merged.Rest, unsure), merged.Denied
}

// counted are the rows of rules or nodes, which are counted exactly.
func (l *loader) counted(ctx context.Context, q *Query, from, to time.Time, step time.Duration) []Row {
	if q.Rule != "" {
		table := newTable(from, to, step)
		l.collect(ctx, []string{q.Rule, ""}, from, to, step, table.counter(q.By))
		rows, _ := table.rows()
		return rows
	}
	table := l.begin(ctx, q.By, from, to, step).clone()
	l.liveMinutes(ctx, nil, from, to, table.counter(q.By))
	rows, _ := table.rows()
	return rows
}

// tops adds the most active keys, routes or tenants of a range of whole hours or days (width), and returns their sum.
func (l *loader) tops(ctx context.Context, q *Query, from, to time.Time, width time.Duration, table *table) Top {
	kind := KindMinutes
	if width == Day {
		kind = KindHours
	}
	parts := []Part{
		{kind, from.Unix() / int64(width/time.Second), (to.Unix() - 1) / int64(width/time.Second), false},
		{KindLive, from.Unix() / 3600, (to.Unix() - 1) / 3600, false},
	}
	l.collect(ctx, []string{""}, from, to, width, func(_ string, at int64, _ *slot) { table.see(at, 0) })
	var all []Top
	see := func(row *StoredRow) {
		period := width
		if row.Kind == KindLive {
			period = time.Hour
		}
		t := unpackTops(row.Tops)
		if t == nil {
			return
		}
		at := row.Period * int64(period/time.Second)
		top := t[q.By]
		all = append(all, top)
		table.see(at, top.Rest)
		for _, e := range top.Entries {
			table.line(table.row(e.Key), at, e.Allowed+e.Denied)
		}
	}
	if l.storeErr == nil {
		l.storeErr = l.read(ctx, []string{q.Rule}, parts, OnlyTops, see)
	} else {
		l.ownRows([]string{q.Rule}, parts, OnlyTops, see)
	}
	merged := mergeTop(all)
	for _, e := range merged.Entries {
		table.count(e)
	}
	return merged
}

// maxBegunTables is the largest number of begun tables that a Reader keeps.
const maxBegunTables = 4

// begunTable is a table of all rules or nodes with the figures of the store. The store returns the same figures for a
// minute, except rows that a node writes late. With 10,000 rules, adding them up is most of the work. A begunTable is
// immutable.
type begunTable struct {
	by             string
	from, to, live int64
	step           time.Duration
	posted         string // which nodes posted the minutes from live on, with their addresses
	*table
}

// begin returns the begun table of a range.
func (l *loader) begin(ctx context.Context, by string, from, to time.Time, step time.Duration) *table {
	b := &begunTable{by: by, from: from.Unix(), to: to.Unix(), live: l.live.Unix(), step: step}
	for _, m := range l.liveOf(ctx) {
		nodes := make([]string, 0, len(m.Nodes))
		for node, address := range m.Nodes {
			nodes = append(nodes, node+" "+address)
		}
		slices.Sort(nodes)
		b.posted += strings.Join(nodes, " ") + "\n"
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.begun, func(o *begunTable) bool {
		return o.by == b.by && o.from == b.from && o.to == b.to && o.live == b.live && o.step == b.step &&
			o.posted == b.posted
	})
	if i >= 0 && l.storeErr == nil {
		b = l.begun[i]
		l.mu.Unlock()
		return b.table
	}
	l.mu.Unlock()
	b.table = newTable(from, to, step)
	l.stored(ctx, nil, from, to, step, b.counter(by))
	if l.storeErr == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begun = append(l.begun[max(0, len(l.begun)+1-maxBegunTables):], b)
	}
	return b.table
}
