package updates

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/region"
	"sluice/internal/tick"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// mostExported is the number of buckets that a node exports in an interval, and mostWaiting the number of buckets
	// that it keeps for regions that lack them; further buckets stay in the store.
	mostExported, mostWaiting = 10_000, 100_000
	// mostMeasured is the number of buckets for which a node remembers the demand on each region.
	mostMeasured = 50_000
	// missed is after how many intervals without updates a region is cut off.
	missed = 3
	// exportWait bounds an export, arrivalsWait a call of Arrivals and a confirmation.
	exportWait, arrivalsWait = 2 * time.Second, time.Second
	// cutLease is how long an export is leased while a region is cut off.
	cutLease = 15 * time.Second
)

// Arrivals is what the nodes of a region share about the messages of others; see fleet.RegionArrivals. It is kept for a
// time to live. Connected returns what the last message of each region said (Received), for the regions that have also
// accepted a message. Turn reports whether it is the turn of this node to export in an interval.
type Arrivals interface {
	Received(ctx context.Context, region, what string, ttl time.Duration) error
	Accepted(ctx context.Context, region string, ttl time.Duration) error
	Connected(ctx context.Context, regions []string) (map[string]string, error)
	Turn(ctx context.Context, interval time.Duration, yields bool) (bool, error)
}

// Options configure an Exchange. All are required but Trouble.
type Options struct {
	Self  string
	Peers []region.Peer
	// Interval is the time between two exports.
	Interval time.Duration
	// Prefix begins the keys in Redis. It is the same in all regions.
	Prefix string
	// Token returns the credential that is sent to the others.
	Token func() string
	// Store has the sums of this region. Apply is where what others spent is applied: the same, or one in front of it.
	Store limiter.Exporter
	Apply limiter.Store
	// Arrivals is shared by the nodes of this region.
	Arrivals Arrivals
	Sets     *match.Current
	// Client sends messages.
	Client  *http.Client
	Now     func() time.Time
	Log     *slog.Logger
	Trouble *trouble.Registry // nil discards
}

var (
	exchangeFailing = trouble.Declare(trouble.Condition{Code: "region_exchange_failing",
		Advice: "see to Redis, and to the network between the regions",
		Starts: "this region cannot send spent units to other regions",
		Ends:   "this region sends spent units to other regions again"})
	messagesRefused = trouble.Declare(trouble.Condition{Code: "region_messages_failing",
		Advice: "the attribute error says why: usually the token or the clock of one region", Of: "region",
		Starts: "a region does not accept the spent units of this one; they are sent again",
		Ends:   "a region accepts the spent units of this one again"})
)

// Exchange is a node's part in the exchange. It is safe for concurrent use. Run owns its goroutines.
type Exchange struct {
	opt   Options
	peers []*peer
	names []string // of the peers
	all   []string // and of this region

	mu        sync.Mutex
	box       *Outbox
	demands   *Demands
	exported  time.Time            // when the last export began
	refusals  map[string]time.Time // of each other region, and of "" for all else, when the last one was logged
	estimates estimates

	cut      atomic.Pointer[cut]
	applying chan struct{}
	counts   counts
	lost     chan bool   // whether this node restores the lost data of the store, or adds to a restore
	failing  atomic.Bool // the last export, confirmation or reading of arrivals failed
}

// cut is what a region is cut off from.
type cut struct {
	from []string // in order
	// agreed: the connected regions are cut off from the same ones.
	agreed bool
}

// New returns an Exchange that does nothing before Run.
func New(opt Options) (*Exchange, error) {
	if opt.Store == nil || opt.Apply == nil || opt.Arrivals == nil || opt.Sets == nil || opt.Client == nil ||
		opt.Now == nil || opt.Log == nil || opt.Token == nil || opt.Self == "" || len(opt.Peers) == 0 || opt.Interval <= 0 {
		return nil, errors.New("exchange: all options are required")
	}
	x := &Exchange{opt: opt, applying: make(chan struct{}, mostApplying), exported: opt.Now(),
		refusals: map[string]time.Time{}, lost: make(chan bool, 1)}
	for _, p := range opt.Peers {
		x.names = append(x.names, p.Name)
		x.peers = append(x.peers, &peer{Link: region.NewLink(p, opt.Client, opt.Token, 0),
			state: peerState{cut: true, cutSince: x.exported}})
	}
	x.cut.Store(&cut{from: slices.Sorted(slices.Values(x.names))}) // until updates arrive
	x.all = append([]string{opt.Self}, x.names...)
	x.box = NewOutbox(mostWaiting, x.names...)
	x.demands = NewDemands(mostMeasured, opt.Interval, opt.Self, x.names...)
	x.estimates.init()
	return x, nil
}

// Run exports and sends at every interval until ctx ends. Another node exports again what this one has exported by then
// and not sent.
func (x *Exchange) Run(ctx context.Context) {
	var senders sync.WaitGroup
	defer senders.Wait()
	for _, p := range x.peers {
		senders.Go(func() { x.sendTo(ctx, p) })
	}
	senders.Go(func() { x.restoreWhenLost(ctx) })
	_ = x.readArrivals(ctx) // an error comes again
	for range tick.Every(ctx, x.opt.Interval) {
		err := errors.Join(x.export(ctx), x.readArrivals(ctx))
		if ctx.Err() == nil {
			x.failing.Store(err != nil)
			x.opt.Trouble.Note(exchangeFailing, "", err)
		}
	}
}

