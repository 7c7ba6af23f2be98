package home

import (
	"sluice/internal/region"
	"sluice/limiter"
)

// Of returns the home of a key among regions, "" without any: the first for its entity (region.Score), so that all
// buckets of an entity are at one place. Their order does not matter. If one region comes or goes, only the keys that
// it has or had move, 1/R of all.
func Of(key limiter.Key, regions []string) (home string) {
	most := uint64(0)
	for i, name := range regions {
		if s := region.Score(name, key); i == 0 || s > most || s == most && name > home {
			home, most = name, s
		}
	}
	return home
}
