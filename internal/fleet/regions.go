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

// RegionArrivals is the data about other regions that the nodes of one region share in their Redis: which regions have
// sent messages to any of these nodes, which have accepted messages, and which node has the turn to export the spent
// units of this region. It is safe for concurrent use and owns no goroutine.
type RegionArrivals struct {
	client redis.UniversalClient
	prefix string
	node   string // the name of this node in turns
}

// NewRegionArrivals uses a client, which it does not close, under a prefix such as "sl:".
func NewRegionArrivals(client redis.UniversalClient, prefix string) *RegionArrivals {
	return &RegionArrivals{client: client, prefix: prefix + "region:", node: rand.Text()} // keys of buckets have braces
}

// Received notes, for ttl, that a message has arrived from a region. what describes the message.
func (n *RegionArrivals) Received(ctx context.Context, region, what string, ttl time.Duration) error {
	if err := n.client.Set(ctx, n.prefix+"from:"+region, what, ttl).Err(); err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

// Accepted notes that a region has accepted a message, for ttl.
func (n *RegionArrivals) Accepted(ctx context.Context, region string, ttl time.Duration) error {
	if err := n.client.Set(ctx, n.prefix+"to:"+region, 1, ttl).Err(); err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

// Connected returns, for each region that has both sent and accepted a message, the description of its last message.
// Messages noted longer ago than their ttl do not count.
func (n *RegionArrivals) Connected(ctx context.Context, regions []string) (map[string]string, error) {
	values, accepted := make([]*redis.StringCmd, len(regions)), make([]*redis.IntCmd, len(regions))
	_, _ = n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, region := range regions {
			values[i], accepted[i] = p.Get(ctx, n.prefix+"from:"+region), p.Exists(ctx, n.prefix+"to:"+region)
		}
		return nil
	}) // each command has its error
	out := map[string]string{}
	for i, v := range values {
		switch err := cmp.Or(v.Err(), accepted[i].Err()); {
		case err == nil && accepted[i].Val() == 0:
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

// Turn reports whether this node exports in this interval. Without yields, one node at a time has the turn, and keeps
// it if it asks for the next turn a little early. A node with yields exports as long as no other node has had the turn
// for nearly two intervals.
func (n *RegionArrivals) Turn(ctx context.Context, interval time.Duration, yields bool) (bool, error) {
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