// export takes what has changed, and confirms what every region has. In each interval one node of the region does, and
// another one only if there is more than one node exports.
func (x *Exchange) export(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, exportWait)
	defer cancel()
	now := x.opt.Now()
	set := x.opt.Sets.Load()
	if set == nil {
		return nil
	}
	turn, turnErr := x.turn(ctx)
	var sums []limiter.Exported
	var err error
	due := turn
	if !turn {
		var changed int
		changed, err = x.opt.Store.Changed(ctx)
		due = changed > mostExported
	}
	if due {
		sums, err = x.opt.Store.Export(ctx, mostExported, x.lease())
	}
	if errors.Is(err, limiter.ErrLost) {
		err = nil
		select {
		case x.lost <- turn:
		default: // it is restored already
		}
	}
	x.mu.Lock()
	since := x.exported // exported units were spent after this instant
	if due {
		x.exported = now
	} else if last := now.Add(-x.opt.Interval); turnErr == nil && last.After(since) {
		x.exported = last // by another node
	}
	lag := x.lag()
	for i := range sums {
		s := &sums[i]
		// This node may not have the rule yet; who counts has.
		if rule, limit, ok := set.Spanning(s.Key, now); ok {
			x.estimates.add(rule, s.Sums.Limit(limit), s, now, lag, len(x.peers)+1)
		}
		s.Guard = x.demands.Guard(s, now)
	}
	x.counts.refused.Add(int64(x.box.Add(sums)))
	x.counts.exported.Add(int64(len(sums)))
	x.mu.Unlock()
	for _, p := range x.peers {
		p.nudge(since, len(sums) > 0, turn)
	}
	return errors.Join(turnErr, err, x.confirm(ctx))
}

// turn reports whether it is this node's turn. It leaves time to export without an answer: on a cluster the others of
// its servers may work.
func (x *Exchange) turn(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, arrivalsWait)
	defer cancel()
	return x.opt.Arrivals.Turn(ctx, x.opt.Interval, x.yields())
}

// yields reports whether another node had better export, because this one does not reach all regions.
func (x *Exchange) yields() bool { return slices.ContainsFunc(x.peers, (*peer).fails) }

// lease is the length of the lease of an export. While a region is disconnected, the buckets that it lacks stay with
// the node that exported them.
func (x *Exchange) lease() time.Duration {
	if x.CutOff() {
		return max(cutLease, 5*x.opt.Interval)
	}
	return max(5*x.opt.Interval, exportWait)
}

// confirm confirms to the store what every region has.
func (x *Exchange) confirm(ctx context.Context) error {
	x.mu.Lock()
	sums := x.box.Confirmed()
	x.mu.Unlock()
	if len(sums) == 0 {
		return nil
	}
	return x.opt.Store.Confirm(ctx, sums) // unconfirmed sums are exported again
}

// accepted notes for the nodes of this region that a peer has accepted a message.
func (x *Exchange) accepted(ctx context.Context, p *peer) {
	ctx, cancel := context.WithTimeout(ctx, arrivalsWait)
	defer cancel()
	_ = x.opt.Arrivals.Accepted(ctx, p.Name, x.arrivalLife()) // without Redis readArrivals fails too
}

// confirmNow is confirm as soon as a region has answered, so that guards follow what the regions have received last.
// After an error the buckets are exported and sent again.
func (x *Exchange) confirmNow(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, arrivalsWait)
	defer cancel()
	if err := x.confirm(ctx); err != nil && ctx.Err() == nil {
		x.opt.Log.Debug("cannot confirm which updates the other regions have received", "error", err)
	}
}

// readArrivals finds the disconnected regions: those that send no updates, and those that accept none.
func (x *Exchange) readArrivals(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, arrivalsWait)
	defer cancel()
	connected, err := x.opt.Arrivals.Connected(ctx, x.names)
	if err != nil {
		return err
	}
	now, off := x.opt.Now(), []string{}
	for _, p := range x.peers {
		what, ok := connected[p.Name]
		if p.arrived(what, ok, now) {
			off = append(off, p.Name)
		}
	}
	slices.Sort(off)
	x.mu.Lock()
	x.box.SetCutOff(off)
	x.mu.Unlock()
	differs := func(p *peer) bool { return !slices.Contains(off, p.Name) && !p.agrees(off) }
	x.cut.Store(&cut{from: off, agreed: !slices.ContainsFunc(x.peers, differs)})
	return nil
}

// arrivalLife is for how long an arrival counts: three intervals and the time that a message may be late.
func (x *Exchange) arrivalLife() time.Duration { return missed*x.opt.Interval + x.opt.Interval/2 }

// CutOff reports whether a region has sent no update for three intervals, or has accepted none. A node that has just
// started is cut off until it knows better.
func (x *Exchange) CutOff() bool { return len(x.cut.Load().from) > 0 }

// CutOffFrom reports whether this region is cut off from another one. It is false for a region that is not known.
func (x *Exchange) CutOffFrom(name string) bool { return slices.Contains(x.cut.Load().from, name) }

// Part returns what this region may spend of a limit of a key while it is cut off: each region has an equal part.
// Connected regions that are all disconnected from the same others count each other's units, so they use their parts
// together: the limit without the parts of the others. Otherwise, for example if only the link between two regions
// fails, each region uses its own part: two regions that are both connected with a third, and not with each other,
// would use its part twice.
func (x *Exchange) Part(key limiter.Key, l limiter.Limit) (part limiter.Limit, together bool) {
	of := func(name string) limiter.Limit {
		return l.Part(int64(region.Rank(key, name, x.all)), int64(len(x.all)))
	}
	cut := x.cut.Load()
	if !cut.agreed || len(cut.from) == len(x.names) {
		return of(x.opt.Self), false
	}
	part = l
	for _, name := range cut.from {
		theirs := of(name)
		part.Count, part.Burst = part.Count-theirs.Count, part.Burst-theirs.Burst
	}
	return part, true
}
