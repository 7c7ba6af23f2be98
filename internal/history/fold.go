package history

import (
	"maps"
	"slices"
	"strings"
)

// folded are rows by what they cover.
type folded map[foldKey]*foldRow

type foldKey struct {
	kind   Kind
	rule   string
	period int64
}

// foldRow is a row to which others are added.
type foldRow struct {
	slots slots
	trial TrialCounts
	tops  []Tops
}

func (f folded) row(kind Kind, rule string, period int64) *foldRow {
	key := foldKey{kind, rule, period}
	r := f[key]
	if r == nil {
		r = &foldRow{slots: slots{}}
		f[key] = r
	}
	return r
}

func (r *foldRow) add(number int, s slot) {
	sum, there := r.slots[number]
	if !there {
		sum.Peak = -1
	}
	sum.add(s)
	r.slots[number] = sum
}

func (r *foldRow) addTops(packed []byte) {
	if t := unpackTops(packed); t != nil {
		r.tops = append(r.tops, t)
	}
}

// Fold adds rows of processes to the rows of minutes, hours, days and trials that read returns, and returns the sums.
// It calls read once for each kind, with the rules and the first and last period. Unreadable rows count as empty.
func Fold(rows []LiveRow, read func(kind Kind, rules []string, first, last int64) ([]StoredRow, error)) ([]StoredRow,
	error) {
	sums := folded{}
	for i := range rows {
		r := &rows[i]
		day := r.Hour / hoursADay
		if strings.HasPrefix(r.Rule, TrialPrefix) {
			sums.row(KindTrials, r.Rule, day).trial.Add(unpackTrial(r.Data, r.Tops))
			continue
		}
		all := unpackSlots(r.Data)
		if len(all) == 0 {
			continue
		}
		minutes, hours := sums.row(KindMinutes, r.Rule, r.Hour), sums.row(KindHours, r.Rule, day)
		for n, s := range all {
			minutes.add(n, s)
		}
		sum := all.sum()
		hours.add(int(r.Hour%hoursADay), sum)
		sums.row(KindDays, r.Rule, day/daysABlock).add(int(day%daysABlock), sum)
		minutes.addTops(r.Tops)
		hours.addTops(r.Tops)
	}
	for _, kind := range []Kind{KindMinutes, KindHours, KindDays, KindTrials} {
		if err := sums.addStored(kind, read); err != nil {
			return nil, err
		}
	}
	out := make([]StoredRow, 0, len(sums))
	for key, r := range sums {
		row := StoredRow{Kind: key.kind, Rule: key.rule, Period: key.period}
		switch {
		case key.kind == KindTrials:
			row.Data, row.Tops = r.trial.pack(), packTops(Tops{ByKey: r.trial.Keys}, keptKeys)
		case r.tops != nil:
			row.Data, row.Tops = r.slots.pack(), packTops(MergeTops(r.tops), keptKeys)
		default:
			row.Data = r.slots.pack()
		}
		out = append(out, row)
	}
	return out, nil
}

// addStored adds what the rows of a kind had before.
func (f folded) addStored(kind Kind, read func(Kind, []string, int64, int64) ([]StoredRow, error)) error {
	names := map[string]bool{}
	var first, last int64
	for key := range f {
		if key.kind == kind {
			if len(names) == 0 {
				first, last = key.period, key.period
			}
			names[key.rule] = true
			first, last = min(first, key.period), max(last, key.period)
		}
	}
	if len(names) == 0 {
		return nil
	}
	stored, err := read(kind, slices.Sorted(maps.Keys(names)), first, last)
	if err != nil {
		return err
	}
	for i := range stored {
		s := &stored[i]
		r := f[foldKey{kind, s.Rule, s.Period}]
		if r == nil {
			continue
		}
		if kind == KindTrials {
			r.trial.Add(unpackTrial(s.Data, s.Tops))
			continue
		}
		for n, one := range unpackSlots(s.Data) {
			r.add(n, one)
		}
		r.addTops(s.Tops)
	}
	return nil
}
