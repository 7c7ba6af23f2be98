package region

import (
	"github.com/cespare/xxhash/v2"

	"sluice/limiter"
)

// Score orders regions for a key: whoever has the highest score comes first, of the same score the greater name. It
// goes by the key's entity (limiter.Key.Tag), so that all buckets of an entity have one order. If a region comes or
// goes, the order of the others stays.
//
// This is highest random weight, or rendezvous, hashing: Thaler and Ravishankar, "Using name-based mappings to increase
// hit rates", IEEE/ACM Transactions on Networking 6 (1998). The hash is XXH64 of the name, a zero byte and the entity.
// It must never change: nodes of different versions agree by it.
func Score(name string, key limiter.Key) uint64 {
	var room [128]byte
	return xxhash.Sum64(append(append(append(room[:0], name...), 0), key.Tag()...))
}

// Rank returns how many of the others come before a region for a key.
func Rank(key limiter.Key, self string, others []string) (rank int) {
	own := Score(self, key)
	for _, name := range others {
		if s := Score(name, key); s > own || s == own && name > self {
			rank++
		}
	}
	return rank
}
