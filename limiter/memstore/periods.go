package memstore

import (
	"context"
	"fmt"
	"strconv"

	"sluice/limiter"
)

var _ limiter.PeriodLister = (*Store)(nil)

// PeriodKeys implements limiter.PeriodLister. Each call reads one shard, under its lock.
func (s *Store) PeriodKeys(_ context.Context, at string) (keys []limiter.Key, next string, err error) {
	shard := 0
	if at != "" {
		if shard, err = strconv.Atoi(at); err != nil || shard < 0 || shard >= shardCount {
			return nil, "", fmt.Errorf("%w: no place %q", limiter.ErrInvalid, at)
		}
	}
	sh := &s.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for i := range sh.buckets.slots {
		key := limiter.Key(sh.buckets.slots[i].key.appendTo(nil))
		if _, _, ok := key.Period(); ok {
			keys = append(keys, key)
		}
	}
	if shard+1 < shardCount {
		next = strconv.Itoa(shard + 1)
	}
	return keys, next, nil
}
