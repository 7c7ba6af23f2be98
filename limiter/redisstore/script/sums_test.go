package script

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/testenv"
	"sluice/limiter"
)

// spanning sends takes of one bucket that spans regions.
type spanning struct {
	t      *testing.T
	client *redis.Client
	names  Names
}

func newSpanning(t *testing.T) *spanning {
	c := redis.NewClient(&redis.Options{Addr: testenv.SharedRedis(t).Addr, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	prefix := t.Name() + ":"
	return &spanning{t: t, client: c, names: Names{
		Prefix: prefix, Bucket: func(k limiter.Key) string { return prefix + string(k) },
	}}
}

// take takes w units of one limit and returns the decision and the name of its bucket.
func (s *spanning) take(a limiter.Ask) (limiter.Decision, string) {
	s.t.Helper()
	r := &Request{}
	r.Encode(&s.names, &limiter.Request{Asks: []limiter.Ask{a}})
	keys, arg := Encode([]*Request{r}, nil)
	reply, err := s.client.Eval(context.Background(), New().Source, keys, arg, s.names.Prefix+"changed", 3, 200, 0).Text()
	if err != nil {
		s.t.Fatal(err)
	}
	Decode(reply, []*Request{r})
	if r.Err != nil {
		s.t.Fatal(r.Err)
	}
	return r.Result.Limits[0], r.Keys[0]
}

// The commonest takes leave the life of the bucket as it is, which therefore suffices for all takes of the window.
func TestSums_LiveUntilNothingCounts(t *testing.T) {
	s := newSpanning(t)
	const window = 600_000
	for _, l := range []limiter.Limit{
		{Algorithm: limiter.FixedWindow, Count: 1000, Window: window},
		{Algorithm: limiter.FixedWindow, Count: 1000, Window: window, Align: limiter.AlignFirstHit},
		{Algorithm: limiter.SlidingWindowCounter, Count: 1000, Window: window},
		{Algorithm: limiter.SlidingWindowBuckets, Count: 1000, Window: window, Buckets: 60},
		{Algorithm: limiter.SlidingWindowLog, Count: 1000, Window: window},
		{Algorithm: limiter.TokenBucket, Count: 1000, Window: window, Burst: 1000},
		{Algorithm: limiter.GCRA, Count: 1000, Window: window, Burst: 1000},
		{Algorithm: limiter.LeakyBucket, Count: 1000, Window: window, Burst: 1000},
	} {
		key := limiter.Key("{a}|" + string(rune('a'+l.Align)) + "|" + l.Algorithm.String())
		for _, weight := range []int64{1, 1, 900} {
			d, name := s.take(limiter.Ask{Key: key, Limit: l, Weight: weight, Spans: true})
			left := s.client.PTTL(context.Background(), name).Val().Milliseconds()
			if !d.Allowed || left < d.Reset {
				t.Errorf("%s: %+v, which is kept for %d ms, want the reset at least", l.Algorithm, d, left)
			}
		}
	}
}
