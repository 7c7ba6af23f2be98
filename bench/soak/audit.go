package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore"
)

// deposit is the content of Redis at one instant.
type deposit struct {
	spent   map[bucket]int64
	records []string // ids of requests whose charge is on record
}

// bucket identifies a bucket. user is 0 for one that all users share.
type bucket struct {
	class, user int
	wide        bool
}

// The action of an audit after reading.
const (
	lookOnly = "look"
	// thenFlush empties Redis in the same instant.
	thenFlush = "flush"
	// thenKill reads while writes are paused and kills Redis before they continue.
	thenKill = "kill"
)

// auditScript copies the names and values of all keys at one instant, and only the names of
// records.
const auditScript = `
local out = {}
for _, key in ipairs(redis.call('KEYS', 'sl:*')) do
  local record = string.find(key, '}:r:', 1, true)
  table.insert(out, key)
  table.insert(out, record and '' or redis.call('DUMP', key))
end
if ARGV[1] == 'flush' then redis.call('FLUSHALL') end
return out`

// audit copies the content of Redis and reads the copy in a separate Redis, with the store's own
// code.
func (f *fleet) audit(ctx context.Context, then string) (d *deposit, err error) {
	client, err := redisstore.NewClient(f.redis.url(), redisstore.ClientOptions{DialTimeout: 2 * time.Second,
		Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	eval := "EVAL"
	if then == thenKill {
		if err := client.Do(ctx, "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
			return nil, err
		}
		eval = "EVAL_RO"
	}
	copied, err := client.Do(ctx, eval, auditScript, "0", then).StringSlice()
	if err != nil {
		return nil, err
	}
	if then == thenKill {
		f.redis.kill()
	}
	return f.read(ctx, copied)
}

// read interprets copied keys and values.
func (f *fleet) read(ctx context.Context, copied []string) (d *deposit, err error) {
	client, err := redisstore.NewClient(f.scratch.url(), redisstore.ClientOptions{DialTimeout: 2 * time.Second,
		Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := client.Do(ctx, "FLUSHALL").Err(); err != nil {
		return nil, err
	}
	store, err := redisstore.New(redisstore.Options{Client: client, MaxWait: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	d = &deposit{spent: map[bucket]int64{}}
	var errs []error
	for i := 0; i+1 < len(copied); i += 2 {
		name, value := copied[i], copied[i+1]
		if _, id, ok := strings.Cut(name, "}:r:"); ok {
			d.records = append(d.records, id)
			continue
		}
		key, ok := redisstore.KeyOf("sl:", name)
		if !ok {
			continue
		}
		b, algorithm, ok := belongs(f.rules, string(key))
		if !ok {
			continue
		}
		if err := client.Do(ctx, "RESTORE", name, "0", value).Err(); err != nil {
			errs = append(errs, err)
			continue
		}
		units, err := spent(ctx, store, key, algorithm, f.limit)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
		d.spent[b] += units
	}
	return d, errors.Join(append(errs, store.Close())...)
}

// belongs returns the bucket of a key such as {user:u3}|17|sc.
func belongs(byID map[string]ruleOf, key string) (b bucket, a limiter.Algorithm, ok bool) {
	parts := strings.Split(key, "|")
	if len(parts) != 3 || strings.Contains(parts[2], ":") {
		return b, 0, false
	}
	rule, ok := byID[parts[1]]
	if !ok || classes[rule.class].lease {
		return b, 0, false
	}
	b = bucket{class: rule.class, wide: rule.wide}
	if !rule.wide {
		_, who, found := strings.Cut(limiter.Key(key).Tag(), ":u")
		n, err := strconv.Atoi(who)
		if !found || err != nil {
			return b, 0, false
		}
		b.user = n
	}
	a, err := limiter.ParseAlgorithm(classes[rule.class].algorithm)
	return b, a, err == nil
}

// spent peeks at a bucket with a very large limit or burst, so that the answer shows all units in
// it. The rate stays the same, because gcra stores a time, which converts to units only with its
// own rate.
func spent(ctx context.Context, store limiter.Store, key limiter.Key, a limiter.Algorithm, count int64) (int64, error) {
	const plenty = 1_000_000
	limit := limiter.Limit{Algorithm: a, Count: plenty, Window: year}
	if a.Bucketed() {
		limit.Count, limit.Burst = count, plenty
	}
	if a.Traits().Setting == limiter.SettingBuckets {
		limit.Buckets = 60
	}
	var res limiter.Result
	err := store.Do(ctx, &limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: key, Limit: limit}}}, &res)
	if err != nil {
		return 0, err
	}
	return plenty - res.Limits[0].Remaining, nil
}
