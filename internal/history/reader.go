package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/rules"
)

const (
	// lines is the number of parts of Row.Line, at most.
	lines = 30
	// settled is how long after its end a minute is read from the store: by then every node has written it.
	settled = 2 * time.Minute
	// late is for how much longer a process is waited for that has not written a minute and is not on the live board.
	// After that it counts as gone. One that is on the board is waited for as long as it keeps what it has not written.
	late = 6 * time.Minute
)

// ReaderOptions configure a Reader.
type ReaderOptions struct {
	// Live holds the last minutes and seconds, Store the earlier minutes, and Own the minutes of this process.
	Live  *LiveReader
	Store Store
	Own   *Own
	// Exists reports whether a rule of that name is in force. Rules that are not in force may still have figures.
	Exists func(rule string) bool
	Now    func() time.Time
}

// Reader answers queries. It reads each minute of a process from one place: from the Own for minutes of this process,
// from the store for minutes older than two minutes, and otherwise from the live board. It is safe for concurrent use.
type Reader struct {
	opt ReaderOptions

	askMu sync.Mutex // held while the store is asked
	// complete is the instant until which all nodes had written their minutes, asked the time at which this was read,
	// and failed the error of that read.
	complete, asked time.Time
	failed          error

	mu     sync.Mutex
	tables map[tableKey]*keptTable
	begun  []*begunTable
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
	l.live = l.now.Add(-settled).Truncate(time.Minute)
	var complete time.Time
	complete, l.storeErr = r.completeUntil(ctx)
	from, to := q.From.UTC().Truncate(q.Step), wholeSteps(q.To.UTC(), q.Step)
	out := Result{From: from, To: to, Step: q.Step, CompleteUntil: complete.Truncate(q.Step)}
	if q.Step == time.Second {
		out.CompleteUntil = l.now.Add(-lag).Truncate(q.Step)
	}
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

// read visits rows of the store. The rows of this process come from memory instead, even if the store fails.
func (r *Reader) read(ctx context.Context, names []string, parts []Part, columns Columns, see func(*StoredRow)) error {
	mine := r.ownRows(names, parts, columns, see) // before the store, or an hour that ends now could be missing in both
	return r.opt.Store.ReadStats(ctx, names, parts, columns, func(row *StoredRow) {
		if row.Writer != r.opt.Own.writer || !mine[row.Period] {
			see(row)
		}
	})
}

// ownRows visits the rows of this process alone, and returns their hours.
func (r *Reader) ownRows(names []string, parts []Part, columns Columns, see func(*StoredRow)) (hours map[int64]bool) {
	hours = map[int64]bool{}
	for _, p := range parts {
		if p.Kind == KindLive {
			maps.Copy(hours, r.opt.Own.read(r.opt.Now(), names, p.First, p.Last, columns, see))
		}
	}
	return hours
}

// completeUntil is the instant until which all nodes have written their minutes, at most a second old; zero before the
// first. A failure counts for a second too: a store that hangs then delays a page once, not each of its queries.
func (r *Reader) completeUntil(ctx context.Context) (time.Time, error) {
	r.askMu.Lock()
	defer r.askMu.Unlock()
	now := r.opt.Now()
	if age := now.Sub(r.asked); age >= 0 && age < time.Second {
		return r.complete, r.failed
	}
	posting := r.posting(ctx, now)
	ends := maps.Clone(posting) // of the newest minute of a process
	var unpacked row
	hour := now.Unix() / 3600
	err := r.opt.Store.ReadStats(ctx, []string{""}, []Part{{KindLive, hour - FoldAfter - 1, hour, false}}, OnlyData,
		func(row *StoredRow) {
			unpacked.unpack(row.Data)
			for _, n := range unpacked.numbers[:unpacked.n] {
				ends[row.Writer] = max(ends[row.Writer], row.Period*minutesAnHour+int64(n)+1)
			}
		})
	if err == nil {
		r.complete = completeOf(ends, posting, now)
	}
	if ctx.Err() == nil { // otherwise the error says nothing about the store
		r.asked, r.failed = now, err
	}
	return r.complete, err
}

// posting are the processes that post to the board, with the first minute that they may still write.
func (r *Reader) posting(ctx context.Context, now time.Time) map[int64]int64 {
	out := map[int64]int64{}
	live := r.opt.Live.withoutRules(ctx)
	if live.Err != nil {
		return out
	}
	for _, n := range live.Nodes {
		if writer, err := strconv.ParseInt(n.ID, 36, 64); err == nil && !n.Silent && !n.Unknown {
			out[writer] = max(n.Started/60_000, now.Unix()/60-minutesAnHour)
		}
	}
	return out
}

// completeOf is the instant until which all processes have written.
func completeOf(ends, posting map[int64]int64, now time.Time) time.Time {
	var newest, oldest int64
	for writer, end := range ends {
		newest = max(newest, end)
		_, posts := posting[writer]
		waits := posts || time.Unix(end*60, 0).After(now.Add(-settled-late))
		if waits && (oldest == 0 || end < oldest) {
			oldest = end
		}
	}
	if end := cmp.Or(oldest, newest); end > 0 {
		return minTime(time.Unix(end*60, 0), now.Add(-settled)).UTC()
	}
	return time.Time{}
}

// loader reads the figures for one query. It remembers what it could not read.
type loader struct {
	*Reader
	now time.Time
	// live is the first of the minutes that are taken from the board.
	live time.Time
	rule string
	// seen: there are figures of rule.
	seen bool
	// storeErr and liveErr are the first errors of each source.
	storeErr, liveErr error
	recent            []RecentMinute
	asked             bool // for recent
}

// err says what is missing, for people.
func (l *loader) err() error {
	var missing []error
	if l.storeErr != nil {
		missing = append(missing, errors.New("the rules database is unavailable, so older figures are missing "+
			"or those of this node alone"))
	}
	if l.liveErr != nil {
		missing = append(missing, errors.New("the counters are unavailable, so recent figures are those of this node"))
	}
	return errors.Join(missing...)
}

// visit receives the figures of a rule in the period that begins at at, in s since 1970. It must not keep or change
// them.
type visit func(rule string, at int64, s *slot)

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
	l.collect(ctx, names, from, to, step, func(name string, at int64, s *slot) {
		p := &out[(at-from.Unix())/int64(step/time.Second)]
		p.Known = true
		if name == rule {
			l.seen = l.seen || rule == l.rule
			p.Add(s.Figures)
			p.Peak = max(p.Peak, s.Peak)
		}
	})
	return out
}

