package history

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/tick"
)

const (
	// settle is how long after its end a minute is written first: nodes post its last second later.
	settle = 8 * time.Second
	// late is how long figures may come after their minute, because a node could not reach the counters. Minutes are
	// written again for that long.
	late = 6
	// catchUp is how long after an outage of the counters nothing is written, while the nodes post what waited. An
	// outage is seen by minutes that are late by more than late.
	catchUp = 45 * time.Second
	// kept is how many minutes figures wait with the counters for a rule database that is unavailable.
	kept = 24 * 60
	// spare is how many minutes stay with the counters after they were written.
	spare = 16
	// leaseLife is how long a node is the writer without a sign of life.
	leaseLife = 150 * time.Second
	// topsEvery is the interval in minutes at which the keys of an hour are written before it ends.
	topsEvery = 5
	// someRules is how many rules are handled at once where each has several rows.
	someRules = 100
	// cleanRows is the largest number of rows that are deleted at once.
	cleanRows = 5000
	// writeTimeout bounds one round of a writer.
	writeTimeout = 50 * time.Second
)

// Periods of rows.
const (
	minutesAnHour = 60
	hoursADay     = 24
	daysABlock    = 32
)

// WriterOptions configure a Writer. Log is optional.
type WriterOptions struct {
	// Recent is where the figures are, Store where they go.
	Recent Recent
	Store  Store
	// Node is the name of this node, unique among the nodes.
	Node string
	// Keep is how long hours and days are kept.
	Keep time.Duration
	Now  func() time.Time
	Log  *slog.Logger
}

// Writer moves figures to the rule database once a minute, on the one node that holds the lease there. Run it in one
// goroutine.
type Writer struct {
	opt  WriterOptions
	away bool
	// reached is since when the counters answer.
	reached time.Time
	// written is the end of the newest minute in the store, in minutes since the epoch, at most 0 if there is none.
	written atomic.Int64
}

// Lag is the age of the newest minute in the rule database, whichever node wrote it; 0 before the first one is
// known. It is safe for concurrent use.
func (w *Writer) Lag() time.Duration {
	minute := w.written.Load()
	if minute <= 0 {
		return 0
	}
	return max(0, w.opt.Now().Sub(time.Unix(minute*60, 0)))
}

// NewWriter creates a Writer.
func NewWriter(opt WriterOptions) *Writer {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	return &Writer{opt: opt}
}

// Run writes each minute until ctx ends.
func (w *Writer) Run(ctx context.Context) {
	for range tick.Every(ctx, time.Minute) {
		w.Round(ctx)
	}
}

// Round writes what there is to write, if this node holds the lease. What fails is done by the next round.
func (w *Writer) Round(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	err := w.round(limited)
	if ctx.Err() == nil && (err != nil) != w.away {
		w.away = err != nil
		if w.away {
			w.opt.Log.Warn("figures cannot be moved to the rules database; retrying", "error", err)
		} else {
			w.opt.Log.Info("figures are moved to the rules database again")
		}
	}
}

func (w *Writer) round(ctx context.Context) error {
	held, written, err := w.opt.Store.ClaimStats(ctx, w.opt.Node, leaseLife)
	if err == nil {
		w.written.Store(written.Unix() / 60)
	}
	if err != nil || !held {
		return err
	}
	now := w.opt.Now()
	end := now.Add(-settle).Unix() / 60
	done := written.Unix() / 60
	if done > 0 && end-done > late {
		if _, err := w.opt.Recent.Minutes(ctx, end-1, end-1); err != nil {
			w.reached = time.Time{}
			return err
		}
		if w.reached.IsZero() {
			w.reached = now
		}
		if now.Sub(w.reached) < catchUp {
			return nil
		}
	}
	first := max(end-kept, done-late)
	starts := []int64{first}
	if done > 0 && done-late < first { // nobody wrote for more than a day: the hour and the day in between end
		day := (done/(minutesAnHour*hoursADay)+1)*minutesAnHour*hoursADay - minutesAnHour
		starts = []int64{min(done-late, first), min(max(day, done-late), first), first}
	}
	for i, from := range starts {
		last := i == len(starts)-1
		for from < end {
			to := min(end, (from/minutesAnHour+1)*minutesAnHour)
			if held, err = w.hour(ctx, from, to, max(to, done)); err != nil || !held {
				return err
			}
			if from = to; !last {
				break
			}
		}
	}
	if done > 0 {
		if err := w.opt.Recent.Forget(ctx, max(end-kept, done-spare), end-spare, 0, nil); err != nil {
			return err
		}
	}
	return w.clean(ctx, now)
}

// hour writes the minutes from first to before end, which are of one hour. done is the minute until which all is
// written then.
func (w *Writer) hour(ctx context.Context, first, end, done int64) (held bool, err error) {
	hour := first / minutesAnHour
	recent, err := w.opt.Recent.Minutes(ctx, first, end-1)
	if err != nil {
		return false, err
	}
	stored, err := w.opt.Store.ReadStats(ctx, KindMinutes, nil, hour, hour)
	if err != nil {
		return false, err
	}
	rows := map[string]slots{}
	for i := range stored {
		rows[stored[i].Rule] = unpackSlots(stored[i].Data)
	}
	changed := map[string]bool{}
	for i := range recent {
		if err := w.minute(ctx, &recent[i], rows, changed); err != nil {
			return false, err
		}
	}
	var out []StoredRow
	for rule := range changed {
		out = append(out, StoredRow{KindMinutes, rule, hour, rows[rule].pack()})
	}
	over := end == (hour+1)*minutesAnHour
	if over {
		if out, err = w.hourOver(ctx, hour, rows, out); err != nil {
			return false, err
		}
	}
	if over || end%topsEvery == 0 {
		if out, err = w.tops(ctx, hour, slices.Collect(maps.Keys(rows)), over, out); err != nil {
			return false, err
		}
	}
	held, err = w.opt.Store.WriteStats(ctx, w.opt.Node, out, time.Unix(done*60, 0).UTC())
	if err == nil && held {
		w.written.Store(done)
	}
	if err == nil && held && over {
		err = w.opt.Recent.Forget(ctx, 0, 0, hour-1, slices.Collect(maps.Keys(rows)))
	}
	return held, err
}

