package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/rules"
)

// lag is the age from which a second is complete.
const lag = 2 * time.Second

// lines is the number of parts of Row.Line, at most.
const lines = 30

// ReaderOptions configure a Reader.
type ReaderOptions struct {
	// Recent has what is not in Store yet.
	Recent Recent
	Store  Store
	// Exists reports whether a rule of that name is in force. Rules that are not may have figures all the same.
	Exists func(rule string) bool
	// Keep is how long hours and days are kept.
	Keep time.Duration
	Now  func() time.Time
}

// Reader answers queries from the counters and from the rule database. It is safe for concurrent use.
type Reader struct {
	opt ReaderOptions

	askMu sync.Mutex // held while the store is asked
	// written is the instant until which figures were in the store at the time asked, failed the error of that read.
	written, asked time.Time
	failed         error

	mu     sync.Mutex
	tables map[tableKey]*keptTable
	begun  []*begunTable
	merged map[int64]*mergedMinute
}

var _ Source = (*Reader)(nil)

// NewReader creates a Reader.
func NewReader(opt ReaderOptions) *Reader { return &Reader{opt: opt} }

// Stats implements Source.
func (r *Reader) Stats(ctx context.Context, q Query) (Result, error) {
	if err := q.Validate(); err != nil {
		return Result{}, err
	}
	l := loader{Reader: r, now: r.opt.Now().UTC(), rule: q.Rule}
	l.written, l.storeErr = r.writtenUntil(ctx)
	from, to := q.From.UTC().Truncate(q.Step), wholeSteps(q.To.UTC(), q.Step)
	out := Result{From: from, To: to, Step: q.Step, CompleteUntil: l.complete(q.Step)}
	switch {
	case q.Series && q.Rule == "" && q.By == ByRule:
		l.rows(ctx, &q, &out)
		for i := range min(len(out.Top), mostSeries(int64(to.Sub(from)/q.Step))) {
			out.Series = append(out.Series, Series{out.Top[i].Key, l.points(ctx, out.Top[i].Key, from, to, q.Step)})
		}
	default:
		out.Series = []Series{{q.Rule, l.points(ctx, q.Rule, from, to, q.Step)}}
		if q.By != "" {
			l.rows(ctx, &q, &out)
		}
	}
	if q.Rule != "" && !l.seen && l.err() == nil && !r.opt.Exists(q.Rule) {
		return Result{}, fmt.Errorf("rule %q: %w", q.Rule, rules.ErrNotFound)
	}
	out.Top = out.Top[:min(len(out.Top), cmp.Or(q.Rows, MaxRows))]
	out.Partial = l.err()
	return out, ctx.Err()
}

// wholeSteps is the end of the step that contains the last instant before t.
func wholeSteps(t time.Time, step time.Duration) time.Time {
	if whole := t.Truncate(step); whole.Before(t) {
		return whole.Add(step)
	}
	return t
}

// writtenUntil is the instant until which figures are in the store, at most a second old. A failure counts for a second
// too: a store that hangs then delays a page once, not each of its queries.
func (r *Reader) writtenUntil(ctx context.Context) (time.Time, error) {
	r.askMu.Lock()
	defer r.askMu.Unlock()
	if age := r.opt.Now().Sub(r.asked); age >= 0 && age < time.Second {
		return r.written, r.failed
	}
	written, err := r.opt.Store.WrittenStats(ctx)
	if err == nil {
		r.written = written
	}
	if ctx.Err() == nil { // else it says nothing about the store
		r.asked, r.failed = r.opt.Now(), err
	}
	return r.written, err
}

// loader reads the figures for one query. It remembers what it could not read.
type loader struct {
	*Reader
	now     time.Time
	written time.Time
	rule    string
	// seen: there are figures of rule.
	seen bool
	// storeErr and recentErr are the first errors of each source.
	storeErr, recentErr error
}

// err says what is missing, for people.
func (l *loader) err() error {
	var missing []error
	if l.storeErr != nil {
		missing = append(missing, errors.New("the rules database is unavailable, so older figures are missing"))
	}
	if l.recentErr != nil {
		missing = append(missing, errors.New("the counters are unavailable, so recent figures are those of this node"))
	}
	return errors.Join(missing...)
}

// complete is the instant until which figures of a step no longer change.
func (l *loader) complete(step time.Duration) time.Time {
	if step == time.Second {
		return l.now.Add(-lag).Truncate(step)
	}
	if l.written.IsZero() {
		return time.Time{}
	}
	return l.written.Add(-late * time.Minute).Truncate(step)
}

// visit receives the figures of a rule in the period of width that begins at at.
type visit func(rule string, at time.Time, width time.Duration, s slot)

// points returns the series of a rule.
func (l *loader) points(ctx context.Context, rule string, from, to time.Time, step time.Duration) []Point {
	if step == time.Second {
		return l.seconds(ctx, rule, from, to)
	}
	out := make([]Point, 0, to.Sub(from)/step)
	for at := from; at.Before(to); at = at.Add(step) {
		out = append(out, Point{At: at, Peak: -1})
	}
	names := []string{rule}
	if rule != "" {
		names = append(names, "") // says what is known
	}
	l.collect(ctx, names, from, to, step, func(name string, at time.Time, _ time.Duration, s slot) {
		p := &out[at.Sub(from)/step]
		p.Known = true
		if name == rule {
			l.seen = l.seen || rule == l.rule
			p.Add(s.Figures)
			p.Peak = max(p.Peak, s.Peak)
		}
	})
	return out
}

