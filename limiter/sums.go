package limiter

import (
	"fmt"
	"slices"
)

// Sums holds the units that one region has spent in one bucket whose limit spans regions (Ask.Spans). It is stored with
// the bucket, which also counts the units of other regions. The zero value is a region that has spent nothing.
//
// Taken and Given only grow within an incarnation. So of two sums of one incarnation the one with the
// greater numbers is the later one, in whatever order they arrive. A region that receives sums books the
// difference to those it booked last from the same region (Apply).
type Sums struct {
	// Born is when the incarnation began, in ms since the epoch. It grows from one incarnation to the next, even if the
	// clock steps back. 0: nothing was counted yet.
	Born int64
	// Reset is when the bucket was last reset in any region, as far as this region knows: incarnations that
	// were born before it are void. 0: never.
	Reset int64
	// Shape says how windows are numbered: numbers of sums of different shapes have nothing in common.
	Shape int64
	// Taken and Given are the units taken or charged, and those given back, since the incarnation began.
	Taken, Given int64
	// Denied are the units that the limit had room for and the region's guard held back since the incarnation began.
	// Together with Taken they are the demand on the region while there was room.
	Denied int64
	// Count and Burst belong to the limit of a recent take or charge of a bucket that drains: a tier may differ from
	// the rule. Both are 0 for other buckets, and until there was a take or charge with a guard (Ask.Guard).
	Count, Burst int64
	// Windows are the units taken less those given back, by the window in which they were taken, newest first: for a
	// bucket with windows, the windows (or sub-windows) that still count; for others, the present and the previous
	// period.
	Windows []WindowUnits
	// Guard is the guard of this region. It is not sent.
	Guard Guard
}

// WindowUnits is the number of a window and the units in it.
type WindowUnits struct{ Number, Units int64 }

// MaxSumWindows is the largest number of Sums.Windows.
const MaxSumWindows = int(MaxBuckets) + 1

// SumsMargin is the least time, ms, for which sums are kept after their last change and remembered after
// they were applied. It is far longer than a message between regions lives.
const SumsMargin int64 = 60_000

// WorthParts returns the number of parts for Worth among so many regions. All sums that are not sent then add up to at
// most 1 % of the limit.
func WorthParts(regions int64) int64 { return 100 * max(regions, 1) }

// Worth reports whether sums are worth sending: they hold more than one of so many parts of the limit, or show a reset,
// or units given back or held back. In a first_hit window the first unit is worth sending, because regions must agree
// where the window begins. With 0 parts all sums are worth sending.
func (m *Sums) Worth(l Limit, parts int64) bool {
	if parts == 0 || m.Reset > 0 || m.Given > 0 || m.Denied > 0 {
		return true
	}
	var units int64
	for _, w := range m.Windows {
		units += w.Units
	}
	if l.Align == AlignFirstHit {
		return units > 0
	}
	return units > l.Capacity()/parts
}

// Spans reports whether limits of the algorithm can span regions. Slots and queues cannot: what they hold
// is not a sum of units.
func (t *Traits) Spans() bool { return t.Name != "" && !t.Slots && !t.Queues && !t.Internal }

// Check returns the first problem of sums that came from elsewhere.
func (m *Sums) Check() error {
	for _, f := range [...]struct {
		name  string
		value int64
	}{
		{"born", m.Born}, {"reset", m.Reset}, {"shape", m.Shape}, {"taken", m.Taken}, {"given", m.Given},
		{"denied", m.Denied}, {"limit", m.Count}, {"burst", m.Burst},
	} {
		if f.value < 0 || f.value > MaxExact {
			return fmt.Errorf("%s must be between 0 and %d", f.name, MaxExact)
		}
	}
	switch {
	case m.Given > m.Taken:
		return fmt.Errorf("given must not exceed taken")
	case len(m.Windows) > MaxSumWindows:
		return fmt.Errorf("must have at most %d windows", MaxSumWindows)
	}
	var units int64
	for i, w := range m.Windows {
		switch {
		case w.Number < -MaxExact || w.Number > MaxExact || w.Units < 0 || w.Units > m.Taken:
			return fmt.Errorf("windows[%d] is out of range", i)
		case i > 0 && w.Number >= m.Windows[i-1].Number:
			return fmt.Errorf("windows must be in order, newest first")
		}
		units = addSat(units, w.Units)
	}
	if units > m.Taken-m.Given {
		return fmt.Errorf("windows must not hold more than was taken")
	}
	return nil
}

// grid numbers the windows of a limit for its sums: number k covers the times t with
// k*length <= (t-anchor)*parts < (k+1)*length.
type grid struct {
	anchor, length, parts int64
	kept                  int64 // windows that count at one time
	dated                 bool  // units can be booked in the window in which they were spent
	firstHit              bool  // the number of a window is its start
}

