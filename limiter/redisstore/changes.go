package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

var _ limiter.Exporter = (*Store)(nil)

// changes finds the buckets that span regions and have changed. The server knows them itself (see script/export.lua),
// in one set on a single server, and in one set for each hash slot on a cluster. On a cluster the store remembers the
// slots to which it has sent such requests. It finds the slots of other nodes, and of nodes that died, over time,
// because every export also asks a few more slots.
type changes struct {
	slots [slots / 64]atomic.Uint64
	sweep atomic.Uint32 // the next slot to ask in any case
}

// sweepSlots is how many slots an export asks in any case: all within a minute at five exports a second.
const sweepSlots = 64

// hint remembers that buckets of a slot may change.
func (c *changes) hint(slot int) { c.slots[slot/64].Or(1 << (slot % 64)) }

// next returns the slots to ask, and forgets them.
func (c *changes) next() (found []int) {
	first := int(c.sweep.Add(sweepSlots) % slots)
	for i := range sweepSlots {
		c.hint((first + i) % slots)
	}
	for word := range c.slots {
		bits := c.slots[word].Swap(0)
		for bit := range 64 {
			if bits&(1<<bit) != 0 {
				found = append(found, 64*word+bit)
			}
		}
	}
	return found
}

// changedKeys are the names of the set of changed buckets and of the sorted set of batches that are leased.
func (s *Store) changedKeys(slot int) [2]string {
	tag := ""
	if s.cluster != nil {
		tag = "{" + slotTags()[slot] + "}:"
	}
	return [2]string{s.opt.Prefix + tag + "changed", s.opt.Prefix + tag + "leased"}
}

// slotTags has for each hash slot a text that falls into it.
var slotTags = sync.OnceValue(func() *[slots]string {
	var tags [slots]string
	for n, missing := uint64(0), slots; missing > 0; n++ {
		tag := strconv.FormatUint(n, 36)
		if slot := slotOf(tag); tags[slot] == "" {
			tags[slot] = tag
			missing--
		}
	}
	return &tags
})

// arguments returns the arguments of a script call that carries requests, on a cluster the requests of one slot.
func (s *Store) arguments(requests []*script.Request, arg []byte) []any {
	changed, notAfter := "", int64(0)
	for _, r := range requests {
		if r.Spans() && changed == "" {
			if s.cluster != nil {
				s.changes.hint(r.Slot)
			}
			changed = s.changedKeys(r.Slot)[0]
		}
		if t := r.NotAfter(); t > 0 && (notAfter == 0 || t < notAfter) {
			notAfter = t
		}
	}
	var high []byte
	if s.cluster == nil {
		high = script.EncodeHigh(requests)
	}
	if changed == "" && notAfter == 0 && high == nil {
		return []any{arg}
	}
	regions := &s.opt.Regions
	args := []any{arg, changed, max(regions.Count, 1), regions.Wait, regions.Parts}
	switch {
	case high != nil:
		args = append(args, cmp.Or(notAfter, limiter.MaxExact), s.highWaterKey(), high)
	case notAfter > 0:
		args = append(args, notAfter)
	}
	return args
}

// bucketsAtOnce is how many buckets are exported or confirmed in one call of a script, so that checks do not wait long
// behind it.
const bucketsAtOnce = 100

// Changed implements limiter.Exporter. On a cluster each node exports what is in the slots that it has used.
func (s *Store) Changed(ctx context.Context) (int, error) {
	if s.cluster != nil {
		return int(limiter.MaxExact), nil
	}
	_, n, err := s.changed(ctx, s.changedKeys(0)[0])
	if err != nil {
		return 0, fmt.Errorf("count changed sums: %w", lostOr(err))
	}
	return int(n), nil
}

// Export implements limiter.Exporter. An error may come with sums that were exported before it; on a cluster, with the
// sums of the slots that answered.
func (s *Store) Export(ctx context.Context, most int, lease time.Duration) ([]limiter.Exported, error) {
	var out []limiter.Exported
	restores := 0
	if s.opt.Regions.Restores {
		restores = 1
	}
	if s.cluster == nil {
		// Buckets that change during the export are left for the next one: under load some always do.
		keys := s.changedKeys(0)
		due, err := s.due(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("count changed sums: %w", lostOr(err))
		}
		for left := min(most, due); left > 0; left -= bucketsAtOnce {
			reply, err := run(ctx, s.opt.Client, &exporting, keys[:], min(left, bucketsAtOnce), lease.Milliseconds(), restores)
			if err != nil {
				return out, fmt.Errorf("export sums: %w", lostOr(err))
			}
			sums, err := s.exported(reply)
			if out = append(out, sums...); err != nil {
				return out, err
			}
		}
		return out, nil
	}
	var failed error
	slots := s.changes.next()
	for len(slots) > 0 {
		n := min(len(slots), slotsAtOnce)
		each := (most - len(out)) / n
		if each == 0 || ctx.Err() != nil {
			break
		}
		calls := make([]*slotScript, n)
		for i, slot := range slots[:n] {
			keys := s.changedKeys(slot)
			calls[i] = &slotScript{slot: slot, keys: keys[:],
				args: []any{min(each, bucketsAtOnce), lease.Milliseconds(), restores}}
		}
		s.cluster.runScript(ctx, &exporting, calls)
		for _, c := range calls {
			sums, err := s.exported(c.reply)
			if err = errors.Join(c.err, err); err != nil && !errors.Is(failed, limiter.ErrLost) {
				failed = fmt.Errorf("export sums: %w", lostOr(err))
			}
			if err != nil || len(sums) > 0 { // there may be more, or a lease that ends soon
				s.changes.hint(c.slot)
			}
			out = append(out, sums...)
		}
		slots = slots[n:]
	}
	for _, slot := range slots {
		s.changes.hint(slot)
	}
	return out, failed
}

