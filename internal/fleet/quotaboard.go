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

// QuotaBoard stores, for each bucket whose units proxies hold, the demand and the units of the proxies of each node:
// one hash per bucket, with a field for each node, which expires. It is safe for concurrent use and owns no goroutine.
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

// QuotaDemand is the demand and the units of the holders of a bucket.
type QuotaDemand struct {
	// Holders demand PerSecond units per second together.
	Holders   int
	PerSecond float64
	// Having of them have Held units, which are charged and not known to be spent.
	Having int
	Held   int64
}

// Exchange stores the demand of this node for a bucket, for life ms, and returns the sums of other nodes at now. The
// error is a *limiter.StoreError.
func (q *QuotaBoard) Exchange(ctx context.Context, bucket string, own QuotaDemand, life int64,
	now time.Time) (QuotaDemand, error) {
	key := q.prefix + "quota:" + bucket
	var all *redis.MapStringStringCmd
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, key, q.node, fmt.Sprintf("%d %d %g %d %d", now.UnixMilli()+life, own.Holders, own.PerSecond, own.Having,
			own.Held))
		p.PExpire(ctx, key, time.Duration(life)*time.Millisecond)
		all = p.HGetAll(ctx, key)
		return nil
	})
	if err != nil {
		return QuotaDemand{}, redisstore.Classify(err)
	}
	others, ended := q.sum(all.Val(), now)
	if len(ended) > 0 {
		_ = q.client.HDel(ctx, key, ended...).Err() // on an error, the next exchange removes them
	}
	return others, nil
}

// Others returns the sums of other nodes at now. The error is a *limiter.StoreError.
func (q *QuotaBoard) Others(ctx context.Context, bucket string, now time.Time) (QuotaDemand, error) {
	all, err := q.client.HGetAll(ctx, q.prefix+"quota:"+bucket).Result()
	if err != nil {
		return QuotaDemand{}, redisstore.Classify(err)
	}
	others, _ := q.sum(all, now)
	return others, nil
}

// sum adds up the fields of other nodes, and returns the nodes whose fields have expired.
func (q *QuotaBoard) sum(all map[string]string, now time.Time) (sum QuotaDemand, ended []string) {
	for node, text := range all {
		until, d, ok := parseDemand(text)
		switch {
		case node == q.node:
		case !ok || until <= now.UnixMilli():
			ended = append(ended, node)
		default:
			sum.Holders, sum.PerSecond = sum.Holders+d.Holders, sum.PerSecond+d.PerSecond
			sum.Having, sum.Held = sum.Having+d.Having, sum.Held+d.Held
		}
	}
	return sum, ended
}

// parseDemand reads the field of a node.
func parseDemand(text string) (until int64, d QuotaDemand, ok bool) {
	const words = 5
	list := strings.Fields(text)
	if len(list) != words {
		return 0, d, false
	}
	var errs [words]error
	until, errs[0] = strconv.ParseInt(list[0], 10, 64)
	d.Holders, errs[1] = strconv.Atoi(list[1])
	d.PerSecond, errs[2] = strconv.ParseFloat(list[2], 64)
	d.Having, errs[3] = strconv.Atoi(list[3])
	d.Held, errs[4] = strconv.ParseInt(list[4], 10, 64)
	return until, d, errors.Join(errs[:]...) == nil && min(d.Holders, d.Having) >= 0 && d.PerSecond >= 0 && d.Held >= 0
}
