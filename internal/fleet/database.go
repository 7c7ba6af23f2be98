package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// databaseField is the field of SettingsKey with the id of the rules database that the counters belong to.
const databaseField = "database"

// claimScript claims the counters for a rules database, or confirms that a node of it is live. A node of another
// database gets them if no node of the stored database is live. The script is one atomic step, so that only one of two
// nodes that start together wins. KEYS[1] the settings; KEYS[2] the live nodes of the stored database, by the server's
// time in ms at which they expire. ARGV[1] the node, ARGV[2] the id of its database, ARGV[3] for how many ms it counts
// as live. Returns the id that was stored before, which is empty for none, and 1 if it stays because one of its nodes
// is live.
const claimScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local stored = redis.call('HGET', KEYS[1], '` + databaseField + `')
local write = redis.call
if stored == ARGV[2] then
  write = redis.pcall -- a server that refuses writes says whose the counters are all the same
else
  if stored and redis.call('ZCOUNT', KEYS[2], '(' .. now, '+inf') > 0 then
    return {stored, 1}
  end
  write('HSET', KEYS[1], '` + databaseField + `', ARGV[2])
  write('DEL', KEYS[2])
end
write('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
write('ZADD', KEYS[2], now + ARGV[3], ARGV[1])
write('PEXPIRE', KEYS[2], ARGV[3])
return {stored or '', 0}`

// claimantsKey is the sorted set of the live nodes of the stored database. On a cluster it is in the slot of the
// settings.
func claimantsKey(prefix string) string {
	return SettingsKey(prefix) + ":nodes{" + SettingsKey(prefix) + "}"
}

// Claim is the result of ClaimDatabase.
type Claim struct {
	// Before is the id that was stored before; empty if there was none.
	Before string
	// Refused: Before stays, because a node of that database is live.
	Refused bool
}

// ClaimDatabase stores id, the id of the rules database of a node, with the settings that nodes share, unless a node of
// another database is live there. The node counts as live for that long, so it claims again sooner.
func ClaimDatabase(ctx context.Context, client redis.UniversalClient, prefix, node, id string, lifetime time.Duration,
) (Claim, error) {
	got, err := client.Eval(ctx, claimScript, []string{SettingsKey(prefix), claimantsKey(prefix)}, node, id,
		lifetime.Milliseconds()).Slice()
	if err != nil {
		return Claim{}, fmt.Errorf("compare the rules database in Redis: %w", err)
	}
	if len(got) != 2 {
		return Claim{}, fmt.Errorf("compare the rules database in Redis: %d values, want 2", len(got))
	}
	before, isText := got[0].(string)
	refused, isNumber := got[1].(int64)
	if !isText || !isNumber {
		return Claim{}, fmt.Errorf("compare the rules database in Redis: got %T and %T", got[0], got[1])
	}
	return Claim{Before: before, Refused: refused == 1}, nil
}

// LeaveDatabase notes that a node that has claimed a database is live no longer.
func LeaveDatabase(ctx context.Context, client redis.UniversalClient, prefix, node string) error {
	return client.ZRem(ctx, claimantsKey(prefix), node).Err()
}