func gridOf(l Limit) grid {
	switch l.Algorithm.Traits().Decay {
	case DecayAtOnce:
		firstHit := l.Align == AlignFirstHit
		return grid{anchor: l.Anchor, length: l.Window, parts: 1, kept: 1, dated: true, firstHit: firstHit}
	case DecaySliding:
		if l.Buckets > 0 {
			return grid{length: l.Window, parts: l.Buckets, kept: l.Buckets + 1, dated: true}
		}
		return grid{length: l.Window, parts: 1, kept: 2, dated: true}
	case DecayDrain:
		// A full bucket drains in one period, so units that are two periods old have drained.
		period := oneOff
		if l.Count > 0 {
			period = min(period, ceilDiv(l.Burst*l.Window, l.Count))
		}
		return grid{length: max(period, 1), parts: 1, kept: 2}
	}
	return grid{length: l.Window, parts: 1, kept: 2}
}

// grid returns the windows of a limit for these sums. The limits of a bucket that drains differ in their periods, and
// requests of several tiers may use one bucket in turn. The longest period sets the windows, so that an incarnation
// continues.
func (m *Sums) grid(l Limit) grid {
	g := gridOf(l)
	if l.Algorithm.Traits().Decay == DecayDrain && m.Shape > g.shape() {
		g.length = m.Shape / (MaxBuckets + 1)
	}
	return g
}

// shape is Sums.Shape.
func (g grid) shape() int64 {
	parts := g.parts
	if g.firstHit {
		parts = 0
	}
	return g.length*(MaxBuckets+1) + parts
}

// number returns the number of the window at time t. For first_hit it is t.
func (g grid) number(t int64) int64 {
	if g.firstHit {
		return t
	}
	return floorDiv((t-g.anchor)*g.parts, g.length)
}

// covers reports whether a window covers time t.
func (g grid) covers(number, t int64) bool {
	if g.firstHit {
		return t >= number && t-number < g.length
	}
	return g.number(t) == number
}

// start is the first ms of a window.
func (g grid) start(number int64) int64 {
	if g.firstHit {
		return number
	}
	return g.anchor + ceilDiv(number*g.length, g.parts)
}

// Limit is the limit at which another region counts these units, of the rule's own limit.
func (m *Sums) Limit(l Limit) Limit {
	if m.Burst > 0 && l.Algorithm.Traits().Decay == DecayDrain {
		own := l
		own.Count, own.Burst = m.Count, m.Burst
		if own.Validate() == nil {
			return own
		}
	}
	return l
}

// Life is for how long, in ms, sums of a limit are kept after their last change, and remembered after they were
// applied: as long as any of their units can count, and SumsMargin.
func (m *Sums) Life(l Limit) int64 {
	g := m.grid(l)
	return min(ceilDiv((g.kept+1)*g.length, g.parts)+SumsMargin, MaxWindow)
}

// NoteLimit notes the limit of a take or charge.
func (m *Sums) NoteLimit(l Limit) {
	if l.Algorithm.Traits().Decay == DecayDrain {
		m.Count, m.Burst = l.Count, l.Burst
	}
}

// Spend counts w units that have just been booked in the bucket s at time now (ms).
func (m *Sums) Spend(l Limit, s *State, now, w int64) {
	g := m.grid(l)
	number := g.number(now)
	if g.dated {
		number = g.number(s.At) // where the kernel has booked it
	}
	m.follow(g, number, now)
	if w > MaxExact-m.Taken {
		m.begin(g, now)
		m.Windows = append(m.Windows, WindowUnits{Number: number})
	}
	m.Taken += w
	m.Windows[0].Units += w
}

// follow makes the window with that number the newest. If the clock or the limit has changed so that the
// numbers no longer fit together, or half of the units that sums can hold are counted, it begins an incarnation.
func (m *Sums) follow(g grid, number, now int64) {
	if m.Born == 0 || m.Shape != g.shape() {
		m.begin(g, now)
	}
	if len(m.Windows) > 0 {
		ago := m.Windows[0].Number - number
		if ago == 0 || ago == 1 && !g.dated { // a clock that steps back a little at the end of a period
			return
		}
		if ago > 0 || m.Taken > MaxExact/2 {
			m.begin(g, now)
		}
	}
	m.Windows = slices.Insert(m.Windows, 0, WindowUnits{Number: number})
	m.Guard.Told = 0
	for n := len(m.Windows); n > 1 && (g.firstHit || number-m.Windows[n-1].Number >= g.kept); n-- {
		m.Windows = m.Windows[:n-1]
	}
}

// begin begins an incarnation, unless nothing was counted in the present one.
func (m *Sums) begin(g grid, now int64) {
	if m.Born == 0 || m.Taken > 0 {
		m.Born = max(now, m.Born+1, m.Reset)
		m.Denied, m.Guard = 0, Guard{}
	}
	m.Guard.Told = 0
	m.Shape, m.Taken, m.Given, m.Windows = g.shape(), 0, 0, m.Windows[:0]
}