// due is how many buckets have changed, with those, at most, that are leased and were not confirmed in time.
func (s *Store) due(ctx context.Context, keys [2]string) (int, error) {
	now, changed, err := s.changed(ctx, keys[0])
	if err != nil {
		return 0, err
	}
	ended, err := s.opt.Client.ZCount(ctx, keys[1], "-inf", strconv.FormatInt(now.UnixMicro(), 10)).Result()
	return int(changed + bucketsAtOnce*ended), err
}

// changed returns the time of the server and how many sums have changed, or ErrLost, even if none has.
func (s *Store) changed(ctx context.Context, set string) (now time.Time, n int64, err error) {
	p := s.opt.Client.Pipeline()
	at, changed, mark := p.Time(ctx), p.SCard(ctx, set), p.Get(ctx, set+script.KeptSuffix)
	if _, err := p.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return now, 0, err
	}
	if s.opt.Regions.Restores && mark.Val() != "kept" {
		return now, 0, limiter.ErrLost
	}
	return at.Val(), changed.Val(), nil
}

// slotsAtOnce is how many slots are asked in one pipeline to each node.
const slotsAtOnce = 64

var exporting, confirming = script.Exporting(), script.Confirming()

// slotScript is a call of a script in one slot.
type slotScript struct {
	slot  int
	keys  []string
	args  []any
	reply string
	err   error
}

// runScript runs a script in several slots, in one pipeline to each of their primaries. A node that does not know it
// is sent it in full, once.
func (c *cluster) runScript(ctx context.Context, sc *script.Script, calls []*slotScript) {
	byNode := map[*redis.Client][]*slotScript{}
	for _, call := range calls {
		node, err := c.view.client.MasterForKey(ctx, call.keys[0])
		if call.err = err; err == nil {
			byNode[node] = append(byNode[node], call)
		}
	}
	for node, calls := range byNode {
		p := node.Pipeline()
		cmds := make([]*redis.Cmd, len(calls))
		for i, call := range calls {
			cmds[i] = p.EvalSha(ctx, sc.SHA, call.keys, call.args...)
		}
		_, _ = p.Exec(ctx) // each command has its error
		for i, call := range calls {
			call.reply, call.err = cmds[i].Text()
			if call.err != nil && redis.HasErrorPrefix(call.err, "NOSCRIPT") {
				call.reply, call.err = run(ctx, node, sc, call.keys, call.args...)
			}
			if call.err != nil && !errors.Is(call.err, redis.Nil) {
				c.view.doubt(ctx, call.err)
			}
		}
	}
}

// exported reads the answer of the script that exports, and translates names back to keys.
func (s *Store) exported(reply string) ([]limiter.Exported, error) {
	if reply == "" {
		return nil, nil
	}
	members, err := script.DecodeExport(reply)
	out := make([]limiter.Exported, 0, len(members))
	for _, m := range members {
		if key, ok := KeyOf(s.opt.Prefix, m.Name); ok {
			out = append(out, limiter.Exported{Key: key, Sums: m.Sums, Lease: m.Lease, Received: m.Received})
		}
	}
	return out, err
}

// Confirm implements limiter.Exporter.
func (s *Store) Confirm(ctx context.Context, sums []limiter.Exported) error {
	if len(sums) == 0 {
		return nil
	}
	bySlot := map[int][]script.Member{}
	for i := range sums {
		name, slot := s.naming.bucket(sums[i].Key), 0
		if s.cluster != nil {
			slot = slotOf(name)
		}
		isLog := strings.HasSuffix(string(sums[i].Key), "|"+limiter.SlidingWindowLog.Kind())
		bySlot[slot] = append(bySlot[slot], script.Member{Name: name, Log: isLog, Sums: sums[i].Sums, Lease: sums[i].Lease,
			Guard: sums[i].Guard})
	}
	var calls []*slotScript
	for slot, members := range bySlot {
		slices.SortStableFunc(members, func(a, b script.Member) int { return cmp.Compare(a.Lease, b.Lease) })
		keys := s.changedKeys(slot)
		for some := range slices.Chunk(members, bucketsAtOnce) {
			calls = append(calls, &slotScript{keys: keys[1:], args: []any{script.EncodeConfirm(some)}})
		}
	}
	if s.cluster != nil {
		s.cluster.runScript(ctx, &confirming, calls)
	}
	for _, c := range calls {
		if s.cluster == nil {
			_, c.err = run(ctx, s.opt.Client, &confirming, c.keys, c.args...)
		}
		if c.err != nil && !errors.Is(c.err, redis.Nil) { // the script returns nothing
			return fmt.Errorf("confirm exported sums: %w", Classify(c.err))
		}
	}
	return nil
}
