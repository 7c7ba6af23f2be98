package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/region/share"
	"sluice/limiter/redisstore"
)

// RegionShares keeps, in the Redis of a region, the state of its shares and the demand that its nodes receive. It is
// safe for concurrent use and owns no goroutine.
type RegionShares struct {
	client redis.UniversalClient
	prefix string
}

// NewRegionShares uses a client, which it does not close, under a prefix such as "sl:".
func NewRegionShares(client redis.UniversalClient, prefix string) *RegionShares {
	return &RegionShares{client: client, prefix: prefix + "region:shares"}
}

// The run_id of a server changes when it starts, and a promoted replica has another run_id.
const serverOf = `
local info = redis.call('INFO', 'server')
local server = string.match(info, 'run_id:(%w+)') or ''
`

var readShares = redis.NewScript(serverOf + `
local t, kept = redis.call('TIME'), redis.call('HMGET', KEYS[1], 'server', 'version', 'state')
return {t[1] * 1000 + math.floor(t[2] / 1000), server, kept[1] or '', kept[2] or '0', kept[3] or ''}`)

var writeShares = redis.NewScript(serverOf + `
if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] or server ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], 'server', server, 'version', ARGV[3], 'state', ARGV[4])
return 1`)

// Read returns the state.
func (s *RegionShares) Read(ctx context.Context) (*share.Kept, error) {
	v, err := readShares.Run(ctx, s.client, []string{s.prefix}).Slice()
	if err != nil {
		return nil, redisstore.Classify(err)
	}
	k := &share.Kept{}
	at, ok := v[0].(int64)
	if len(v) == 5 && ok {
		k.At, k.Server, k.Kept, k.State = at, fmt.Sprint(v[1]), fmt.Sprint(v[2]), []byte(fmt.Sprint(v[4]))
		k.Version, err = strconv.ParseInt(fmt.Sprint(v[3]), 10, 64)
	}
	if err != nil || k.Server == "" {
		return nil, errors.New("shares of regions: Redis did not say which server it is, or its state is not one of ours")
	}
	return k, nil
}

// Write stores a state that follows from the state that was read. It returns false, and changes nothing, if another
// state was stored since, or if the server is another one.
func (s *RegionShares) Write(ctx context.Context, read *share.Kept, version int64, state []byte) (bool, error) {
	n, err := writeShares.Run(ctx, s.client, []string{s.prefix}, read.Version, read.Server, version, state).Int()
	if err != nil {
		return false, redisstore.Classify(err)
	}
	return n == 1, nil
}

// Turn reports whether this node has the turn for a task. No other node gets the turn for ttl.
func (s *RegionShares) Turn(ctx context.Context, what string, ttl time.Duration) (bool, error) {
	first, err := s.client.SetNX(ctx, s.prefix+":turn:"+what, 1, ttl).Result()
	if err != nil {
		return false, redisstore.Classify(err)
	}
	return first, nil
}

// Ask adds the units that were demanded of this node, by rule.
func (s *RegionShares) Ask(ctx context.Context, units map[int64]int64) error {
	if len(units) == 0 {
		return nil
	}
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for rule, n := range units {
			p.HIncrBy(ctx, s.prefix+":asked", strconv.FormatInt(rule, 10), n)
		}
		return nil
	})
	if err != nil {
		return redisstore.Classify(err)
	}
	return nil
}

var takeAsked = redis.NewScript(`
local all = redis.call('HGETALL', KEYS[1])
redis.call('DEL', KEYS[1])
return all`)

// Asked returns the units that were demanded of the nodes since the last call, and sets them to zero. Units that a node
// adds later belong to the next call.
func (s *RegionShares) Asked(ctx context.Context) (map[int64]int64, error) {
	all, err := takeAsked.Run(ctx, s.client, []string{s.prefix + ":asked"}).StringSlice()
	if err != nil {
		return nil, redisstore.Classify(err)
	}
	out := map[int64]int64{}
	for pair := range slices.Chunk(all, 2) {
		rule, err := strconv.ParseInt(pair[0], 10, 64)
		n, other := strconv.ParseInt(pair[1], 10, 64)
		if err == nil && other == nil && n > 0 {
			out[rule] = n
		}
	}
	return out, nil
}
