// Package redisqueue stores deferred requests in Redis Streams, which all nodes share. The stream
// of a rule has the order of its items, the pending list of its consumer group has the leases,
// and two hashes have the bodies and the ids of the items, all in one slot of a cluster. The
// queue is as durable as the server: with appendfsync everysec a crash of the server can lose
// about a second.
//
// A full queue rejects new items, so that a ticket stays valid until its item is too old. Times
// are those of the server's clock.
package redisqueue

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/api/decide"
)

var (
	//go:embed common.lua
	commonLua string
	//go:embed put.lua
	putLua string
	//go:embed lease.lua
	leaseLua string
	//go:embed finish.lua
	finishLua string
	//go:embed status.lua
	statusLua string
	//go:embed drop.lua
	dropLua string
	//go:embed withdraw.lua
	withdrawLua string
)

// Options configure a Queue. Client is required.
type Options struct {
	// Client is the connection to the servers. That of a cluster must not have been used yet.
	Client redis.UniversalClient
	// Now is the clock for the list of queues, the wall clock if nil.
	Now func() time.Time
	// Prefix is the beginning of every key, "sl:" if empty.
	Prefix string
	// Dropped is called with the items that became too old. It may be nil.
	Dropped decide.QueueDropped
}

// Queue is a decide.Queue in Redis. It owns no goroutine and nothing to close.
type Queue struct {
	opt                                       Options
	put, lease, finish, state, drop, withdraw *redis.Script
	// noted has, for each rule, the time at which this process last added it to the index.
	noted sync.Map
}

var _ decide.Queue = (*Queue)(nil)

// New returns a Queue. It does not connect.
func New(opt Options) (*Queue, error) {
	if opt.Client == nil {
		return nil, errors.New("redisqueue: a client is required")
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	if opt.Now == nil {
		opt.Now = time.Now //nolint:forbidigo // the default, replaced where the program is wired
	}
	if opt.Dropped == nil {
		opt.Dropped = func(int64, int) {}
	}
	watch(opt.Client)
	script := func(lua string) *redis.Script { return redis.NewScript("#!lua\n" + commonLua + "\n" + lua) }
	return &Queue{opt: opt, put: script(putLua), lease: script(leaseLua), finish: script(finishLua),
		state: script(statusLua), drop: script(dropLua), withdraw: script(withdrawLua)}, nil
}

// keys returns the keys of one rule. They differ from the keys of buckets, which have a brace
// after the prefix.
func (q *Queue) keys(rule int64) []string {
	base := q.opt.Prefix + "deferred:{" + strconv.FormatInt(rule, 10) + "}:"
	return []string{base + "order", base + "bodies", base + "ids"}
}

// run calls a script and returns its list.
func (q *Queue) run(ctx context.Context, s *redis.Script, rule int64, args ...any) ([]any, error) {
	return q.runOn(ctx, s, q.keys(rule), args...)
}

func (q *Queue) runOn(ctx context.Context, s *redis.Script, keys []string, args ...any) ([]any, error) {
	v, err := s.Run(ctx, q.opt.Client, keys, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, unexpected(v)
	}
	return list, nil
}

// dropped passes on the number of dropped items that a script returned.
func (q *Queue) dropped(rule int64, v any) {
	if n, ok := v.(int64); ok && n > 0 {
		q.opt.Dropped(rule, int(n))
	}
}

func unexpected(v any) error {
	return fmt.Errorf("%w: unexpected response of type %T", decide.ErrQueueUnavailable, v)
}

// Put implements decide.Queue.
func (q *Queue) Put(ctx context.Context, rule int64, it decide.QueueItem, b decide.QueueBounds) (string, error) {
	if err := it.Check(b); err != nil {
		return "", err
	}
	if it.Nonce == "" {
		// The cluster client repeats a call whose response was lost, even without MaxRetries.
		it.Nonce = rand.Text()
	}
	var sent doubt
	list, err := q.runOn(sent.watched(ctx), q.put, q.keysOf(rule, it.Nonce), b.Items, b.Age.Milliseconds(), it.ID,
		it.Bucket, it.Body)
	if err != nil {
		if sent.Load() {
			err = fmt.Errorf("%w: %w", decide.ErrQueueUnsure, err)
		}
		return "", err
	}
	if len(list) != 3 {
		return "", unexpected(list)
	}
	q.note(ctx, rule, list[2] == int64(1))
	q.dropped(rule, list[1])
	ticket, ok := list[0].(string)
	switch {
	case !ok:
		return "", unexpected(list[0])
	case ticket == "":
		return "", decide.ErrQueueFull
	}
	return ticket, nil
}

// keysOf returns the keys of a rule and that of one Put.
func (q *Queue) keysOf(rule int64, nonce string) []string {
	return append(q.keys(rule), q.opt.Prefix+"deferred:{"+strconv.FormatInt(rule, 10)+"}:put:"+nonce)
}

// Withdraw implements decide.Queue.
func (q *Queue) Withdraw(ctx context.Context, rule int64, nonce string) (string, error) {
	if nonce == "" || len(nonce) > decide.MaxQueueName {
		return "", decide.ErrQueueInvalid
	}
	ticket, err := q.withdraw.Run(ctx, q.opt.Client, q.keysOf(rule, nonce)).Text()
	if err != nil {
		return "", fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	return ticket, nil
}

// index is the set of the rules with items in their queues, and possibly some others.
func (q *Queue) index() string { return q.opt.Prefix + "deferred-rules" }

// The lifetime of the index, which is longer than any item may wait, and how often a rule that
// is in use is added to it again.
const (
	indexLife = 9 * 24 * time.Hour
	noteEvery = time.Hour
)

// note adds a rule to the index: each time its queue was empty, because listing the queues
// removes empty ones, and at intervals. If it fails, no item is lost, and the next Put tries
// again.
func (q *Queue) note(ctx context.Context, rule int64, wasEmpty bool) {
	now := q.opt.Now()
	if at, ok := q.noted.Load(rule); ok && !wasEmpty &&
		now.Sub(at.(time.Time)) < noteEvery { //nolint:errcheck // only times are stored
		return
	}
	_, err := q.opt.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.SAdd(ctx, q.index(), rule)
		p.Expire(ctx, q.index(), indexLife)
		return nil
	})
	if err == nil {
		q.noted.Store(rule, now)
	} else {
		q.noted.Delete(rule)
	}
}

