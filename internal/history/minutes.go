package history

import (
	"cmp"
	"context"
	"maps"
	"reflect"
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
	merged := map[int64]bool{}
	if open.Before(to) {
		recent, err := l.opt.Recent.Minutes(ctx, open.Unix()/60, to.Unix()/60-1)
		l.recentErr = cmp.Or(l.recentErr, err)
		for i := range recent {
			m := &recent[i]
			if !m.Known {
				continue
			}
			merged[m.Minute] = true
			at := time.Unix(m.Minute*60, 0).UTC()
			if names == nil {
				for _, of := range l.merge(m, found[m.Minute]) {
					see(of.rule, at, time.Minute, of.slot)
				}
				continue
			}
			for _, name := range names {
				f, counted := m.Rules[name]
				s, stored := found[m.Minute][name]
				if counted || stored {
					see(name, at, time.Minute, both(f, s, stored))
				}
			}
		}
	}
	for minute, of := range found {
		if !merged[minute] {
			for rule, s := range of {
				see(rule, time.Unix(minute*60, 0).UTC(), time.Minute, s)
			}
		}
	}
}

// both are the figures of a minute that the counters have, and perhaps the store.
func both(f Figures, s slot, stored bool) slot {
	out := slot{f, -1}
	if stored {
		out.raise(s)
	}
	return out
}

// mergedMinute is what the counters and the store have of a minute, by rule. It is not changed.
type mergedMinute struct {
	counted map[string]Figures
	stored  map[string]slot
	all     []ruleSlot
}

type ruleSlot struct {
	rule string
	slot
}

// maxMerged is the largest number of merged minutes that a Reader keeps: those that wait for the store.
const maxMerged = 10

// merge merges a minute, unless both have what they had at the last call: with 10,000 rules, that is most of the work.
func (l *loader) merge(m *RecentMinute, stored map[string]slot) []ruleSlot {
	l.mu.Lock()
	known := l.merged[m.Minute]
	l.mu.Unlock()
	if known != nil && sameMap(known.counted, m.Rules) && sameMap(known.stored, stored) {
		return known.all
	}
	known = &mergedMinute{counted: m.Rules, stored: stored, all: make([]ruleSlot, 0, len(m.Rules))}
	for rule, f := range m.Rules {
		s, there := stored[rule]
		known.all = append(known.all, ruleSlot{rule, both(f, s, there)})
	}
	for rule, s := range stored {
		if _, there := m.Rules[rule]; !there {
			known.all = append(known.all, ruleSlot{rule, s})
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.merged == nil {
		l.merged = map[int64]*mergedMinute{}
	}
	l.merged[m.Minute] = known
	if len(l.merged) > maxMerged {
		delete(l.merged, slices.Min(slices.Collect(maps.Keys(l.merged))))
	}
	return known.all
}

// sameMap reports whether a and b are one map, not only equal.
func sameMap[V any](a, b map[string]V) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
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
