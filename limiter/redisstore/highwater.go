package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var _ limiter.HighWaterReader = (*Store)(nil)

// highWaterKey is the name of the hash of high-water marks.
func (s *Store) highWaterKey() string { return s.opt.Prefix + "highwater" }

var highWater = redis.NewScript(script.HighWater().Source)

// HighWater implements limiter.HighWaterReader. A cluster has no marks, because a script that decides on a slot which
// moves to another server can write to the bucket and not to the mark.
func (s *Store) HighWater(ctx context.Context) (map[string]int64, error) {
	if s.cluster != nil {
		return nil, errors.New("a Redis Cluster keeps no high-water marks")
	}
	now := int64(0)
	if s.opt.Clock != nil {
		now = s.opt.Clock()
	}
	reply, err := highWater.Run(ctx, s.opt.Client, []string{s.highWaterKey()}, now).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("read high-water marks: %w", Classify(err))
	}
	out := make(map[string]int64, len(reply)/2)
	for i := 0; i+1 < len(reply); i += 2 {
		if out[reply[i]], err = strconv.ParseInt(reply[i+1], 10, 64); err != nil {
			out[reply[i]] = limiter.MaxExact
		}
	}
	return out, nil
}