// minute adds a minute to the rows of its hour.
func (w *Writer) minute(ctx context.Context, m *RecentMinute, rows map[string]slots, changed map[string]bool) error {
	if !m.Known {
		return nil
	}
	i := int(m.Minute % minutesAnHour)
	fresh := map[string]slot{}
	for rule, f := range m.Rules {
		next := slot{f, -1}
		before, there := rows[rule][i]
		if there {
			next.raise(before)
		}
		if !there || next != before {
			fresh[rule] = next
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	peaks, err := w.opt.Recent.Peaks(ctx, m.Minute)
	if err != nil {
		return err
	}
	for rule, next := range fresh {
		if peak, ok := peaks[rule]; ok {
			next.Peak = max(next.Peak, peak)
		}
		if rows[rule] == nil {
			rows[rule] = slots{}
		}
		rows[rule][i] = next
		changed[rule] = true
	}
	return nil
}

// hourOver adds up an hour that has ended, and the day if it has.
func (w *Writer) hourOver(
	ctx context.Context, hour int64, rows map[string]slots, out []StoredRow,
) ([]StoredRow, error) {
	day := hour / hoursADay
	days, err := w.addUp(ctx, KindHours, day, int(hour%hoursADay), rows)
	if err != nil {
		return nil, err
	}
	for rule, row := range days {
		out = append(out, StoredRow{KindHours, rule, day, row.pack()})
	}
	if hour%hoursADay != hoursADay-1 {
		return out, nil
	}
	stored, err := w.opt.Store.ReadStats(ctx, KindHours, nil, day, day)
	if err != nil {
		return nil, err
	}
	for i := range stored { // rules that were not active in the last hour
		if days[stored[i].Rule] == nil {
			days[stored[i].Rule] = unpackSlots(stored[i].Data)
		}
	}
	blocks, err := w.addUp(ctx, KindDays, day/daysABlock, int(day%daysABlock), days)
	if err != nil {
		return nil, err
	}
	for rule, row := range blocks {
		out = append(out, StoredRow{KindDays, rule, day / daysABlock, row.pack()})
	}
	return out, nil
}

// addUp sets slot i of the rows of a longer period to the sums of rows, and returns them.
func (w *Writer) addUp(ctx context.Context, kind Kind, period int64, i int, rows map[string]slots) (map[string]slots,
	error) {
	stored, err := w.opt.Store.ReadStats(ctx, kind, nil, period, period)
	if err != nil {
		return nil, err
	}
	out := map[string]slots{}
	for n := range stored {
		if len(rows[stored[n].Rule]) > 0 {
			out[stored[n].Rule] = unpackSlots(stored[n].Data)
		}
	}
	for rule, row := range rows {
		if len(row) == 0 {
			continue
		}
		if out[rule] == nil {
			out[rule] = slots{}
		}
		out[rule][i] = row.sum()
	}
	return out, nil
}

// tops writes the most active keys of an hour, and adds up those of the day when the hour is over.
func (w *Writer) tops(
	ctx context.Context, hour int64, rules []string, over bool, out []StoredRow,
) ([]StoredRow, error) {
	day := hour / hoursADay
	for some := range slices.Chunk(rules, someRules) {
		found, err := w.opt.Recent.Tops(ctx, hour, some)
		if err != nil {
			return nil, err
		}
		byRule := map[string][]Tops{}
		if over && len(found) > 0 {
			stored, err := w.opt.Store.ReadStats(ctx, KindHourTops, slices.Collect(maps.Keys(found)), day*hoursADay, hour-1)
			if err != nil {
				return nil, err
			}
			for i := range stored {
				byRule[stored[i].Rule] = append(byRule[stored[i].Rule], unpackTops(stored[i].Data))
			}
		}
		for rule, t := range found {
			out = append(out, StoredRow{KindHourTops, rule, hour, packTops(t)})
			if over {
				out = append(out, StoredRow{KindDayTops, rule, day, packTops(MergeTops(append(byRule[rule], t)))})
			}
		}
	}
	return out, nil
}

// clean deletes rows that are older than they are kept.
func (w *Writer) clean(ctx context.Context, now time.Time) error {
	hour, day := now.Unix()/3600, now.Unix()/86400
	days := int64(w.opt.Keep / Day)
	for kind, before := range map[Kind]int64{
		KindMinutes: hour - int64(MinutesKept/time.Hour), KindHourTops: hour - int64(MinutesKept/time.Hour),
		KindHours: day - days, KindDayTops: day - days, KindDays: (day - days) / daysABlock,
	} {
		if _, err := w.opt.Store.CleanStats(ctx, kind, before, cleanRows); err != nil {
			return err
		}
	}
	return nil
}
