package updates

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/limiter/memstore"
)

// model is some regions in virtual time, with everything that goes wrong between them, from one seed. It runs on
// one goroutine.
type model struct {
	plan
	r      *rand.Rand
	now    int64
	clock  atomic.Int64 // now, for the stores, whose sweepers also read it
	events events
	seq    int
	nodes  []*modelNode
	one    *memstore.Store // one region that has all units
	key    limiter.Key
	cut    map[[2]int]bool // from, to
	quiet  bool            // no load and no faults any more

	// admitted is the units of takes less refunds, over all regions; most is the most there were at once.
	admitted, most             int64
	applied, repeated, dropped int
	losses, regained           int
	losing                     *modelNode // the region whose store is lost and not restored, or nil
	// ideal is one region to which all requests go, or nil.
	ideal         *memstore.Store
	idealAdmitted int64
}

// plan is what a seed decides.
type plan struct {
	regions         int
	limit           limiter.Limit
	interval        int64
	delay, jitter   int64
	loss            float64 // of messages and answers
	faults          bool    // cuts, and regions that go and come back
	loses           bool    // regions lose their stores
	skew            bool
	charges         bool // charges and refunds too, not takes alone
	guard           limiter.GuardMode
	demand          float64 // in limits, within ten seconds
	even            bool
	shares          []float64 // of the load, by region; nil draws them
	length          int64
	leaseOfAnExport time.Duration
}

// modelNode is a region.
type modelNode struct {
	at        int
	name      string
	store     *memstore.Store
	skew      int64
	box       *Outbox
	down      bool
	every     int64 // ms between its requests, times 1000
	due       int64 // of the next, times 1000
	taken     int64
	took      []int64 // when, for as long as bounded needs it
	names     int
	demands   *Demands
	received  []int64 // Taken of each region, as applied
	lastName  string
	exported  int64 // the most units that it has exported
	forgotten int64 // units that were lost with a store before they were exported
	// silent are the regions that it has asked what they know, since its store was lost, and that have not answered.
	silent []*modelNode
}

type event struct {
	at  int64
	seq int
	do  func() error
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) } //nolint:forcetypeassert // only events are pushed
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// origin is the middle of a window of ten minutes.
const origin = 1_795_000_500_000

func newModel(p plan, seed uint64) *model {
	w := &model{
		plan: p, r: rand.New(rand.NewPCG(seed, 7)), now: origin, cut: map[[2]int]bool{}, //nolint:gosec // a simulation
		key: limiter.Key("{user:1}|1|" + p.limit.Algorithm.Kind()),
	}
	if p.limit.Window < 600_000 { // begin with a window
		w.now -= w.now % p.limit.Window
	}
	w.clock.Store(w.now)
	w.one = memstore.New(memstore.Options{Clock: w.clock.Load, Steady: true})
	shares := make([]float64, p.regions)
	sum := 0.0
	for i := range shares {
		if shares[i] = 1; !p.even {
			shares[i] = 0.05 + w.r.Float64()
		}
		if p.shares != nil {
			shares[i] = p.shares[i]
		}
		sum += shares[i]
	}
	for i := range p.regions {
		n := &modelNode{
			at: i, name: fmt.Sprintf("r%02d", i), received: make([]int64, p.regions),
		}
		if p.skew {
			n.skew = w.r.Int64N(10_001) - 5000
		}
		n.store = memstore.New(memstore.Options{
			Clock: func() int64 { return w.clock.Load() + n.skew }, Steady: true,
			Regions: limiter.Regions{Count: int64(p.regions), Wait: p.interval},
		})
		var peers []string
		for j := range p.regions {
			if j != i {
				peers = append(peers, fmt.Sprintf("r%02d", j))
			}
		}
		n.box = NewOutbox(1000, peers...)
		n.demands = NewDemands(1000, time.Duration(p.interval)*time.Millisecond, n.name, peers...)
		perSecond := p.demand * float64(p.limit.Capacity()) / 10 * shares[i] / sum
		n.every = max(1000, int64(1e6/max(perSecond, 1e-6)))
		n.due = 1000*w.now + w.r.Int64N(n.every)
		w.nodes = append(w.nodes, n)
		w.after((n.due+999)/1000-w.now, func() error { return w.request(n) })
		w.after(w.r.Int64N(p.interval), func() error { return w.exchange(n) })
	}
	if p.faults {
		w.after(w.r.Int64N(1000), w.fault)
	}
	if p.loses {
		w.after(1000+w.r.Int64N(2000), w.lose)
	}
	return w
}

func (w *model) close() {
	_ = w.one.Close()
	for _, n := range w.nodes {
		_ = n.store.Close()
	}
}

func (w *model) after(ms int64, do func() error) {
	w.seq++
	heap.Push(&w.events, event{w.now + ms, w.seq, do})
}

