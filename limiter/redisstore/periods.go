package redisstore

import (
	"context"
	"fmt"

	"sluice/limiter"
)

// periodsAtOnce is the COUNT of one SCAN for buckets of periods: what Redis looks at in some 100 microseconds.
const periodsAtOnce = 200

var _ limiter.PeriodLister = (*Store)(nil)

// PeriodKeys implements limiter.PeriodLister with one SCAN of one primary.
func (s *Store) PeriodKeys(ctx context.Context, at string) (keys []limiter.Key, next string, err error) {
	server, cursor := 0, uint64(0)
	if at != "" {
		if _, err := fmt.Sscanf(at, "%d-%d", &server, &cursor); err != nil {
			return nil, "", fmt.Errorf("%w: no place %q", limiter.ErrInvalid, at)
		}
	}
	servers, err := s.primaries(ctx)
	if err != nil || server < 0 || server >= len(servers) {
		return nil, "", err
	}
	pattern := globs.Replace(s.opt.Prefix) + "{*}*|" + limiter.FixedWindow.Kind() + ".*"
	names, cursor, err := servers[server].Scan(ctx, cursor, pattern, periodsAtOnce).Result()
	if err != nil {
		return nil, "", Classify(err)
	}
	for _, name := range names {
		if key, ok := KeyOf(s.opt.Prefix, name); ok {
			keys = append(keys, key)
		}
	}
	switch {
	case cursor > 0:
		next = fmt.Sprintf("%d-%d", server, cursor)
	case server+1 < len(servers):
		next = fmt.Sprintf("%d-0", server+1)
	}
	return keys, next, nil
}
