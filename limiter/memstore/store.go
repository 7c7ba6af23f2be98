package memstore

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"sluice/limiter"
)

const (
	// shardCount is a power of two.
	shardCount = 256

	defaultMaxKeys = 5_000_000
)

// Options configures a store. The zero value is ready for production.
type Options struct {
	// Clock is the time of decisions in ms since the epoch; nil is wall time.
	// With a Clock (in tests) all state is kept for at least a minute of real time,
	// because such a clock may stand still or step back.
	Clock func() int64
	// Steady: Clock never steps back and never stands still for good, so that expiry follows it too. For replays, in
	// which it runs faster than the wall clock.
	Steady bool
	// MaxKeys is the largest number of buckets; 0 means 5 million (about 1 GB of plain counters). At the limit a new
	// bucket evicts a bucket: of a small random sample, the one that expires first.
	MaxKeys int
	// MaxRecordBytes is about the memory for the stored answers of named requests; 0
	// means 64 MiB. The IDs of one entity (limiter.Key.Tag) use up to an eighth of
	// it. At the limit the oldest records are dropped.
	MaxRecordBytes int64
	// Regions are the regions that limits span; the zero value holds no take back.
	Regions limiter.Regions
}

// Store is a limiter.Store in memory. It is safe for concurrent use. New creates
// one; Close stops its sweeper.
type Store struct {
	clock          func() int64
	steady         bool
	start          time.Time
	seed           maphash.Seed
	maxKeys        int64
	maxRecordBytes int64
	regions        limiter.Regions

	shards  [shardCount]shard
	records [shardCount]recordShard

	keys, recordCount, recordBytes         atomic.Int64
	evicted, droppedForRoom, droppedForKey atomic.Uint64
	recordNumber                           atomic.Uint64
	closed                                 atomic.Bool
	// buffer is reused by snapshots, nil during one.
	buffer atomic.Pointer[[]byte]
	leases leases
	// kept: nothing is lost, or it was restored. restoring are the names of the restores that are under way, nil for none.
	kept      atomic.Bool
	restoring atomic.Pointer[[]string]
	high      highWater

	stop    chan struct{}
	stopped chan struct{}
	once    sync.Once
}

var _ limiter.Store = (*Store)(nil)

// shard is a part of the buckets, with scratch space for one decision, so that the
// common request allocates nothing.
type shard struct {
	mu      sync.Mutex
	buckets table[bucketKey, limiter.State]
	sums    table[bucketKey, *regional]
	// births is the number of the bucket that began last. It starts anywhere, because a snapshot has numbers of other
	// shards.
	births uint32
	// changedSums are the buckets whose sums were not exported since they changed.
	changedSums []bucketKey

	scratch limiter.State
	states  [1]*limiter.State
	changed [1]bool
	charged [1]limiter.Charged
	noSums  [1]*regional
}

// New returns an empty store and starts its sweeper.
func New(o Options) *Store {
	s := &Store{
		clock:          o.Clock,
		steady:         o.Steady && o.Clock != nil,
		start:          wallTime(),
		seed:           maphash.MakeSeed(),
		maxKeys:        defaultMaxKeys,
		maxRecordBytes: defaultMaxRecordBytes,
		regions:        o.Regions,
		stop:           make(chan struct{}),
		stopped:        make(chan struct{}),
	}
	if o.MaxKeys > 0 {
		s.maxKeys = int64(o.MaxKeys)
	}
	if o.MaxRecordBytes > 0 {
		s.maxRecordBytes = o.MaxRecordBytes
	}
	for i := range s.shards {
		s.shards[i].states[0], s.shards[i].births = &s.shards[i].scratch, rand.Uint32() //nolint:gosec // no secret
		s.records[i].publishOldest()
	}
	go s.sweepLoop()
	return s
}

// Close stops the sweeper and waits for it. Later requests fail with CauseClosed;
// Snapshot still works. Calling it again does nothing.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		close(s.stop)
	})
	<-s.stopped
	return nil
}

// Keys is the number of buckets in memory, including expired ones not yet swept.
func (s *Store) Keys() int { return int(s.keys.Load()) }

// Records is the number of request records in memory.
func (s *Store) Records() int { return int(s.recordCount.Load()) }

