package home

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"sluice/internal/region"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/limiter/across"
	"sluice/rules/match"
)

// Options configure a Store. All are required but Trouble.
type Options struct {
	Self string
	// Peers are the other regions. One address of each is used until it fails.
	Peers []region.Peer
	// Prefix begins the keys in Redis. It is the same in all regions.
	Prefix string
	// Store has the buckets of this region. It is not closed with this one.
	Store limiter.Store
	Sets  *match.Current
	// Client sends messages, and Token is the credential that goes with them, "" for none.
	Client *http.Client
	Token  func() string
	// CutOff reports whether this region is cut off from another one: nothing is sent there then. It must not block.
	CutOff func(region string) bool
	// Timeout bounds the calls of a request to another region. Local bounds the calls of the same request that stay in
	// this region.
	Timeout, Local time.Duration
	// Observe receives every call that was to go to another region: why it has failed, "" if it has not, and how long it
	// took. It must not block.
	Observe func(region, reason string, took time.Duration)
	Now     func() time.Time
	Trouble *trouble.Registry // nil discards
}

var homeFailing = trouble.Declare(trouble.Condition{Code: "region_calls_failing",
	Advice: "see to the nodes of that region, and to the network between the regions", Of: "region",
	Starts: "a region does not decide keys that are at home there; fail modes decide",
	Ends:   "a region decides keys that are at home there again"})

// Store decides limits with span global_exact at the home of their keys, and all others in this region. It is safe for
// concurrent use and owns goroutines, which Close stops.
type Store struct {
	opt   Options
	names []string // all regions, this one first
	// exact reports whether a bucket has a home: whether its rule has span global_exact.
	exact func(set *match.Set, key limiter.Key) bool
	links map[string]*link
	start time.Time

	ctx    context.Context //nolint:containedctx // the context of the goroutines, which ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup
	undos  *across.Undos[limiter.Request]

	closing sync.RWMutex // held for reading by requests that are under way: they may have to give back
	closed  bool
}

var _ limiter.Store = (*Store)(nil)

// New starts a Store. It fails only if an option is missing.
func New(opt Options) (*Store, error) {
	if opt.Self == "" || len(opt.Peers) == 0 || opt.Store == nil || opt.Sets == nil || opt.Client == nil ||
		opt.Token == nil || opt.CutOff == nil || opt.Observe == nil || opt.Now == nil ||
		opt.Timeout <= 0 || opt.Local <= 0 || opt.Prefix == "" {
		return nil, errors.New("home: all options are required")
	}
	s := &Store{opt: opt, names: []string{opt.Self}, links: map[string]*link{}, exact: hasHome, start: opt.Now()}
	for _, p := range opt.Peers {
		if len(p.Addresses) == 0 {
			return nil, errors.New("home: a region without an address")
		}
		first := rand.Uint32N(uint32(len(p.Addresses))) //nolint:gosec // spreads the nodes, not a secret; few addresses
		s.links[p.Name] = &link{Link: region.NewLink(p, opt.Client, opt.Token, first), store: s}
		s.names = append(s.names, p.Name)
	}
	slices.Sort(s.names[1:])
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.undos = s.newUndos()
	return s, nil
}

// Close waits for the requests that are under way to other regions, and stops the goroutines. What could not be given
// back yet is tried a last time. It may be called twice.
func (s *Store) Close(ctx context.Context) error {
	s.closing.Lock()
	s.closed = true
	s.closing.Unlock()
	s.undos.Close(ctx)
	for _, l := range s.links {
		l.close()
	}
	s.cancel()
	s.wg.Wait()
	return nil
}

// Stats counts since the start.
type Stats struct {
	// Undone are takes that were given back after their requests were denied or failed elsewhere. Pending ones are still
	// to be given back, and Lost ones were given up, so that their units may stay charged.
	Undone, Pending, Lost int64
}

// Stats returns the counters. It may be called at any time.
func (s *Store) Stats() Stats {
	undone, pending, lost := s.undos.Stats()
	return Stats{Undone: undone, Pending: pending, Lost: lost}
}

// Calls returns what became of the calls to another region. It may be called at any time.
func (s *Store) Calls(to string) region.Calls {
	l := s.links[to]
	if l == nil {
		return region.Calls{}
	}
	l.shown.Lock()
	defer l.shown.Unlock()
	return l.shown.Calls
}

// here marks the context of calls that another region has sent: they are not sent on, even if the regions do not agree
// about the home of a key because their lists differ.
type here struct{}

// Here returns a context whose calls are decided in this region.
func Here(ctx context.Context) context.Context { return context.WithValue(ctx, here{}, true) }

// Home returns the region whose store has a bucket, which may be this one; "" for a bucket that every region keeps for
// itself.
func (s *Store) Home(key limiter.Key) string {
	if !s.exact(s.opt.Sets.Load(), key) {
		return ""
	}
	return Of(key, s.names)
}

// home returns the place in names of the region where a bucket is at home, 0 for this one.
func (s *Store) home(set *match.Set, key limiter.Key) int {
	if !s.exact(set, key) {
		return 0
	}
	return slices.Index(s.names, Of(key, s.names))
}

func hasHome(set *match.Set, key limiter.Key) bool { return set != nil && set.Exact(key) != nil }

// Do decides one request within the deadline of ctx.
func (s *Store) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	set := s.opt.Sets.Load()
	if !s.leaves(ctx, set, req) {
		return s.opt.Store.Do(ctx, req, res)
	}
	calls := []limiter.Call{{Request: *req, Result: *res}}
	s.spread(ctx, set, calls)
	if calls[0].Err == nil {
		*res = calls[0].Result
	}
	return calls[0].Err
}

// DoAll decides the calls independently. The calls of one place are decided in order.
func (s *Store) DoAll(ctx context.Context, calls []limiter.Call) {
	set := s.opt.Sets.Load()
	for i := range calls {
		if s.leaves(ctx, set, &calls[i].Request) {
			s.spread(ctx, set, calls)
			return
		}
	}
	s.opt.Store.DoAll(ctx, calls)
}

// leaves reports whether a request has a bucket that is at home elsewhere.
func (s *Store) leaves(ctx context.Context, set *match.Set, req *limiter.Request) bool {
	for i := range req.Asks {
		if s.home(set, req.Asks[i].Key) != 0 {
			return ctx.Value(here{}) == nil
		}
	}
	return false
}

// since is the time since the start, in ns, at least 1.
func (s *Store) since() int64 { return max(1, int64(s.opt.Now().Sub(s.start))) }

// Timeout is the time for a request with a bucket that is at home in another region.
func (s *Store) Timeout() time.Duration { return s.opt.Timeout }

// Regions is the number of regions, with this one.
func (s *Store) Regions() int { return len(s.names) }
