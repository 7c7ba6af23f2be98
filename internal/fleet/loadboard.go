package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

// LoadBoard stores the reported loads of pools where every node can read them: one
// key for each pool, which expires. It is safe for concurrent use and owns no
// goroutine.
type LoadBoard struct {
	client redis.UniversalClient
	prefix string
}

// NewLoadBoard stores reports through a client, which may be the client of the counter store, under the prefix of that
// store ("sl:" if empty).
func NewLoadBoard(client redis.UniversalClient, prefix string) (*LoadBoard, error) {
	if client == nil {
		return nil, errors.New("loads: a client is required")
	}
	if prefix == "" {
		prefix = "sl:"
	}
	return &LoadBoard{client: client, prefix: prefix}, nil
}

// key is the key of the report on one pool. Keys of buckets have braces.
func (l *LoadBoard) key(pool string) string { return l.prefix + "load:" + pool }

// Put stores a report for ttl: the part of the pool that is in use, in millionths.
// It replaces an earlier one. The error is a *limiter.StoreError.
func (l *LoadBoard) Put(ctx context.Context, pool string, millionths int64, ttl time.Duration) error {
	if err := l.client.Set(ctx, l.key(pool), millionths, max(ttl, time.Millisecond)).Err(); err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

// Get reads the reports of some pools, each with its remaining time, which is 0 if
// there is no report. Malformed reports count as none. The error is a
// *limiter.StoreError.
func (l *LoadBoard) Get(ctx context.Context, pools []string) (millionths []int64, left []time.Duration, err error) {
	values, ttls := make([]*redis.StringCmd, len(pools)), make([]*redis.DurationCmd, len(pools))
	_, err = l.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, pool := range pools {
			values[i], ttls[i] = p.Get(ctx, l.key(pool)), p.PTTL(ctx, l.key(pool))
		}
		return nil
	})
	for i := range pools { // err may be that a key does not exist, and hide another
		if e := errors.Join(values[i].Err(), ttls[i].Err()); e != nil && !errors.Is(values[i].Err(), redis.Nil) {
			return nil, nil, redisstore.Classify(e)
		}
	}
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, nil, redisstore.Classify(err)
	}
	millionths, left = make([]int64, len(pools)), make([]time.Duration, len(pools))
	for i := range pools {
		v, err := strconv.ParseInt(values[i].Val(), 10, 64)
		if ttl := ttls[i].Val(); err == nil && v >= 0 && ttl > 0 {
			millionths[i], left[i] = v, ttl
		}
	}
	return millionths, left, nil
}