// run runs until a time.
func (w *model) run(until int64) error {
	for len(w.events) > 0 && w.events[0].at <= until {
		e := heap.Pop(&w.events).(event) //nolint:forcetypeassert // only events are pushed
		w.now = max(w.now, e.at)
		w.clock.Store(w.now)
		if err := e.do(); err != nil {
			return fmt.Errorf("at %d ms: %w", w.now-origin, err)
		}
	}
	w.now = until
	w.clock.Store(w.now)
	return nil
}

// do runs one request in a store.
func (w *model) do(s *memstore.Store, op limiter.Op, id string, units int64, l limiter.Limit) (limiter.Result, error) {
	a := limiter.Ask{Key: w.key, Limit: l, Weight: units, Spans: s != w.one && s != w.ideal}
	if op == limiter.OpTake {
		a.Guard = w.guard
	}
	var res limiter.Result
	err := s.Do(context.Background(), &limiter.Request{Op: op, ID: id, Asks: []limiter.Ask{a}}, &res)
	return res, err
}

// used is the units in a bucket, also above the limit.
func (w *model) used(s *memstore.Store) (int64, error) {
	big := w.limit
	most := min(big.MaxCapacity(), 1_000_000)
	if big.Algorithm.Bucketed() {
		big.Burst = most
	} else {
		big.Count = most
	}
	res, err := w.do(s, limiter.OpPeek, "", 0, big)
	if err != nil {
		return 0, err
	}
	return most - res.Limits[0].Remaining, nil
}

// request is one request of a region: mostly a take of a unit.
func (w *model) request(n *modelNode) error {
	if w.quiet {
		return nil
	}
	n.due += n.every
	w.after(max(0, n.due/1000-w.now), func() error { return w.request(n) })
	if n.down {
		return nil
	}
	n.names++
	op, id := limiter.OpTake, fmt.Sprintf("%s-%d", n.name, n.names)
	if w.charges {
		switch w.r.IntN(20) {
		case 0:
			op = limiter.OpCharge
		case 1:
			return w.refund(n)
		}
	} else {
		id = ""
	}
	if w.ideal != nil {
		if res, err := w.do(w.ideal, op, id, 1, w.limit); err != nil {
			return err
		} else if res.Allowed {
			w.idealAdmitted++
		}
	}
	res, err := w.do(n.store, op, id, 1, w.limit)
	if err != nil || op == limiter.OpTake && !res.Allowed {
		return err
	}
	n.taken++
	n.lastName = id
	n.took = append(n.took, w.now)
	if op == limiter.OpTake {
		w.admitted++
		w.most = max(w.most, w.admitted)
		if err := w.bounded(n); err != nil {
			return err
		}
	}
	_, err = w.do(w.one, limiter.OpCharge, id, 1, w.limit)
	return err
}

// bounded checks that a region which has just admitted a unit knows what it must, and that all regions are within the
// published bound.
func (w *model) bounded(n *modelNode) error {
	if !w.lossless() || w.charges || !w.sameWindow() {
		return nil
	}
	since := w.now - w.interval - w.delay - w.jitter
	for _, p := range w.nodes {
		for len(p.took) > 0 && p.took[0] < since {
			p.took = p.took[1:]
		}
		if lacks := p.taken - n.received[p.at]; p != n && lacks > int64(len(p.took)) {
			return fmt.Errorf("%s lacks %d units of %s, which has spent %d within the delay and an interval", n.name, lacks,
				p.name, len(p.took))
		}
	}
	if over := w.admitted - w.limit.Capacity(); over > w.bound(w.nodes) {
		return fmt.Errorf("%d units over the limit, the bound is %d", over, w.bound(w.nodes))
	}
	return nil
}

// refund gives the last unit of a region back.
func (w *model) refund(n *modelNode) error {
	if n.lastName == "" {
		return nil
	}
	_, err := w.do(n.store, limiter.OpRefund, n.lastName, 0, w.limit)
	if err == nil {
		_, err = w.do(w.one, limiter.OpRefund, n.lastName, 0, w.limit)
	}
	n.lastName = ""
	return err
}

