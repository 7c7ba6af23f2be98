package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

// RegionNews is what the nodes of one region tell each other, in their Redis, about other regions: from which ones news
// has arrived at any of them, and whose turn it is to tell the others what this region has spent. It is safe for
// concurrent use and owns no goroutine.
type RegionNews struct {
	client redis.UniversalClient
	prefix string
	node   string // what this node is called in turns
}

// NewRegionNews uses a client, which it does not close, under a prefix such as "sl:".
func NewRegionNews(client redis.UniversalClient, prefix string) *RegionNews {
	return &RegionNews{client: client, prefix: prefix + "region:", node: rand.Text()} // keys of buckets have braces
}

// Arrived says that news has arrived from a region. It counts for ttl. what is kept with it.
func (n *RegionNews) Arrived(ctx context.Context, region, what string, ttl time.Duration) error {
	if err := n.client.Set(ctx, n.prefix+"from:"+region, what, ttl).Err(); err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

// Taken says that a region has taken what this one has told. It counts for ttl.
func (n *RegionNews) Taken(ctx context.Context, region string, ttl time.Duration) error {
	if err := n.client.Set(ctx, n.prefix+"to:"+region, 1, ttl).Err(); err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

// Heard returns what was kept with the last news from each of the regions whose news still counts, and that have taken
// what this one has told.
func (n *RegionNews) Heard(ctx context.Context, regions []string) (map[string]string, error) {
	values, taken := make([]*redis.StringCmd, len(regions)), make([]*redis.IntCmd, len(regions))
	_, _ = n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, region := range regions {
			values[i], taken[i] = p.Get(ctx, n.prefix+"from:"+region), p.Exists(ctx, n.prefix+"to:"+region)
		}
		return nil
	}) // each command has its error
	out := map[string]string{}
	for i, v := range values {
		switch err := cmp.Or(v.Err(), taken[i].Err()); {
		case err == nil && taken[i].Val() == 0:
		case err == nil:
			out[regions[i]] = v.Val()
		case !errors.Is(err, redis.Nil):
			return nil, redisstore.Classify(err)
		}
	}
	return out, nil
}

// takeTurn takes a turn, or keeps it. KEYS[1] the turn. ARGV[1] the node, ARGV[2] for how many ms it is known to have
// it, ARGV[3] how many ms before the end of that time another node may take it. Returns 1 if the node has the turn.
var takeTurn = redis.NewScript(`
local who = redis.call('GET', KEYS[1])
if who and who ~= ARGV[1] and redis.call('PTTL', KEYS[1]) > tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)

// Turn reports whether this node is to tell the others, in this interval, what its region has spent, and that it is
// there. One node is, but those that yield are all as long as they are alone: if no other node was for nearly two
// intervals. A node keeps its turn if it asks for the next one a little early.
func (n *RegionNews) Turn(ctx context.Context, interval time.Duration, yields bool) (bool, error) {
	key := n.prefix + "turn"
	if yields {
		who, err := n.client.Get(ctx, key).Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			return false, redisstore.Classify(err)
		}
		return err != nil || who == n.node, nil
	}
	mine, err := takeTurn.Run(ctx, n.client, []string{key}, n.node, (interval * 19 / 10).Milliseconds(),
		interval.Milliseconds()).Bool()
	if err != nil {
		return false, redisstore.Classify(err)
	}
	return mine, nil
}