// held is how many units this region has in the bucket that were booked at time at: of a bucket that drains
// or a log, all that may count at time now.
func (m *Sums) held(g grid, at, now int64) (units int64) {
	for _, w := range m.Windows {
		switch {
		case !g.dated && g.number(now)-w.Number < g.kept, g.dated && g.covers(w.Number, at):
			units += w.Units
		}
	}
	return units
}

// give counts units as given back: of those booked at time at.
func (m *Sums) give(g grid, at, units int64) {
	m.Given += units
	for i := range m.Windows {
		if w := &m.Windows[i]; !g.dated || g.covers(w.Number, at) {
			part := min(units, w.Units)
			w.Units, units = w.Units-part, units-part
		}
	}
}

// drained is the level of a bucket that drains, in 1/Window units; 0 of others.
func drained(l Limit, s *State, now int64) (level int64) {
	switch t := l.Algorithm.Traits(); {
	case t.Decay != DecayDrain:
	case t.Instant:
		level = gcraKernel{}.level(l, s, now)
	default:
		level, _ = levelKernel{}.level(l, s, now)
	}
	return level
}

// giveAs counts what a refund has given back, of units booked at time at. A bucket that drains, whose level was before,
// may give back a fraction of a unit; the sums count the nearest whole number.
func (m *Sums) giveAs(l Limit, s *State, now, at, before, units int64) {
	g := m.grid(l)
	if l.Algorithm.Traits().Decay == DecayDrain {
		units = min((before-drained(l, s, now)+l.Window/2)/l.Window, m.held(g, at, now))
	}
	m.give(g, at, units)
}

// Refund is as the function Refund, and counts what is given back. It gives back no unit that another
// region spent.
func (m *Sums) Refund(l Limit, s *State, now int64, c Charged) (Decision, bool) {
	g := m.grid(l)
	if m.Shape != g.shape() {
		c.Weight = 0
	}
	c.Weight = min(c.Weight, m.held(g, c.At, now))
	d, changed := RefundNow(l, s, now, 0) // moves the clock of the bucket, if it must
	before := drained(l, s, now)
	if c.Weight > 0 {
		var did bool
		d, did = Refund(l, s, now, c)
		changed = changed || did
		m.giveAs(l, s, now, c.At, before, d.Refunded)
	}
	return d, changed
}

// RefundNow is as the function RefundNow, and counts what is given back. It gives back no unit that another
// region spent.
func (m *Sums) RefundNow(l Limit, s *State, now, w int64) (d Decision, changed bool) {
	g := m.grid(l)
	if m.Shape != g.shape() {
		return RefundNow(l, s, now, 0)
	}
	if !g.dated {
		_, changed = RefundNow(l, s, now, 0) // moves the clock of the bucket, if it must
		before := drained(l, s, now)
		d, did := RefundNow(l, s, now, min(w, m.held(g, now, now)))
		m.giveAs(l, s, now, now, before, d.Refunded)
		return d, changed || did
	}
	var units int64
	for _, window := range slices.Clone(m.Windows) {
		var did bool
		if c := (Charged{At: g.start(window.Number), Weight: w - units, Born: s.Born}); c.Weight > 0 {
			d, did = m.Refund(l, s, now, c)
			units, changed = units+d.Refunded, changed || did
		}
	}
	d, did := RefundNow(l, s, now, 0)
	d.Refunded = units
	return d, changed || did
}

// Settle is as the function Settle, and counts the difference.
func (m *Sums) Settle(l Limit, s *State, now int64, c Charged, actual int64) (Decision, bool) {
	missing := actual - c.Weight
	if missing < 0 {
		g := m.grid(l)
		held := int64(0)
		if m.Shape == g.shape() {
			held = m.held(g, c.At, now)
		}
		c.Weight = actual + min(-missing, held)
		d, changed := RefundNow(l, s, now, 0) // moves the clock of the bucket, if it must
		if before := drained(l, s, now); c.Weight > actual {
			var did bool
			d, did = Settle(l, s, now, c, actual)
			changed = changed || did
			m.giveAs(l, s, now, c.At, before, d.Refunded)
		}
		return d, changed
	}
	d, changed := Settle(l, s, now, c, actual)
	if missing > 0 {
		m.Spend(l, s, now, missing)
	}
	return d, changed
}

// ResetAt begins an incarnation with a reset at time now, and makes void what was born before it in any
// region. heard is what was applied from other regions.
func (m *Sums) ResetAt(now int64, received Received) {
	at := max(now, m.Born+1, m.Reset+1)
	for i := range received {
		at = max(at, received[i].Sums.Born+1)
	}
	*m = Sums{Born: at, Reset: at}
}