// seconds returns the series of a rule by second. Only the last ten minutes are known.
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
	found, err := l.opt.Live.Seconds(ctx, rule, first, last)
	l.liveErr = cmp.Or(l.liveErr, err)
	copy(out[first-from.Unix():], found)
	for i := range found {
		l.seen = l.seen || found[i].Figures != (Figures{})
	}
	return out
}

// collect visits the figures of named rules, or of all if names is nil, in a range of whole steps: in days and hours as
// far as the step allows, and in minutes.
func (l *loader) collect(ctx context.Context, names []string, from, to time.Time, step time.Duration, see visit) {
	l.stored(ctx, names, from, to, step, see)
	l.liveMinutes(ctx, names, from, to, see)
}

// parts are the rows of a range of whole steps.
func (l *loader) parts(from, to time.Time, step time.Duration) []Part {
	last := to.Unix() - 1
	part := func(kind Kind, from time.Time, seconds int64) Part {
		return Part{kind, from.Unix() / seconds, last / seconds, false}
	}
	live := part(KindLive, from, 3600)
	if step < time.Hour {
		return []Part{live, part(KindMinutes, maxTime(from, l.now.Add(-MinutesKept).Truncate(time.Hour)), 3600)}
	}
	over := Part{KindLive, live.First, min(live.Last, l.live.Unix()/3600-1), true}
	live.First = max(live.First, over.Last+1)
	older := part(KindHours, from, 86400)
	if step >= Day {
		older = part(KindDays, from, daysABlock*86400)
	}
	return slices.DeleteFunc([]Part{over, live, older}, func(p Part) bool { return p.First > p.Last })
}

// stored visits the rows of the store, and the rows of this process in memory.
func (l *loader) stored(ctx context.Context, names []string, from, to time.Time, step time.Duration, see visit) {
	first, end, live := from.Unix(), to.Unix(), l.live.Unix() // whole minutes
	var r row
	visit := func(row *StoredRow) {
		if strings.HasPrefix(row.Rule, TrialPrefix) {
			return
		}
		period, width := int64(3600), int64(60)
		switch row.Kind {
		case KindHours:
			period, width = 86400, 3600
		case KindDays:
			period, width = daysABlock*86400, 86400
		}
		start := row.Period * period
		if row.Kind == KindLive && step >= time.Hour && start+period <= live {
			if s, ok := unpackSum(row.Data); ok && start >= first && start < end {
				see(row.Rule, start, &s)
			}
			return
		}
		r.unpack(row.Data)
		for i := range r.n {
			at := start + int64(r.numbers[i])*width
			if at < first || at >= end || row.Kind == KindLive && at >= live && l.posted(ctx, row, at) {
				continue
			}
			see(row.Rule, at, &r.slots[i])
		}
	}
	if l.live.Before(to) {
		l.liveOf(ctx) // not during a visit of Own, which must not wait for the board
	}
	parts := l.parts(from, to, step)
	if l.storeErr == nil {
		l.storeErr = l.read(ctx, names, parts, OnlyData, visit)
	} else {
		l.ownRows(names, parts, OnlyData, visit)
	}
}

// liveOf are the minutes of the board.
func (l *loader) liveOf(ctx context.Context) []RecentMinute {
	if !l.asked {
		var err error
		l.asked = true
		l.recent, err = l.opt.Live.Minutes(ctx, l.live.Unix()/60, l.now.Unix()/60)
		l.liveErr = cmp.Or(l.liveErr, err)
	}
	return l.recent
}

// posted reports whether the board has what a row of a process has in a minute, so that it is taken from there. It has
// nothing of one that stopped before the board was emptied, and not the address of a node that has left.
func (l *loader) posted(ctx context.Context, r *StoredRow, minute int64) bool {
	recent := l.liveOf(ctx)
	i := int(minute-l.live.Unix()) / 60
	if i >= len(recent) {
		return false
	}
	address, posted := recent[i].Nodes[NodeID(r.Writer)]
	return posted && (address != "" || !strings.HasPrefix(r.Rule, NodePrefix))
}

// NodeID is the id of the node whose process has a random number.
func NodeID(writer int64) string { return strconv.FormatInt(writer, 36) }

// liveMinutes visits what the board has.
func (l *loader) liveMinutes(ctx context.Context, names []string, from, to time.Time, see visit) {
	if !l.live.Before(to) || l.now.Before(from) {
		return
	}
	recent := l.liveOf(ctx)
	for i := range recent {
		m := &recent[i]
		at := m.Minute * 60
		if at < from.Unix() || at >= to.Unix() || len(m.Nodes) == 0 {
			continue
		}
		if names == nil {
			for rule, f := range m.Rules {
				see(rule, at, &slot{f, -1})
			}
			continue
		}
		for _, name := range names {
			s := slot{Figures: m.Rules[name], Peak: -1}
			if name == "" {
				s.Peak = m.Peak
			}
			if _, counted := m.Rules[name]; counted {
				see(name, at, &s)
			}
		}
	}
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