// Rules implements decide.Queue. It removes empty queues from the index.
func (q *Queue) Rules(ctx context.Context, most int) ([]int64, error) {
	members, err := q.opt.Client.SMembers(ctx, q.index()).Result()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	var ids []int64
	for _, m := range members {
		if id, err := strconv.ParseInt(m, 10, 64); err == nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	ids, empty, err := q.split(ctx, ids)
	if err != nil {
		return nil, err
	}
	if err := q.prune(ctx, empty); err != nil {
		return nil, err
	}
	waiting := ids[:0]
	for _, id := range ids {
		if len(waiting) == most {
			break
		}
		st, err := q.Status(ctx, id)
		if err != nil {
			return nil, err
		}
		if st.Depth > 0 {
			waiting = append(waiting, id)
		}
	}
	return waiting, nil
}

// splitAtOnce is the number of queues whose lengths are read at once.
const splitAtOnce = 1000

// split separates the queues with items from the empty ones.
func (q *Queue) split(ctx context.Context, ids []int64) (full, empty []int64, err error) {
	for some := range slices.Chunk(ids, splitAtOnce) {
		lengths := make([]*redis.IntCmd, len(some))
		_, err := q.opt.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, id := range some {
				lengths[i] = p.XLen(ctx, q.keys(id)[0])
			}
			return nil
		})
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
		}
		for i, id := range some {
			if lengths[i].Val() > 0 {
				full = append(full, id)
			} else {
				empty = append(empty, id)
			}
		}
	}
	return full, empty, nil
}

