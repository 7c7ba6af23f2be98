package history

import (
	"encoding/binary"
	"maps"
	"math"
	"math/bits"
	"slices"

	"sluice/internal/wire"
)

// slot contains the figures of one period within a row.
type slot struct {
	Figures
	// Peak is the Peak of a Point.
	Peak int64
}

func (s *slot) add(o slot) {
	s.Add(o.Figures)
	s.Peak = max(s.Peak, o.Peak)
}

// slots are the periods of a row that are known, by their number in it.
type slots map[int]slot

func (s slots) sum() (sum slot) {
	sum.Peak = -1
	for _, one := range s {
		sum.add(one)
	}
	return sum
}

const (
	// packedSlots and packedTops are the first bytes of packed figures.
	packedSlots = 1
	packedTops  = 3
	// maxSlots is the largest number of periods in a row.
	maxSlots = 64
	// sumSlot is the number of the first slot of a row, which is the sum of the others.
	sumSlot = 255
	// SumBytes is the largest number of bytes to the end of that slot.
	SumBytes = 2 + 2 + (NumFigures+4)*9
)

// appendSlot writes the slot of a row: its number, which of its figures are not 0, and those. The peak is the first of
// them, plus 1.
func appendSlot(out []byte, number byte, s *slot) []byte {
	var which uint64
	all := s.all()
	if s.Peak >= 0 {
		which = 1
	}
	for bit, v := range all {
		if v > 0 {
			which |= 2 << bit
		}
	}
	out = binary.AppendUvarint(append(out, number), which)
	if s.Peak >= 0 {
		out = binary.AppendUvarint(out, uint64(s.Peak)+1)
	}
	for _, v := range all {
		if v > 0 {
			out = binary.AppendUvarint(out, uint64(v))
		}
	}
	return out
}

// readSlot reads what appendSlot wrote.
func readSlot(in *wire.Reader, s *slot) (number byte) {
	*s, number = slot{Peak: -1}, in.Byte()
	for which := uint64(in.Number(1<<(NumFigures+4) - 1)); which != 0; which &= which - 1 {
		v := in.Number(math.MaxInt64)
		if bit := bits.TrailingZeros64(which); bit > 0 {
			*s.at(bit - 1) = v
		} else {
			s.Peak = v - 1
		}
	}
	return number
}

// pack writes the slots of a row after their sum.
func (s slots) pack() []byte {
	sum := s.sum()
	out := appendSlot([]byte{packedSlots}, sumSlot, &sum)
	for _, i := range slices.Sorted(maps.Keys(s)) {
		one := s[i]
		out = appendSlot(out, byte(i), &one)
	}
	return out
}

// row are the slots of a row in order. It can be used again, so that reading many rows allocates nothing.
type row struct {
	n       int
	numbers [maxSlots]byte
	slots   [maxSlots]slot
}

// unpack reads the encoding of pack. An unreadable row becomes empty: its figures are unknown.
func (r *row) unpack(data []byte) {
	in := wire.Read(data)
	if r.n = 0; in.Byte() != packedSlots {
		return
	}
	n := 0
	var sum slot // is not kept
	for in.Len() > 0 {
		s := &sum
		if n < maxSlots {
			s = &r.slots[n]
		}
		number := readSlot(&in, s)
		switch {
		case in.Failed(), number != sumSlot && (number >= maxSlots || n == maxSlots):
			return
		case number != sumSlot:
			r.numbers[n] = number
			n++
		}
	}
	r.n = n
}

// unpackSum reads the sum of the slots of a row, which is at its beginning; false if it cannot.
func unpackSum(data []byte) (slot, bool) {
	in := wire.Read(data)
	if in.Byte() != packedSlots {
		return slot{}, false
	}
	var s slot
	number := readSlot(&in, &s)
	return s, number == sumSlot && !in.Failed()
}

// unpackSlots reads what pack wrote, as row.unpack does.
func unpackSlots(data []byte) slots {
	var r row
	r.unpack(data)
	out := make(slots, r.n)
	for i := range r.n {
		out[int(r.numbers[i])] = r.slots[i]
	}
	return out
}

// growing is a row to which periods are added one after the other, packed all the time.
type growing struct {
	sum   slot
	there uint64 // which slots are there
	slots []byte
}

func newGrowing() *growing { return &growing{sum: slot{Peak: -1}} }

// add adds a period. That of a number which is there is added to it: the clock of the node was set back.
func (g *growing) add(number int, s slot) {
	g.sum.add(s)
	if g.there>>number&1 == 0 {
		g.there |= 1 << number
		g.slots = appendSlot(g.slots, byte(number), &s)
		return
	}
	all := unpackSlots(g.pack())
	s.add(all[number])
	all[number], g.slots = s, g.slots[:0]
	for n, one := range all {
		g.slots = appendSlot(g.slots, byte(n), &one)
	}
}

func (g *growing) pack() []byte {
	out := appendSlot(make([]byte, 0, SumBytes+len(g.slots)), sumSlot, &g.sum)
	return append(append([]byte{packedSlots}, out...), g.slots...)
}

// PackHour packs minutes of an hour that a process decided by a rule, and its most active keys, routes and tenants. It
// serves measurements and sluice demo: a Writer writes what an Own has.
func PackHour(writer int64, rule string, hour int64, minutes []Point, tops Tops) LiveRow {
	g := newGrowing()
	for i := range minutes {
		g.add(int(minutes[i].At.Unix()/60%minutesAnHour), slot{minutes[i].Figures, minutes[i].Peak})
	}
	return LiveRow{Writer: writer, Rule: rule, Hour: hour, Data: g.pack(), Tops: packTops(tops, topKeys)}
}

// keptKeys is the number of keys, routes and tenants each of a row that was added up.
const keptKeys = 10

// packTops writes the most active keys, routes and tenants, at most most of each.
func packTops(t Tops, most int) []byte {
	out := []byte{packedTops}
	for _, by := range counted {
		top := t[by].cut(most)
		out = binary.AppendUvarint(out, uint64(top.Rest))
		out = binary.AppendUvarint(out, uint64(len(top.Entries)))
		for _, e := range top.Entries {
			out = wire.AppendText(out, e.Key)
			for _, v := range []int64{e.Allowed, e.Denied, e.Over, e.Variance} {
				out = binary.AppendUvarint(out, uint64(max(0, v)))
			}
		}
	}
	denied := t[ByKey].Denied
	return append(binary.AppendUvarint(out, uint64(len(denied))), denied...)
}

// unpackTops reads what packTops wrote, nil if it cannot.
func unpackTops(data []byte) Tops {
	in, out := wire.Read(data), Tops{}
	if in.Byte() != packedTops {
		return nil
	}
	for _, by := range counted {
		top := Top{Rest: in.Number(math.MaxInt64)}
		for range in.Count(5) {
			e := TopEntry{Key: in.Text(maxKeyBytes)}
			for _, v := range []*int64{&e.Allowed, &e.Denied, &e.Over, &e.Variance} {
				*v = in.Number(math.MaxInt64)
			}
			top.Entries = append(top.Entries, e)
		}
		out[by] = top
	}
	of := out[ByKey]
	of.Denied = slices.Clone(in.Bytes(in.Number(distinctRegisters)))
	out[ByKey] = of
	if !in.Done() {
		return nil
	}
	return out
}
