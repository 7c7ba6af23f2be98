package history

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"

	"sluice/internal/wire"
)

// slot are the figures of one period within a row.
type slot struct {
	Figures
	// Peak is that of a Point.
	Peak int64
}

func (s *slot) add(o slot) {
	s.Add(o.Figures)
	s.Peak = max(s.Peak, o.Peak)
}

// raise makes every figure at least that of o: a period is written again when late figures come, and what was written
// stays if the counters have lost theirs.
func (s *slot) raise(o slot) {
	a, b := s.Array(), o.Array()
	for i := range a {
		a[i] = max(a[i], b[i])
	}
	use, failed := max(s.Use, o.Use), max(s.Failed, o.Failed)
	s.Figures, s.Peak = FiguresOf(a), max(s.Peak, o.Peak)
	s.Use, s.Failed = use, failed
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
	// packedSlots and packedTops are the first bytes of rows.
	packedSlots = 1
	packedTops  = 3
	// maxSlots is the largest number of periods in a row.
	maxSlots = 64
)

// pack writes the slots of a row: for each its number, which of its figures are not 0, and those. The peak is the first
// of them, plus 1, and Use and Failed are the last.
func (s slots) pack() []byte {
	out := []byte{packedSlots}
	var order []int
	for i := range s {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		one := s[i]
		figures := one.Array()
		values := append(append([]int64{one.Peak + 1}, figures[:]...), one.Use, one.Failed)
		var which uint64
		for bit, v := range values {
			if v > 0 {
				which |= 1 << bit
			}
		}
		out = binary.AppendUvarint(append(out, byte(i)), which)
		for _, v := range values {
			if v > 0 {
				out = binary.AppendUvarint(out, uint64(v))
			}
		}
	}
	return out
}

// row are the slots of a row in order. It can be used again, so that reading many rows allocates nothing.
type row struct {
	n       int
	numbers [maxSlots]byte
	slots   [maxSlots]slot
}

// unpack reads what pack wrote. A row that cannot be read is empty: what it had is unknown.
func (r *row) unpack(data []byte) {
	in := wire.Read(data)
	if r.n = 0; in.Byte() != packedSlots {
		return
	}
	n := 0
	for in.Len() > 0 {
		i := in.Byte()
		var values [NumFigures + 3]int64
		for which := uint64(in.Number(1<<len(values) - 1)); which != 0; which &= which - 1 {
			values[bits.TrailingZeros64(which)] = in.Number(math.MaxInt64)
		}
		if in.Failed() || i >= maxSlots || n == maxSlots {
			return
		}
		f := FiguresOf([NumFigures]int64(values[1:]))
		f.Use, f.Failed = values[NumFigures+1], values[NumFigures+2]
		r.numbers[n], r.slots[n] = i, slot{f, values[0] - 1}
		n++
	}
	r.n = n
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

// keptKeys is the number of keys, routes and tenants of a stored row each.
const keptKeys = 10

// packTops writes the most active keys, routes and tenants.
func packTops(t Tops) []byte {
	out := []byte{packedTops}
	for _, by := range counted {
		top := t[by].cut(keptKeys)
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