// exchange exports, and tells every peer what it lacks.
func (w *model) exchange(n *modelNode) error {
	w.after(w.interval, func() error { return w.exchange(n) })
	if n.down {
		return nil
	}
	sums, err := n.store.Export(context.Background(), 1000, w.leaseOfAnExport)
	if errors.Is(err, limiter.ErrLost) {
		return w.restore(n)
	}
	if err != nil {
		return err
	}
	for i := range sums {
		n.exported = max(n.exported, sums[i].Sums.Taken)
		sums[i].Guard = n.demands.Guard(&sums[i], time.UnixMilli(w.now))
	}
	n.box.Add(sums)
	for _, p := range w.nodes {
		if p == n {
			continue
		}
		news := n.box.Next(p.name, 1000)
		if len(news) == 0 {
			continue
		}
		buckets := make([]Bucket, len(news))
		for i, s := range news {
			buckets[i] = Bucket{s.Key, s.Sums}
		}
		head := region.Head{From: n.name, To: p.name, Prefix: "sl:", At: w.now + n.skew}
		for _, m := range Encode(&Message{Head: head, Buckets: buckets}) {
			w.send(n, p, func() error { return w.receive(n, p, m, news) })
		}
		w.after(2*(w.delay+w.jitter)+1, func() error { n.box.Lost(p.name, news); return nil }) // what was told is not
	}
	return n.store.Confirm(context.Background(), n.box.Confirmed())
}

// send lets something travel: it may be lost, repeated, late.
func (w *model) send(from, to *modelNode, arrive func() error) {
	link := [2]int{from.at, to.at}
	if w.cut[link] || !w.quiet && w.r.Float64() < w.loss {
		w.dropped++
		return
	}
	times := 1
	if w.loss > 0 && w.r.IntN(10) == 0 {
		times = 2
	}
	for range times {
		late := w.delay
		if w.jitter > 0 {
			late += w.r.Int64N(w.jitter + 1)
		}
		w.after(late, func() error {
			if to.down || w.cut[link] {
				w.dropped++
				return nil
			}
			return arrive()
		})
	}
}

// receive applies a message and answers.
func (w *model) receive(from, to *modelNode, b []byte, news []Update) error {
	m, err := Decode(b, w.now)
	if err != nil {
		return fmt.Errorf("%w: %+v", err, news)
	}
	for i := range m.Buckets {
		if err := w.apply(from, to, &m.Buckets[i].Sums); err != nil {
			return err
		}
	}
	w.send(to, from, func() error { return w.answered(from, to, news) })
	return nil
}

// apply applies sums of a region in another one.
func (w *model) apply(from, to *modelNode, sums *limiter.Sums) error {
	before, err := w.used(to.store)
	if err != nil {
		return err
	}
	a := limiter.Ask{Key: w.key, Limit: w.limit, Spans: true}
	req := limiter.Request{Op: limiter.OpApply, ID: from.name, Asks: []limiter.Ask{a}, Sums: sums}
	var res limiter.Result
	if err := to.store.Do(context.Background(), &req, &res); err != nil {
		return err
	}
	after, err := w.used(to.store)
	switch known := to.received[from.at]; {
	case err != nil:
		return err
	case !res.Allowed:
		return fmt.Errorf("%s: the sums of %s have shrunk: %+v", to.name, from.name, sums)
	case res.Replayed && after != before:
		return fmt.Errorf("%s: a repetition of %s changed %d to %d", to.name, from.name, before, after)
	case res.Replayed:
		w.repeated++
	case sums.Taken < known:
		return fmt.Errorf("%s: applied %d of %s after %d", to.name, sums.Taken, from.name, known)
	case !w.charges && w.sameWindow() && after-before != sums.Taken-known && !w.full(after):
		return fmt.Errorf("%s: %d units of %s counted as %d: %+v", to.name, sums.Taken-known, from.name, after-before, sums)
	default:
		w.applied++
		to.received[from.at] = sums.Taken
	}
	return nil
}

// rounds reports whether refunds travel as the nearest whole number of units.
func (w *model) rounds() bool {
	return w.charges && w.limit.Algorithm.Traits().Decay == limiter.DecayDrain
}

// full reports whether a bucket has as many units as it can hold.
func (w *model) full(used int64) bool {
	return w.limit.Algorithm == limiter.GCRA && used >= w.limit.Capacity()
}

// sameWindow reports whether all units so far are in one window, or never drain.
func (w *model) sameWindow() bool { return w.limit.Window >= 600_000 }

// answered says that a peer has some news.
func (w *model) answered(n, peer *modelNode, news []Update) error {
	n.box.Accepted(peer.name, news)
	return n.store.Confirm(context.Background(), n.box.Confirmed())
}

// fault cuts or heals a link, one way or both, or lets a region go or come back.
func (w *model) fault() error {
	if w.quiet {
		return nil
	}
	w.after(100+w.r.Int64N(1500), w.fault)
	a, b := w.r.IntN(w.regions), w.r.IntN(w.regions)
	switch w.r.IntN(6) {
	case 0, 1:
		w.cut[[2]int{a, b}] = a != b
		if w.r.IntN(2) == 0 {
			w.cut[[2]int{b, a}] = a != b
		}
	case 2: // a partition in two, or in all
		all := w.r.IntN(3) == 0
		for i := range w.regions {
			for j := range w.regions {
				w.cut[[2]int{i, j}] = i != j && (all || (i <= a) != (j <= a))
			}
		}
	case 3:
		w.nodes[a].down = true
	case 4:
		w.nodes[a].down = false
	default:
		clear(w.cut)
	}
	return nil
}

