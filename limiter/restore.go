package limiter

import (
	"cmp"
	"slices"
)

// Restored is the region, in Received, of what Restore has booked.
const Restored = ""

// Restore books in the bucket s the units that this region had spent in it before its store lost its data. m is the
// sums that another region has received from this one, and own the sums since the loss, which then continue the
// incarnation of m. The other regions thus book only the difference to the sums that they have, as if the store had
// lost just its last writes. own must not have been exported since the loss: a region that has received a later
// incarnation ignores earlier ones.
//
// Regions may have received different sums. The largest of one incarnation counts, and the latest incarnation of
// several, in whatever order they arrive, and however often.
//
// Example: this region had spent 20 units, and another one has received that. After the loss it spends 5. Restore books
// 20 more in the bucket and makes Taken 25. The other region books 5 when it receives that.
func Restore(l Limit, s *State, own *Sums, received *Received, m *Sums, now int64) (Outcome, bool) {
	last := received.of(Restored)
	kept := last.Born == 0 && own.Born == m.Born // this bucket was not lost, or only its last writes were
	if kept {
		*last = *own
		last.Windows = slices.Clone(own.Windows)
	}
	before := *last
	outcome, changed := Apply(l, s, own, received, Restored, m, now)
	switch {
	case before.Born < own.Reset:
		before = Sums{}
	case kept && outcome != Applied:
		*received.of(Restored) = Sums{}
	}
	if outcome == Applied {
		own.resume(l, m, &before)
	}
	return outcome, changed
}

// resume adds the sums m of an earlier incarnation, which own then continues. It has added before already. If the limit
// was edited since m, own stays as it is, because windows of two shapes cannot be added; other regions count both.
func (own *Sums) resume(l Limit, m, before *Sums) {
	if own.Taken > 0 && own.Shape != m.Shape || own.Taken > MaxExact-m.Taken {
		return
	}
	units := map[int64]int64{}
	for _, w := range slices.Concat(own.Windows, m.Windows) {
		units[w.Number] += w.Units
	}
	for _, w := range before.Windows {
		units[w.Number] -= w.Units
	}
	own.Born, own.Shape = m.Born, m.Shape
	if own.Burst == 0 {
		own.Count, own.Burst = m.Count, m.Burst
	}
	own.Taken, own.Given = max(0, own.Taken+m.Taken-before.Taken), max(0, own.Given+m.Given-before.Given)
	own.Denied = min(max(0, own.Denied+m.Denied-before.Denied), MaxExact)
	own.Windows = own.Windows[:0]
	for number, n := range units {
		if n > 0 {
			own.Windows = append(own.Windows, WindowUnits{number, n})
		}
	}
	slices.SortFunc(own.Windows, func(a, b WindowUnits) int { return cmp.Compare(b.Number, a.Number) })
	g := own.grid(l)
	for n := len(own.Windows); n > 1 && !g.firstHit && own.Windows[0].Number-own.Windows[n-1].Number >= g.kept; n-- {
		own.Windows = own.Windows[:n-1]
	}
	if len(own.Windows) > 0 && len(m.Windows) > 0 && own.Windows[0].Number == m.Windows[0].Number &&
		m.Windows[0].Units <= MostTold {
		own.Guard.Told = m.Windows[0].Units
	}
}
