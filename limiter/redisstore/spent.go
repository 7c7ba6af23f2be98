package redisstore

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var _ limiter.SpentReader = (*Store)(nil)

// Spent implements limiter.SpentReader. Like Export it serves people and other regions, so the breaker does not count
// its calls.
func (s *Store) Spent(ctx context.Context, key limiter.Key) (out limiter.Spent, err error) {
	isLog := strings.HasSuffix(string(key), "|"+limiter.SlidingWindowLog.Kind())
	own, from := script.SpentNames(s.naming.bucket(key), isLog)
	p := s.opt.Client.Pipeline()
	now, value, received := p.Time(ctx), p.Get(ctx, own), p.HGetAll(ctx, from)
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return out, Classify(err)
	}
	out.Now = now.Val().UnixMilli()
	if s.opt.Clock != nil {
		out.Now = s.opt.Clock()
	}
	if text := value.Val(); text != "" {
		if out.Own, err = script.SumsOf(text); err != nil {
			return out, &limiter.StoreError{Cause: limiter.CauseWrongType, Err: err}
		}
	}
	for region, text := range received.Val() {
		if region == limiter.Restored {
			continue
		}
		sums, err := script.DecodeSums(text)
		if err != nil {
			return out, &limiter.StoreError{Cause: limiter.CauseWrongType, Err: err}
		}
		out.Received = append(out.Received, limiter.RegionSums{Region: region, Sums: sums})
	}
	return out, nil
}