// Evicted is the number of buckets evicted because of Options.MaxKeys since New.
// After each, its key may have been admitted up to one limit too much.
func (s *Store) Evicted() uint64 { return s.evicted.Load() }

// RecordBytes is about the memory that request records use.
func (s *Store) RecordBytes() int64 { return s.recordBytes.Load() }

// DroppedRecords is the number of request records dropped early since New: room
// because of Options.MaxRecordBytes, key because one entity used more than its part
// of that.
func (s *Store) DroppedRecords() (room, key uint64) {
	return s.droppedForRoom.Load(), s.droppedForKey.Load()
}

// wallTime is the only place where this package reads the wall clock.
func wallTime() time.Time {
	return time.Now() //nolint:forbidigo // the store's own clock, replaced by Options.Clock in tests
}

// bucketSlot is the slot of a bucket.
type bucketSlot = slot[bucketKey, limiter.State]

// instant is one reading of both clocks.
type instant struct {
	// now is the time of decisions, ms since the epoch.
	now int64
	// mono is the time of expiry in ms, since the store's start unless Options.Steady is set; it never steps.
	mono int64
}

// mono is the time of expiry.
func (s *Store) mono() int64 {
	if s.steady {
		return s.clock()
	}
	return wallTime().Sub(s.start).Milliseconds()
}

func (s *Store) instant() instant {
	if s.steady {
		now := s.clock()
		return instant{now: now, mono: now}
	}
	t := wallTime()
	at := instant{mono: t.Sub(s.start).Milliseconds()}
	if s.clock != nil {
		at.now = s.clock()
	} else {
		at.now = t.UnixMilli()
	}
	return at
}

func (s *Store) hash(key limiter.Key) uint64 { return maphash.String(s.seed, string(key)) }

// shardOf is the shard of a hash.
func shardOf(hash uint64) int { return int(hash & (shardCount - 1)) }

// Do decides one request. It waits for nothing but the locks of shards, so a store timeout (the deadline of a
// limiter.Bounded) does not stop it: a node that lacks CPU decides late, by the limit. It decides nothing only if its
// caller had left before.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	return s.do(ctx, leaving(ctx), req, res)
}

// leaving returns a channel that is closed when the caller has left or its own deadline has passed. It needs no clock.
func leaving(ctx context.Context) <-chan struct{} {
	if b, ok := ctx.(limiter.Bounded); ok {
		return b.Bound().Canceled
	}
	return ctx.Done()
}

// do is Do; left is closed when the caller has left.
func (s *Store) do(ctx context.Context, left <-chan struct{}, req *limiter.Request, res *limiter.Result) error {
	select {
	case <-left:
		return storeError(ctx.Err())
	default:
	}
	if s.closed.Load() {
		return &limiter.StoreError{Cause: limiter.CauseClosed, Err: errClosed}
	}
	if err := req.Check(); err != nil {
		return err
	}
	if req.Op == limiter.OpPeek {
		if wide, ok := limiter.WideLook(req); ok {
			err := s.do(ctx, left, &wide, res)
			if err == nil {
				limiter.Narrow(req, res)
			}
			return err
		}
	}
	if hasHighWater(req) {
		s.high.mu.Lock()
		defer s.high.mu.Unlock()
		defer func() { s.high.note(req, res, res.At) }()
	}
	switch {
	case usesRecord(req):
		s.doRecorded(req, res)
	case len(req.Asks) == 1 && !req.Asks[0].Spans && req.Asks[0].Former == nil:
		s.doOne(req, res)
	default:
		w := newWork(len(req.Asks))
		s.doMany(req, res, w, nil)
		w.free()
	}
	s.makeRoom()
	return nil
}

// DoAll decides the calls independently, in order, as Do does. A caller who leaves stops it between two calls; the
// remaining calls then fail.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	left := leaving(ctx)
	for i := range calls {
		calls[i].Err = s.do(ctx, left, &calls[i].Request, &calls[i].Result)
	}
}

var errClosed = errors.New("the memory store is closed")

func storeError(err error) error {
	cause := limiter.CauseCanceled
	if errors.Is(err, context.DeadlineExceeded) {
		cause = limiter.CauseTimeout
	}
	return &limiter.StoreError{Cause: cause, Err: err}
}
