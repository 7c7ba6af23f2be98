package main

import (
	"context"
	"fmt"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	goredisstore "github.com/throttled/throttled/v2/store/goredisstore.v9"
)

func newDecider(kind, redisAddr string) (decider, error) {
	if kind == "go-limiter" {
		return goLimiter()
	}
	client := redis.NewClient(&redis.Options{Addr: redisAddr, PoolSize: 64})
	switch kind {
	case "naive":
		return naive(client), nil
	case "coalescer":
		return newCoalescer(client).decide, nil
	case "redis_rate":
		l := redis_rate.NewLimiter(client)
		return func(ctx context.Context, q question) (answer, error) {
			r, err := l.Allow(ctx, q.Key, redis_rate.Limit{Rate: int(q.Limit), Burst: int(q.Limit),
				Period: time.Duration(q.Window) * time.Millisecond})
			if err != nil {
				return answer{}, err
			}
			return answer{Allowed: r.Allowed > 0, Limit: q.Limit, Remaining: int64(r.Remaining),
				RetryMS: r.RetryAfter.Milliseconds(), ResetMS: r.ResetAfter.Milliseconds()}, nil
		}, nil
	case "throttled":
		return throttledLimiter(client)
	}
	return nil, fmt.Errorf("there is no rival called %q", kind)
}

// window is sluice's two-counter window in as few lines as possible: one key, one script call and
// one connection of the pool for each request.
var window = redis.NewScript(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local W, L = tonumber(ARGV[1]), tonumber(ARGV[2])
local k, e = math.floor(now / W), now % W
local s = redis.call('HMGET', KEYS[1], 'k', 'c', 'p')
local k0, cur, prev = tonumber(s[1] or -2), tonumber(s[2] or 0), tonumber(s[3] or 0)
if k0 == k - 1 then prev, cur = cur, 0 elseif k0 ~= k then prev, cur = 0, 0 end
local ok = prev * (W - e) + (cur + 1) * W <= L * W
if ok then
  cur = cur + 1
  redis.call('HSET', KEYS[1], 'k', k, 'c', cur, 'p', prev)
  redis.call('PEXPIRE', KEYS[1], 2 * W - e)
end
return {ok and 1 or 0, math.max(0, math.floor(L - cur - prev * (W - e) / W)), W - e}`)

func naive(client *redis.Client) decider {
	return func(ctx context.Context, q question) (answer, error) {
		r, err := window.Run(ctx, client, []string{q.Key}, q.Window, q.Limit).Int64Slice()
		if err != nil {
			return answer{}, err
		}
		return answer{Allowed: r[0] == 1, Limit: q.Limit, Remaining: r[1], ResetMS: r[2]}, nil
	}
}

func throttledLimiter(client *redis.Client) (decider, error) {
	store, err := goredisstore.NewCtx(client, "throttled:")
	if err != nil {
		return nil, err
	}
	// It is created with fixed limits. The benchmark uses only one.
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerMin(1_000_000),
		MaxBurst: 999_999})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q question) (answer, error) {
		limited, r, err := l.RateLimitCtx(ctx, q.Key, 1)
		if err != nil {
			return answer{}, err
		}
		return answer{Allowed: !limited, Limit: int64(r.Limit), Remaining: int64(r.Remaining),
			RetryMS: r.RetryAfter.Milliseconds(), ResetMS: r.ResetAfter.Milliseconds()}, nil
	}, nil
}

func goLimiter() (decider, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: 1_000_000, Interval: time.Minute})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, q question) (answer, error) {
		limit, remaining, reset, ok, err := store.Take(ctx, q.Key)
		if err != nil {
			return answer{}, err
		}
		return answer{Allowed: ok, Limit: int64(limit), Remaining: int64(remaining),
			ResetMS: (int64(reset) - time.Now().UnixNano()) / 1e6}, nil
	}, nil
}