// prune removes queues from the index that are still empty afterwards. A Put to an empty queue
// adds it to the index after it has put the item, so no queue is lost in between.
func (q *Queue) prune(ctx context.Context, empty []int64) error {
	for some := range slices.Chunk(empty, splitAtOnce) {
		members := make([]any, len(some))
		for i, id := range some {
			members[i] = id
		}
		if err := q.opt.Client.SRem(ctx, q.index(), members...).Err(); err != nil {
			return fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
		}
		back, _, err := q.split(ctx, some)
		if err != nil {
			return err
		}
		for _, id := range back {
			q.note(ctx, id, true)
		}
	}
	return nil
}

// leased is the number of values that describe an item in the reply.
const leased = 6

// Lease implements decide.Queue. It reads up to a thousand items.
func (q *Queue) Lease(ctx context.Context, rule int64, w decide.QueueWant) ([]decide.QueueItem, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	args := []any{w.Max, w.Hold.Milliseconds()}
	for _, bucket := range w.Except {
		args = append(args, bucket)
	}
	list, err := q.run(ctx, q.lease, rule, args...)
	if err != nil {
		return nil, err
	}
	q.dropped(rule, list[0])
	list = list[1:]
	if len(list)%leased != 0 {
		return nil, unexpected(list)
	}
	items := make([]decide.QueueItem, 0, len(list)/leased)
	for ; len(list) > 0; list = list[leased:] {
		it, err := item(list[:leased])
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	return items, nil
}

func item(list []any) (it decide.QueueItem, err error) {
	var text [leased]string
	for i := range text {
		s, ok := list[i].(string)
		if !ok {
			return it, unexpected(list[i])
		}
		text[i] = s
	}
	it = decide.QueueItem{Ticket: text[0], ID: text[1], Bucket: text[2], Body: []byte(text[5])}
	at, _, _ := strings.Cut(it.Ticket, "-")
	for dst, s := range map[*int64]string{&it.At: at, &it.Expires: text[3], &it.Deliveries: text[4]} {
		if *dst, err = strconv.ParseInt(s, 10, 64); err != nil {
			return it, unexpected(s)
		}
	}
	return it, nil
}

var ticketForm = regexp.MustCompile(`^[0-9]{1,19}-[0-9]{1,19}$`)

// Finish implements decide.Queue.
func (q *Queue) Finish(ctx context.Context, rule int64, done, back []string) (int, error) {
	if len(done) > decide.MaxQueueLease || len(back) > decide.MaxQueueLease {
		return 0, decide.ErrQueueInvalid
	}
	args, ended := []any{0}, 0
	for i, list := range [][]string{done, back} {
		for _, ticket := range list {
			if !ticketForm.MatchString(ticket) {
				continue
			}
			args = append(args, ticket)
			if i == 0 {
				ended++
			}
		}
	}
	if len(args) == 1 {
		return 0, nil
	}
	args[0] = ended
	n, err := q.finish.Run(ctx, q.opt.Client, q.keys(rule), args...).Int()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	return n, nil
}

// Drop implements decide.Queue.
func (q *Queue) Drop(ctx context.Context, rule, until int64) (int, error) {
	if until < 0 {
		return 0, decide.ErrQueueInvalid
	}
	n, err := q.drop.Run(ctx, q.opt.Client, q.keys(rule), until, decide.MaxQueueLease).Int()
	if err != nil {
		return 0, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	return n, nil
}

// Status implements decide.Queue.
func (q *Queue) Status(ctx context.Context, rule int64) (decide.QueueStatus, error) {
	list, err := q.run(ctx, q.state, rule)
	if err != nil {
		return decide.QueueStatus{}, err
	}
	var n [5]int64
	if len(list) != len(n) {
		return decide.QueueStatus{}, unexpected(list)
	}
	for i := range n {
		v, ok := list[i].(int64)
		if !ok {
			return decide.QueueStatus{}, unexpected(list[i])
		}
		n[i] = v
	}
	q.dropped(rule, n[0])
	return decide.QueueStatus{Depth: n[1], Age: time.Duration(n[2]) * time.Millisecond, Repeated: n[3], At: n[4]}, nil
}
