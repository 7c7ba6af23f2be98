package history

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// RedisBoard is a Board that all nodes with the same servers and key prefix share. Its
// tables are hashes and its lists are lists, all under the prefix and with an expiry.
type RedisBoard struct {
	client redis.UniversalClient
	prefix string
}

var _ Board = (*RedisBoard)(nil)

// boardTTL is how long a list is kept after its last line.
const boardTTL = 24 * time.Hour

// NewRedisBoard creates a board on client under a prefix such as "sl:". It does not
// connect and does not close the client.
func NewRedisBoard(client redis.UniversalClient, prefix string) *RedisBoard {
	return &RedisBoard{client: client, prefix: prefix + "fleet:"} // keys of buckets have braces
}

// pipelined is the largest number of commands sent at once, so that a script call
// of the check path never waits long behind them.
const pipelined = 100

// Post implements Board.
func (r *RedisBoard) Post(ctx context.Context, entries []Entry) error {
	for len(entries) > 0 {
		n := min(len(entries), pipelined)
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, e := range entries[:n] {
				p.HSet(ctx, r.prefix+e.Table, e.Field, e.Value)
				p.PExpire(ctx, r.prefix+e.Table, e.TTL)
			}
			return nil
		})
		if err != nil {
			return err
		}
		entries = entries[n:]
	}
	return nil
}

// Read implements Board.
func (r *RedisBoard) Read(ctx context.Context, tables []string) ([]map[string]string, error) {
	out := make([]map[string]string, 0, len(tables))
	for len(tables) > 0 {
		n := min(len(tables), pipelined)
		cmds := make([]*redis.MapStringStringCmd, n)
		_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, t := range tables[:n] {
				cmds[i] = p.HGetAll(ctx, r.prefix+t)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		for _, c := range cmds {
			out = append(out, c.Val())
		}
		tables = tables[n:]
	}
	return out, nil
}

// Drop implements Board.
func (r *RedisBoard) Drop(ctx context.Context, table string, fields []string) error {
	if len(fields) == 0 {
		return nil
	}
	return r.client.HDel(ctx, r.prefix+table, fields...).Err()
}

// Append implements Board.
func (r *RedisBoard) Append(ctx context.Context, list string, lines []string, keep int) error {
	if len(lines) == 0 {
		return nil
	}
	values := make([]any, len(lines))
	for i, l := range lines {
		values[i] = l
	}
	key := r.prefix + list
	_, err := r.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.LPush(ctx, key, values...)
		p.LTrim(ctx, key, 0, int64(keep)-1)
		p.PExpire(ctx, key, boardTTL)
		return nil
	})
	return err
}

// Recent implements Board.
func (r *RedisBoard) Recent(ctx context.Context, list string, skip, n int) ([]string, error) {
	return r.client.LRange(ctx, r.prefix+list, int64(skip), int64(skip+n)-1).Result()
}
