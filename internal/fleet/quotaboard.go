package fleet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter/redisstore"
)

// QuotaBoard has, for each bucket whose units proxies hold, what those of each node demand: one hash, with a field for
// each node, which expires. It is safe for concurrent use and owns no goroutine.
type QuotaBoard struct {
	client       redis.UniversalClient
	prefix, node string
}

// NewQuotaBoard stores demands of a node through a client, under the prefix of the counter store ("sl:" if empty).
func NewQuotaBoard(client redis.UniversalClient, prefix, node string) (*QuotaBoard, error) {
	if client == nil || node == "" {
		return nil, errors.New("quota board: a client and the name of the node are required")
	}
	if prefix == "" {
		prefix = "sl:"
	}
	return &QuotaBoard{client: client, prefix: prefix, node: node}, nil
}

// Exchange stores what so many holders of this node demand of a bucket, in units per second, for life ms, and returns
// the sums of other nodes at now. The error is a *limiter.StoreError.
func (q *QuotaBoard) Exchange(ctx context.Context, bucket string, holders int, perSecond float64, life int64,
	now time.Time) (int, float64, error) {
	key := q.prefix + "quota:" + bucket
	var all *redis.MapStringStringCmd
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, q.node, fmt.Sprintf("%d %d %g", now.UnixMilli()+life, holders, perSecond))
		p.PExpire(ctx, key, time.Duration(life)*time.Millisecond)
		all = p.HGetAll(ctx, key)
		return nil
	})
	if err != nil {
		return 0, 0, redisstore.Classify(err)
	}
	others, sum := 0, 0.0
	var ended []string
	for node, text := range all.Val() {
		until, n, demand, ok := parseDemand(text)
		switch {
		case node == q.node:
		case !ok || until <= now.UnixMilli():
			ended = append(ended, node)
		default:
			others, sum = others+n, sum+demand
		}
	}
	if len(ended) > 0 {
		_ = q.client.HDel(ctx, key, ended...).Err() // else the next one does it
	}
	return others, sum, nil
}

// parseDemand reads the field of a node.
func parseDemand(text string) (until int64, holders int, perSecond float64, ok bool) {
	const words = 3
	list := strings.Fields(text)
	if len(list) != words {
		return 0, 0, 0, false
	}
	until, err1 := strconv.ParseInt(list[0], 10, 64)
	holders, err2 := strconv.Atoi(list[1])
	perSecond, err3 := strconv.ParseFloat(list[2], 64)
	return until, holders, perSecond, errors.Join(err1, err2, err3) == nil && holders >= 0 && perSecond >= 0
}
