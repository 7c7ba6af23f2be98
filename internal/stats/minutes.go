package stats

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"
)

// foundMinutes are minutes of the store by rule.
type foundMinutes map[int64]map[string]slot

func (f foundMinutes) add(minute int64, rule string, s slot) {
	of := f[minute]
	if of == nil {
		of = map[string]slot{}
		f[minute] = of
	}
	of[rule] = s
}

// minutesFrom is the first of the minutes from an instant on that are stored.
func (l *loader) minutesFrom(from time.Time) time.Time {
	return maxTime(from, l.now.Add(-MinutesKept).Truncate(time.Hour))
}

// minutes visits the minutes of the store, and those that are still with the counters.
func (l *loader) minutes(ctx context.Context, names []string, from, to time.Time, see visit) {
	found, open := l.storedMinutes(ctx, names, from, to, see)
	l.openMinutes(ctx, names, open, to, found, see)
}

// storedMinutes visits the minutes of the store that can no longer change. It returns the other ones, and where they
// begin.
func (l *loader) storedMinutes(ctx context.Context, names []string, from, to time.Time, see visit) (foundMinutes,
	time.Time) {
	open := maxTime(from, l.written.Add(-late*time.Minute))
	found := foundMinutes{}
	if l.stored(ctx, KindMinutes, names, from, to, time.Minute, func(rule string, at time.Time, w time.Duration, s slot) {
		if at.Before(open) {
			see(rule, at, w, s)
		} else {
			found.add(at.Unix()/60, rule, s)
		}
	}).Equal(from) {
		open = from // the store could not be read
	}
	return found, open
}

// openMinutes visits the minutes from open on: found are those of the store, the counters have more. Of a minute that
// both have, each figure is the larger one.
func (l *loader) openMinutes(ctx context.Context, names []string, open, to time.Time, found foundMinutes, see visit) {
	open = maxTime(open, l.now.Add(-kept*time.Minute).Truncate(time.Minute))
	to = minTime(to, l.now.Truncate(time.Minute).Add(time.Minute))
	both, seen := map[int64]map[string]Figures{}, map[int64]bool{} // seen: the counters have every rule of the store
	if open.Before(to) {
		recent, err := l.opt.Recent.Minutes(ctx, open.Unix()/60, to.Unix()/60-1)
		l.recentErr = cmp.Or(l.recentErr, err)
		for i := range recent {
			if !recent[i].Known {
				continue
			}
			at := time.Unix(recent[i].Minute*60, 0).UTC()
			stored, raised := found[recent[i].Minute], 0
			for rule, f := range only(recent[i].Rules, names) {
				s := slot{f, -1}
				if of, there := stored[rule]; there {
					s.raise(of)
					raised++
				}
				see(rule, at, time.Minute, s)
			}
			if both[recent[i].Minute] = recent[i].Rules; raised == len(stored) {
				seen[recent[i].Minute] = true
			}
		}
	}
	for minute, of := range found {
		if seen[minute] {
			continue
		}
		for rule, s := range of {
			if _, there := both[minute][rule]; !there {
				see(rule, time.Unix(minute*60, 0).UTC(), time.Minute, s)
			}
		}
	}
}

// only are the figures of some rules, or of all if names is nil.
func only(figures map[string]Figures, names []string) iter.Seq2[string, Figures] {
	if names == nil {
		return maps.All(figures)
	}
	return func(yield func(string, Figures) bool) {
		for _, name := range names {
			if f, there := figures[name]; there && !yield(name, f) {
				return
			}
		}
	}
}

// maxBegunTables is the largest number of begun tables that a Reader keeps.
const maxBegunTables = 4

// begunTable is a table of all rules or nodes with the minutes of the store that can no longer change. The store has
// the same ones until more is written. With 10,000 rules, adding them up is most of the work. It is not changed.
type begunTable struct {
	by                string
	from, to, written int64
	table             *table
	found             foundMinutes
	open              time.Time
}

// countedMinutes are the figures of all rules or nodes, from their minutes.
func (l *loader) countedMinutes(ctx context.Context, by string, from, to time.Time) *table {
	b := l.begin(ctx, by, from, to)
	t := b.table.clone()
	l.openMinutes(ctx, nil, b.open, to, b.found, t.counter(by))
	return t
}

// begin returns the begun table of a range.
func (l *loader) begin(ctx context.Context, by string, from, to time.Time) *begunTable {
	b := &begunTable{by: by, from: from.Unix(), to: to.Unix(), written: l.written.Unix()}
	same := func(o *begunTable) bool {
		return o.by == b.by && o.from == b.from && o.to == b.to && o.written == b.written
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.begun, same)
	if i >= 0 && l.storeErr == nil {
		b = l.begun[i]
		l.mu.Unlock()
		return b
	}
	l.mu.Unlock()
	b.table = newTable(from, to)
	b.found, b.open = l.storedMinutes(ctx, nil, l.minutesFrom(from), to, b.table.counter(by))
	if l.storeErr == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.begun = append(l.begun[max(0, len(l.begun)+1-maxBegunTables):], b)
	}
	return b
}