// lose lets a region lose its store. What it has not exported is forgotten by all.
func (w *model) lose() error {
	if w.quiet {
		return nil
	}
	w.after(500+w.r.Int64N(3000), w.lose)
	n := w.nodes[w.r.IntN(w.regions)]
	if w.losing != nil && w.losing != n {
		return nil // what two regions lose at once, nobody may know
	}
	spent, err := n.store.Spent(context.Background(), w.key)
	if err != nil || spent.Own.Born >= w.now+n.skew { // an incarnation of the same ms is the same one
		return err
	}
	if forgotten := n.taken - n.forgotten - n.exported; forgotten > 0 {
		n.forgotten += forgotten
		if res, err := w.do(w.one, limiter.OpRefund, "", forgotten, w.limit); err != nil {
			return err
		} else if got := res.Limits[0].Refunded; got != forgotten {
			return fmt.Errorf("of %d units that %s forgets one region had %d", forgotten, n.name, got)
		}
	}
	_ = n.store.Close()
	n.store = memstore.New(memstore.Options{
		Clock: func() int64 { return w.clock.Load() + n.skew }, Steady: true,
		Regions: limiter.Regions{Count: int64(w.regions), Wait: w.interval, Restores: true},
	})
	n.silent, w.losing = nil, n
	clear(n.received)
	w.losses++
	return nil
}

// restore restores a store that was lost: from what was exported and from all other regions, however long it takes.
func (w *model) restore(n *modelNode) error {
	if n.silent == nil {
		if _, err := n.store.BeginRestore(context.Background(), "a restore"); err != nil {
			return err
		}
		for _, s := range n.box.Waiting() {
			if err := w.regain(n, &s.Sums); err != nil {
				return err
			}
		}
		for _, p := range w.nodes {
			if p != n {
				n.silent = append(n.silent, p)
			}
		}
	}
	if len(n.silent) == 0 {
		w.losing = nil
		_, err := n.store.EndRestore(context.Background(), "a restore")
		return err
	}
	store := n.store
	for _, p := range n.silent {
		w.send(n, p, func() error {
			known, err := recall(p.store, n.name)
			if err != nil {
				return err
			}
			w.send(p, n, func() error {
				if n.store != store || !slices.Contains(n.silent, p) {
					return nil // it was lost again meanwhile, or has had an answer
				}
				p.exported = max(p.exported, known.Sums.Taken)
				n.silent = slices.DeleteFunc(n.silent, func(o *modelNode) bool { return o == p })
				for i := range known.Received {
					if known.Received[i].Region == n.name {
						if err := w.regain(n, &known.Received[i].Sums); err != nil {
							return err
						}
					}
				}
				return w.apply(p, n, &known.Sums)
			})
			return nil
		})
	}
	return nil
}

// recall returns what a store says about its one bucket to a region that has lost its data.
func recall(s *memstore.Store, region string) (all limiter.Exported, err error) {
	for cursor := ""; ; {
		known, next, err := s.Recall(context.Background(), region, cursor)
		if len(known) > 0 {
			all = known[0]
		}
		if cursor = next; err != nil || cursor == "" {
			return all, err
		}
	}
}

// regain restores sums in the store of a region.
func (w *model) regain(n *modelNode, sums *limiter.Sums) error {
	req := limiter.Request{Op: limiter.OpRestore, Sums: sums,
		Asks: []limiter.Ask{{Key: w.key, Limit: w.limit, Spans: true}}}
	var res limiter.Result
	err := n.store.Do(context.Background(), &req, &res)
	if err == nil && !res.Replayed && res.Allowed {
		w.regained++
	}
	return err
}

// settle ends load and faults, and lets everything arrive.
func (w *model) settle() error {
	w.quiet = true
	clear(w.cut)
	for _, n := range w.nodes {
		n.down = false
	}
	return w.run(w.now + w.leaseOfAnExport.Milliseconds() + 8*w.interval + 6*(w.delay+w.jitter))
}

// agree checks that every region has what one region would have.
func (w *model) agree() error {
	want, err := w.used(w.one)
	if err != nil {
		return err
	}
	for _, n := range w.nodes {
		got, err := w.used(n.store)
		if err != nil {
			return err
		}
		if off := max(got-want, want-got); off > 0 && (off > 1 || !w.rounds()) {
			return fmt.Errorf("%s of %d has %d units, one region has %d", n.name, w.regions, got, want)
		}
		if n.box.Len() > 0 {
			return fmt.Errorf("%s still has %d buckets to tell of", n.name, n.box.Len())
		}
	}
	return nil
}
