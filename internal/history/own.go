package history

import (
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Own counts the decisions of this process in the running hour and the previous one, by minute: the rows that the
// process writes, and that a Reader on this node reads from here. It holds the counts of a Recorder, about 500 bytes
// for a rule and hour. It is safe for concurrent use and owns no goroutine.
type Own struct {
	writer   int64
	recorder *Recorder
	seed     maphash.Seed

	mu sync.Mutex
	// running is the present minute, ended the previous one until it is settled.
	running, ended *ownMinute
	hours          map[int64]*ownHour
}

// ownMinute is a minute that is not in its row yet.
type ownMinute struct {
	number int64 // since 1970
	rules  map[string]*ownCount
}

// ownCount counts the decisions of a rule in a minute.
type ownCount struct {
	slot
	second, inSecond int64
}

// ownHour are the rows of an hour.
type ownHour struct {
	rows   map[string]*growing
	trials map[string]*TrialCounts // by name
	// tops are the most active keys, routes and tenants by rule, once the hour is over.
	tops map[string]Tops
	// dirty are the names of unwritten rows. The value is false if only the tops are unwritten.
	dirty map[string]bool
}

// NewOwn creates an Own for the counts of a Recorder. writer is the random number of the process.
func NewOwn(writer int64, recorder *Recorder) *Own {
	return &Own{writer: writer, recorder: recorder, seed: maphash.MakeSeed(), hours: map[int64]*ownHour{}}
}

// add adds the counts of the recorder in a second. address is the address of the node.
func (o *Own) add(second int64, address string, g *gathered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.at(second / 60)
	for rule, f := range g.rules {
		if o.running.rules[rule] == nil && len(o.running.rules) >= maxRules {
			rule = Other
		}
		o.running.add(rule, second, f)
	}
	o.running.add("", second, g.total) // even without requests, so that the minute is known
	if address != "" {
		o.running.add(NodePrefix+address, second, g.total)
	}
	h := o.hour(o.running.number / minutesAnHour)
	for t, c := range g.trials {
		name := t.name()
		if h.trials[name] == nil {
			if len(h.trials) >= maxTrials {
				continue
			}
			h.trials[name] = &TrialCounts{}
		}
		c.First = time.Unix(second, 0)
		h.trials[name].Add(c)
		h.dirty[name] = true
	}
}

func (m *ownMinute) add(rule string, second int64, f Figures) {
	c := m.rules[rule]
	if c == nil {
		c = &ownCount{slot: slot{Peak: -1}}
		m.rules[rule] = c
	}
	if c.second != second {
		c.second, c.inSecond = second, 0
	}
	c.inSecond += f.Total()
	c.add(slot{f, c.inSecond})
}

// at makes a minute the running one. A clock that is set back by less than an hour goes on in the running one.
func (o *Own) at(minute int64) {
	was := o.running
	if was != nil && minute <= was.number && was.number-minute < minutesAnHour {
		return
	}
	o.running = &ownMinute{number: minute, rules: map[string]*ownCount{}}
	if was == nil {
		return
	}
	o.settle(nil)
	o.ended = was
	if hour := was.number / minutesAnHour; minute/minutesAnHour != hour {
		o.hour(hour).tops = o.recorder.tops.end()
	}
	running := minute / minutesAnHour
	if running != was.number/minutesAnHour+1 && len(o.hours) <= maxHours {
		return // the clock may return from a jump, and rows of these hours must not replace fuller ones then
	}
	maps.DeleteFunc(o.hours, func(hour int64, _ *ownHour) bool { return hour != running && hour != running-1 })
}

// maxHours is the largest number of hours in memory while the clock jumps. It is two otherwise.
const maxHours = 4

func (o *Own) hour(hour int64) *ownHour {
	h := o.hours[hour]
	if h == nil {
		h = &ownHour{rows: map[string]*growing{}, trials: map[string]*TrialCounts{}, dirty: map[string]bool{}}
		o.hours[hour] = h
	}
	return h
}

// settle puts the minute that has ended into its rows. peaks are the largest numbers of decisions in a second of it
// over
// all nodes, as far as they are known.
func (o *Own) settle(peaks map[string]int64) {
	m := o.ended
	o.ended = nil
	if m == nil || o.hours[m.number/minutesAnHour] == nil {
		return
	}
	for rule, peak := range peaks {
		if m.rules[rule] == nil {
			m.rules[rule] = &ownCount{}
		}
		m.rules[rule].Peak = max(m.rules[rule].Peak, peak)
	}
	h := o.hour(m.number / minutesAnHour)
	for rule, c := range m.rules {
		r := h.rows[rule]
		if r == nil && len(h.rows) >= maxRules && rule != "" && !strings.HasPrefix(rule, NodePrefix) {
			rule = Other
			r = h.rows[rule]
		}
		if r == nil {
			r = newGrowing()
			h.rows[rule] = r
		}
		r.add(int(m.number%minutesAnHour), c.slot)
		h.dirty[rule] = true
	}
}

// end puts the minute before the present one into its rows, with the peaks over all nodes, and with all also the
// present
// one, because the process ends.
func (o *Own) end(peaks map[string]int64, all bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.settle(peaks)
	if all && o.running != nil {
		o.ended = o.running
		o.settle(nil)
		o.running.rules = map[string]*ownCount{}
	}
}

// lastEnded is the minute that has ended and is not in its rows yet, 0 if there is none.
func (o *Own) lastEnded() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended == nil {
		return 0
	}
	return o.ended.number
}

