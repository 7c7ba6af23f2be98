package override

import "github.com/dchest/siphash"

// hashSeed keys the hashes of override keys. It is drawn at random, so that
// nobody outside can make two keys meet.
type hashSeed [2]uint64

// sum is SipHash-2-4 with 128 bits of output. Among a million keys two meet with a
// probability of about 10^-27. Its values are part of the format of Write.
func (k hashSeed) sum(p []byte) (a, b uint64) { return siphash.Hash128(k[0], k[1], p) }
