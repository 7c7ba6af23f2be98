package history

import (
	"math"
	"math/bits"
)

// distinctRegisters is the number of registers of a sketch of distinct keys, a byte each, as a power of two.
// maxRank is the largest value of one.
const distinctBits, distinctRegisters, maxRank = 8, 1 << distinctBits, 64 - distinctBits + 1

// Distinct counts distinct keys in 256 bytes: the registers of HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007).
// Nil is unknown, one byte is no key. Sketches of several nodes merge into one sketch of all their keys.
type Distinct []byte

// noKeys is the sketch of no key.
func noKeys() Distinct { return Distinct{0} }

// add counts a key, and returns the sketch. Time and memory do not depend on how many there were.
func (d Distinct) add(key string) Distinct {
	if len(d) != distinctRegisters {
		d = make(Distinct, distinctRegisters)
	}
	h := uint64(0xcbf29ce484222325) // FNV-1a, the same on every node
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 0x100000001b3
	}
	h ^= h >> 33 // the finalizer of MurmurHash3: FNV alone spreads short keys badly
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	register := h >> (64 - distinctBits)
	rank := byte(bits.LeadingZeros64(h<<distinctBits|1<<(distinctBits-1)) + 1)
	d[register] = max(d[register], rank)
	return d
}

// merge returns the sketch of the keys of both, nil if either is unknown.
func (d Distinct) merge(o Distinct) Distinct {
	switch {
	case len(d) == 0 || len(o) == 0:
		return nil
	case len(o) != distinctRegisters:
		return d
	case len(d) != distinctRegisters:
		return o
	}
	out := make(Distinct, distinctRegisters)
	for i := range out {
		out[i] = max(d[i], o[i])
	}
	return out
}

// Estimate is the number of distinct keys, and by how much it may differ: twice the standard error, 13 %. known is
// false if nothing is known.
func (d Distinct) Estimate() (n, mayDiffer int64, known bool) {
	if len(d) != distinctRegisters {
		return 0, 0, len(d) > 0
	}
	const m = float64(distinctRegisters)
	inverse, empty := 0.0, 0.0
	for _, rank := range d {
		inverse += math.Ldexp(1, -int(rank))
		if rank == 0 {
			empty++
		}
	}
	estimate := 0.7213 / (1 + 1.079/m) * m * m / inverse
	if estimate <= 2.5*m && empty > 0 {
		estimate = m * math.Log(m/empty) // few keys: linear counting
	}
	return int64(math.Round(estimate)), int64(math.Ceil(2 * 1.04 / math.Sqrt(m) * estimate)), true
}