// ownRow names a row.
type ownRow struct {
	hour int64
	rule string
}

// dirty names the unwritten rows, rows of the older hour first. A row with only unwritten tops is included if the tops
// are due, or if all is set.
func (o *Own) dirty(all bool) (out []ownRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, hour := range slices.Sorted(maps.Keys(o.hours)) {
		h := o.hours[hour]
		for _, rule := range slices.Sorted(maps.Keys(h.dirty)) {
			if all || h.dirty[rule] || o.topsAreDue(h, rule) {
				out = append(out, ownRow{hour, rule})
			}
		}
	}
	return out
}

// topsAreDue reports whether a row is written with its tops: every topsEvery minutes if there are many rows, and when
// its hour is over.
func (o *Own) topsAreDue(h *ownHour, rule string) bool {
	return h.tops != nil || len(h.rows) <= MaxWritten ||
		(uint64(o.running.number)+maphash.String(o.seed, rule))%topsEvery == 0
}

// topsEvery is the number of minutes after which the tops of a rule are written again, if a node has many rows.
const topsEvery = 5

// take returns rows to be written, with all of them with their tops. They are not dirty from then on.
func (o *Own) take(names []ownRow, all bool) []LiveRow {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]LiveRow, 0, len(names))
	for _, n := range names {
		h := o.hours[n.hour]
		if h == nil {
			continue // it is too old by now
		}
		tops := all || o.topsAreDue(h, n.rule)
		r, ok := o.row(n.hour, n.rule, tops)
		if h.dirty[n.rule] = false; tops || !o.hasTops(h, n.rule) {
			delete(h.dirty, n.rule)
		}
		if ok {
			out = append(out, r)
		}
	}
	return out
}

// again makes rows dirty that could not be written.
func (o *Own) again(rows []LiveRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range rows {
		if h := o.hours[rows[i].Hour]; h != nil && rows[i].Writer == o.writer {
			h.dirty[rows[i].Rule] = true
		}
	}
}

// row packs a row.
func (o *Own) row(hour int64, rule string, tops bool) (r LiveRow, ok bool) {
	h := o.hours[hour]
	r = LiveRow{Writer: o.writer, Rule: rule, Hour: hour}
	if g := h.rows[rule]; g != nil {
		r.Data = g.pack()
		if tops && o.hasTops(h, rule) {
			r.Tops = packTops(o.topsOf(h, rule), topKeys)
		}
		return r, true
	}
	if c := h.trials[rule]; c != nil {
		r.Data, r.Tops = c.pack(), packTops(Tops{ByKey: c.Keys}, topKeys)
		return r, true
	}
	return r, false
}

// trialRows are the rows of trials in memory that have some names.
func (o *Own) trialRows(names []string) (out []LiveRow) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for hour, h := range o.hours {
		for _, name := range names {
			if h.trials[name] == nil {
				continue
			}
			if r, ok := o.row(hour, name, true); ok {
				out = append(out, r)
			}
		}
	}
	return out
}

func (o *Own) hasTops(h *ownHour, rule string) bool {
	if h.tops != nil {
		return h.tops[rule] != nil
	}
	return o.recorder.tops.has(rule)
}

func (o *Own) topsOf(h *ownHour, rule string) Tops {
	if h.tops != nil {
		return h.tops[rule]
	}
	return o.recorder.tops.of(rule)
}

// read visits the rows of some rules, or of all, whose hour is from first to last, and returns the hours whose rows are
// taken from here. Hours before the last one by now are none: others may have added them up while this process did not
// run.
func (o *Own) read(now time.Time, names []string, first, last int64, columns Columns,
	see func(*StoredRow)) map[int64]bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	kept := map[int64]bool{}
	for hour, h := range o.hours {
		if hour < max(first, now.Unix()/3600-1) || hour > last {
			continue
		}
		kept[hour] = true
		of := names
		if of == nil {
			of = slices.Collect(maps.Keys(h.rows))
		}
		for _, rule := range of {
			if r, ok := o.row(hour, rule, columns != OnlyData); ok {
				see(&StoredRow{KindLive, o.writer, rule, hour, r.Data, r.Tops})
				continue
			}
			if columns != OnlyData && !strings.HasPrefix(rule, TrialPrefix) { // the first minute of the hour runs
				if t := o.topsOf(h, rule); t != nil {
					see(&StoredRow{KindLive, o.writer, rule, hour, nil, packTops(t, topKeys)})
				}
			}
		}
	}
	return kept
}
