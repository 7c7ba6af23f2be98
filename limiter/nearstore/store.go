package nearstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sluice/limiter"
)

// Options configure a Store. Store and Now are required.
type Options struct {
	// Store keeps the buckets. It is not closed with this one.
	Store limiter.Store
	// Now is this node's clock. Its steps do not matter if it carries a monotonic
	// reading, as time.Now does.
	Now func() time.Time
	// DenyCache is the number of buckets whose denials are cached, 0 for none.
	DenyCache int
	// DenyExact answers from the cache only if all limits of a request have a cached
	// denial. Otherwise one is enough, and the figures of the other limits are up to a
	// second old; the cached denial decides in any case.
	DenyExact bool
	// HotRate is the number of takes per second from which a bucket is hot on this node. With 0 no bucket is hot, and
	// HotLeased and HotSharded act like HotExact.
	HotRate int
	// Shards is the number of keys into which HotSharded splits a bucket, 8 if 0. It
	// must be the same on all nodes.
	Shards int
	// Nodes is the number of live nodes, which only decides how large a lease may
	// be; nil means 1.
	Nodes func() int
	// Tell, if not nil, makes other nodes call Forget with the same arguments. It
	// must not block, and may fail silently.
	Tell func(k limiter.Key, leases bool)
	// TurnedHot, if not nil, is called for each bucket that has just turned hot, by a goroutine of the Store, at most a
	// few dozen times per second.
	TurnedHot func(limiter.HotKey)
}

// maxAsks is how many limits a request may have to be answered here; more are left
// to the store.
const maxAsks = 8

// Store decides in this node what it can and calls another store for the rest. It
// is safe for concurrent use and owns one goroutine, which Close stops.
type Store struct {
	opt    Options
	inner  limiter.Store
	start  time.Time
	deny   *denyCache // nil: off
	sketch *sketch    // nil: off

	mu      sync.Mutex
	hotKeys map[*hotKey]struct{} // every hot key, and cold ones until they are tidied up

	returnsMu sync.Mutex // never held during a call of the store
	returns   []endedLease
	returning *returning // the present return
	wake      chan struct{}

	alerts chan limiter.HotKey
	stop   chan struct{}
	done   chan struct{}
	once   sync.Once
	closed atomic.Bool
	count  counts
	// requests has *request and batches *batch, and nothing else.
	requests, batches sync.Pool
}

var _ limiter.Store = (*Store)(nil)

// New starts a Store. It fails only if a required option is missing.
func New(opt Options) (*Store, error) {
	s, err := newStore(opt)
	if err != nil {
		return nil, err
	}
	go s.run()
	return s, nil
}

// newStore makes a Store whose goroutine does not run.
func newStore(opt Options) (*Store, error) {
	if opt.Store == nil || opt.Now == nil {
		return nil, errors.New("nearstore: Store and Now are required")
	}
	if opt.Nodes == nil {
		opt.Nodes = func() int { return 1 }
	}
	if opt.Shards <= 0 {
		opt.Shards = defaultShards
	}
	s := &Store{
		opt: opt, inner: opt.Store, start: opt.Now(), hotKeys: map[*hotKey]struct{}{},
		wake: make(chan struct{}, 1), alerts: make(chan limiter.HotKey, maxAlerts),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	s.requests.New = func() any { return new(request) }
	s.batches.New = func() any { return new(batch) }
	if opt.DenyCache > 0 {
		var err error
		if s.deny, err = newDenyCache(opt.DenyCache, opt.DenyExact); err != nil {
			return nil, err
		}
	}
	if opt.HotRate > 0 {
		s.sketch = newSketch(int64(opt.HotRate), opt.Now)
	}
	return s, nil
}

// doInOrder decides calls that are not all takes. It answers nothing from memory, so that
// their order holds.
func (s *Store) doInOrder(ctx context.Context, calls []limiter.Call) {
	plain := true
	for i := range calls {
		plain = plain && !s.rewrites(&calls[i].Request)
	}
	if !plain || s.closed.Load() {
		for i := range calls {
			calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
		}
		return
	}
	for i := range calls {
		s.returnLeases(ctx, &calls[i].Request)
	}
	s.inner.DoAll(ctx, calls)
	for i := range calls {
		s.dropDenials(&calls[i].Request, &calls[i].Result)
	}
}

// doNonTake carries out an operation that is not a take.
func (s *Store) doNonTake(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	s.returnLeases(ctx, req)
	var err error
	if s.rewrites(req) {
		err = s.spread(ctx, req, res)
	} else {
		err = s.inner.Do(ctx, req, res)
	}
	s.dropDenials(req, res)
	return err
}

// returnLeases returns the unspent units of this node's leases before a refund, release,
// reset or settlement of their buckets, so that no unit is given back twice.
func (s *Store) returnLeases(ctx context.Context, req *limiter.Request) {
	if s.sketch == nil || !lowers(req.Op) {
		return
	}
	for i := range req.Asks {
		ended := s.recall(req.Asks[i].Key)
		s.awaitReturn(ctx, req.Asks[i].Key)
		for j := range ended {
			s.returnNow(ctx, &ended[j])
		}
	}
}

// dropDenials drops the cached denials of buckets that have changed, here and, if there is
// more room than before, on other nodes.
func (s *Store) dropDenials(req *limiter.Request, res *limiter.Result) {
	if req.Op == limiter.OpPeek || req.Op == limiter.OpRenew {
		if s.deny != nil {
			s.deny.looked(req.Asks, s.tick())
		}
		return
	}
	if req.Op == limiter.OpApply || req.Op == limiter.OpRestore {
		// Units spent by another region make no room. Units given back do.
		if sums := req.Sums; sums == nil || res.Replayed || sums.Given == 0 && sums.Reset == 0 {
			return
		}
		for i := range req.Asks {
			s.changed(req.Asks[i].Key, true, false)
		}
		return
	}
	for i := range req.Asks {
		if !req.Asks[i].Limit.Algorithm.Traits().Slots { // their denials are never cached
			s.changed(req.Asks[i].Key, lowers(req.Op), true)
		}
	}
}

// changed drops the cached denials of a bucket. If lowered is true, other nodes do the
// same; if leases is true as well, their leases of the bucket end.
func (s *Store) changed(k limiter.Key, lowered, leases bool) {
	if s.deny != nil {
		s.deny.drop(k)
	}
	if lowered && s.opt.Tell != nil {
		s.opt.Tell(k, leases)
	}
}

// lowers reports whether an operation may leave more room than before.
func lowers(op limiter.Op) bool {
	return op == limiter.OpRefund || op == limiter.OpReset || op == limiter.OpRelease || op == limiter.OpSettle
}

// Forget drops the cached denials of a bucket, because another node has made room in it. leases is true after a refund
// or a reset. The units that it gave back may belong to this node's leases, so the leases end and their unspent units
// are lost. It is false after another node has returned a lease: those units belonged to that node.
func (s *Store) Forget(k limiter.Key, leases bool) {
	if s.deny != nil {
		s.deny.drop(k)
	}
	if leases && s.sketch != nil {
		for _, b := range s.recall(k) {
			s.count.lost.Add(b.left)
		}
	}
}

// Close stops the goroutine and returns the unspent units of leases, within the
// deadline of ctx. Later requests go to the store behind. It may be called twice.
func (s *Store) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.closed.Store(true)
		close(s.stop)
		<-s.done
		for _, h := range s.all() {
			h.mu.Lock()
			b, ok := h.endLease(s.tick())
			h.mu.Unlock()
			if ok {
				s.returnLater(b)
			}
		}
		s.returnAll(ctx)
	})
	return nil
}
