package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var restoring = script.Restoring()

const (
	// markedAtOnce is how many slots of a cluster are marked in one pipeline to each node.
	markedAtOnce = 1024
	// recalledAtOnce is about how many keys of a server a Recall looks at.
	recalledAtOnce = 1000
)

// lostOr is the error of a script that exports.
func lostOr(err error) error {
	if errors.Is(err, limiter.ErrLost) || redis.HasErrorPrefix(err, "LOST") {
		return limiter.ErrLost
	}
	return Classify(err)
}

// BeginRestore implements limiter.Exporter. On a cluster it begins in the slots that have lost their data.
func (s *Store) BeginRestore(ctx context.Context, name string) (bool, error) {
	return s.mark(ctx, name, 0, nil)
}

// EndRestore implements limiter.Exporter.
func (s *Store) EndRestore(ctx context.Context, name string, but ...limiter.Key) (bool, error) {
	return s.mark(ctx, name, 1, but)
}

// mark begins or ends a restore, on a cluster in all slots except the slots of the buckets but, and reports whether it
// did so in any. The next export from a slot that did not answer is refused again.
func (s *Store) mark(ctx context.Context, name string, ends int, but []limiter.Key) (done bool, err error) {
	count, left := 1, map[int]bool{}
	if s.cluster != nil {
		count = slots
	}
	for _, key := range but {
		if s.cluster == nil {
			return false, nil
		}
		left[s.cluster.slot(&limiter.Ask{Key: key})] = true
	}
	for first := 0; first < count; first += markedAtOnce {
		var calls []*slotScript
		for slot := first; slot < min(first+markedAtOnce, count); slot++ {
			if left[slot] {
				continue
			}
			calls = append(calls, &slotScript{slot: slot, keys: []string{s.changedKeys(slot)[0] + script.KeptSuffix},
				args: []any{name, ends}})
		}
		if s.cluster != nil {
			s.cluster.runScript(ctx, &restoring, calls)
		} else {
			calls[0].reply, calls[0].err = run(ctx, s.opt.Client, &restoring, calls[0].keys, calls[0].args...)
		}
		for _, c := range calls {
			if err = cmp.Or(err, c.err); c.err == nil && c.reply == "1" {
				done = true
			}
		}
	}
	if err != nil && !done {
		return false, fmt.Errorf("mark what was lost: %w", Classify(err))
	}
	return done, nil
}

// Recall implements limiter.Exporter. The cursor is the number of a server and its own.
func (s *Store) Recall(ctx context.Context, region, cursor string) (known []limiter.Exported, next string, err error) {
	var server int
	var at uint64
	if cursor != "" {
		if _, err := fmt.Sscanf(cursor, "%d-%d", &server, &at); err != nil {
			return nil, "", fmt.Errorf("%w: the cursor %q is none", limiter.ErrInvalid, cursor)
		}
	}
	servers, err := s.primaries(ctx)
	if err != nil || server < 0 || server >= len(servers) {
		return nil, "", err
	}
	known, at, err = s.recall(ctx, servers[server], region, at)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("read what other regions have spent: %w", Classify(err))
	case at > 0:
		next = fmt.Sprintf("%d-%d", server, at)
	case server+1 < len(servers):
		next = fmt.Sprintf("%d-0", server+1)
	}
	return known, next, nil
}

// primaries are the clients of the primaries, in the order of their addresses.
func (s *Store) primaries(ctx context.Context) (all []redis.Cmdable, err error) {
	if s.cluster == nil {
		return []redis.Cmdable{s.opt.Client}, nil
	}
	var mu sync.Mutex
	var nodes []*redis.Client
	err = s.cluster.view.client.ForEachMaster(ctx, func(_ context.Context, c *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		nodes = append(nodes, c)
		return nil
	})
	slices.SortFunc(nodes, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	for _, c := range nodes {
		all = append(all, c)
	}
	if err != nil {
		return nil, Classify(err)
	}
	return all, nil
}

// globs makes a text stand for itself in a pattern.
var globs = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`)

// recall reads the buckets at some keys of a server, from its cursor. It leaves out values that are not ours.
func (s *Store) recall(ctx context.Context, c redis.Cmdable, region string, at uint64,
) (known []limiter.Exported, next uint64, err error) {
	members, next, err := c.Scan(ctx, at, globs.Replace(s.opt.Prefix)+"*"+script.SpansSuffix+"*", recalledAtOnce).Result()
	if err != nil {
		return nil, 0, err
	}
	// The marks are read before and after the sums: sums of a store that is not restored yet may belong to an
	// incarnation that ends with the restore, and must not be sent to other regions.
	type bucket struct {
		key                            limiter.Key
		before, value, received, after *redis.StringCmd
	}
	var found []bucket
	p := c.Pipeline()
	for _, member := range members {
		name, ok := script.NameOfMember(member)
		key, is := KeyOf(s.opt.Prefix, name)
		isLog := strings.HasSuffix(string(key), "|"+limiter.SlidingWindowLog.Kind())
		if value, received := script.SpentNames(name, isLog); ok && is && member == value { // not the list of a log
			slot := 0
			if s.cluster != nil {
				slot = slotOf(name)
			}
			mark := s.changedKeys(slot)[0] + script.KeptSuffix
			found = append(found, bucket{key, p.Get(ctx, mark), p.Get(ctx, member), p.HGet(ctx, received, region),
				p.Get(ctx, mark)})
		}
	}
	if len(found) > 0 {
		_, _ = p.Exec(ctx) // each command has its error
	}
	for _, b := range found {
		var answered redis.Error
		if err := b.value.Err(); err != nil && !errors.As(err, &answered) {
			return nil, 0, err
		}
		e := limiter.Exported{Key: b.key}
		own, ownErr := script.SumsOf(b.value.Val())
		received, heardErr := script.DecodeSums(b.received.Val())
		if heardErr == nil {
			e.Received = limiter.Received{{Region: region, Sums: received}}
		}
		if kept := b.before.Val() == "kept" && b.after.Val() == "kept"; kept || !s.opt.Regions.Restores {
			e.Sums = own
		}
		if ownErr == nil || heardErr == nil {
			known = append(known, e)
		}
	}
	return known, next, nil
}