// seconds returns the series of a rule by second, of which the last ten minutes are known.
func (l *loader) seconds(ctx context.Context, rule string, from, to time.Time) []Point {
	out := make([]Point, 0, to.Sub(from)/time.Second)
	for at := from.Unix(); at < to.Unix(); at++ {
		out = append(out, PointAt(at))
	}
	first := max(from.Unix(), l.now.Add(-SecondsKept).Unix())
	last := min(to.Unix(), l.now.Add(-lag).Unix()+1) - 1
	if first > last {
		return out
	}
	found, err := l.opt.Recent.Seconds(ctx, rule, first, last)
	l.recentErr = cmp.Or(l.recentErr, err)
	copy(out[first-from.Unix():], found)
	for i := range found {
		l.seen = l.seen || found[i].Figures != (Figures{})
	}
	return out
}

// collect visits the figures of named rules, or of all if names is nil, in a range of whole steps: in days as far as
// they are finished and the step allows, then in hours, then in minutes.
func (l *loader) collect(ctx context.Context, names []string, from, to time.Time, step time.Duration, see visit) {
	if step >= Day {
		days := minTime(to, l.written.Truncate(Day))
		from = l.stored(ctx, KindDays, names, from, days, Day, see)
	}
	if step >= time.Hour {
		hours := minTime(to, l.written.Truncate(time.Hour))
		from = l.stored(ctx, KindHours, names, from, hours, time.Hour, see)
	}
	l.minutes(ctx, names, l.minutesFrom(from), to, see)
}

// stored visits what the store has of a kind, and returns where it ends.
func (l *loader) stored(ctx context.Context, kind Kind, names []string, from, to time.Time, width time.Duration,
	see visit) time.Time {
	if !from.Before(to) || l.storeErr != nil {
		return from
	}
	period := map[Kind]time.Duration{KindMinutes: time.Hour, KindHours: Day, KindDays: daysABlock * Day}[kind]
	rows, err := l.opt.Store.ReadStats(ctx, kind, names, from.Unix()/int64(period/time.Second),
		(to.Unix()-1)/int64(period/time.Second))
	if err != nil {
		l.storeErr = err
		return from
	}
	var r row
	for i := range rows {
		start := time.Unix(rows[i].Period*int64(period/time.Second), 0).UTC()
		r.unpack(rows[i].Data)
		for n := range r.n {
			if at := start.Add(time.Duration(r.numbers[n]) * width); !at.Before(from) && at.Before(to) {
				see(rows[i].Rule, at, width, r.slots[n])
			}
		}
	}
	return to
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

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
	out.TopFrom, out.TopTo = from, to
	if q.Rule == "" && (q.By == ByRule || q.By == ByNode) {
		key := tableKey{q.By, from.Unix(), to.Unix(), step}
		out.Top = l.keptRows(key, func() []Row { return l.counted(ctx, q, from, to, step) })
		return
	}
	if q.By == ByRule {
		out.Top = l.counted(ctx, q, from, to, step)
		return
	}
	table := newTable(from, to)
	width, merged := l.tops(ctx, q, from, to, table)
	out.TopRest, out.Denied = merged.Rest, merged.Denied
	out.TopFrom, out.TopTo = from.Truncate(width), wholeSteps(to, width)
	out.Top = table.rows()
}

// counted are the rows of rules or nodes, which are counted exactly.
func (l *loader) counted(ctx context.Context, q *Query, from, to time.Time, step time.Duration) []Row {
	var names []string
	if q.Rule != "" {
		names = []string{q.Rule}
	}
	if q.Rule == "" && step == time.Minute {
		return l.countedMinutes(ctx, q.By, from, to).rows()
	}
	table := newTable(from, to)
	l.collect(ctx, names, from, to, step, table.counter(q.By))
	return table.rows()
}

// tops adds the most active keys, routes or tenants of the hours or days that a range touches, and returns which of
// both, and their sum.
func (l *loader) tops(ctx context.Context, q *Query, from, to time.Time, table *table) (time.Duration, Top) {
	kind, width := KindHourTops, time.Hour
	if to.Sub(from) > 8*Day || l.now.Sub(from) > MinutesKept {
		kind, width = KindDayTops, Day
	}
	// The counters have more of the hours that are not finished in the store.
	open := maxTime(l.written.Truncate(time.Hour), l.now.Add(-kept*time.Minute).Truncate(time.Hour))
	number := func(t time.Time) int64 { return t.Unix() / int64(width/time.Second) }
	var parts []Top
	add := func(at time.Time, t Tops) {
		top := t[q.By]
		parts = append(parts, top)
		for _, e := range top.Entries {
			table.line(e.Key, at, e.Allowed+e.Denied)
		}
	}
	if l.storeErr == nil {
		stored, err := l.opt.Store.ReadStats(ctx, kind, []string{q.Rule}, number(from), number(to.Add(-1)))
		l.storeErr = err
		for i := range stored {
			at := time.Unix(stored[i].Period*int64(width/time.Second), 0).UTC()
			if kind == KindDayTops || at.Before(open) {
				add(maxTime(from, at), unpackTops(stored[i].Data))
			}
		}
	}
	hour, end := maxTime(open, from.Truncate(time.Hour)), minTime(to, l.now.Add(1))
	for ; hour.Before(end); hour = hour.Add(time.Hour) {
		found, err := l.opt.Recent.Tops(ctx, hour.Unix()/3600, []string{q.Rule})
		l.recentErr = cmp.Or(l.recentErr, err)
		if t, ok := found[q.Rule]; ok {
			add(maxTime(from, hour), t)
		}
	}
	merged := mergeTop(parts)
	for _, e := range merged.Entries {
		table.count(e)
	}
	return width, merged
}
