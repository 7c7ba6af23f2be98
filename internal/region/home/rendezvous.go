package home

import (
	"github.com/cespare/xxhash/v2"

	"sluice/limiter"
)

// Of returns the home of a key among regions, "" without any: the region whose hash together with the key's entity
// (limiter.Key.Tag) is the highest, so that all buckets of an entity are at one place. Their order does not matter. If
// one region comes or goes, only the keys that it has or had move, 1/R of all.
//
// This is highest random weight, or rendezvous, hashing: Thaler and Ravishankar, "Using name-based mappings to increase
// hit rates", IEEE/ACM Transactions on Networking 6 (1998). The hash is XXH64 of the name, a zero byte and the entity.
// It must never change: nodes of different versions agree by it.
func Of(key limiter.Key, regions []string) (home string) {
	entity, most := key.Tag(), uint64(0)
	var room [128]byte
	for i, name := range regions {
		b := append(append(append(room[:0], name...), 0), entity...)
		if h := xxhash.Sum64(b); i == 0 || h > most || h == most && name > home {
			home, most = name, h
		}
	}
	return home
}
