package share

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/limiter/memstore"
)

// world is some regions in virtual time, with everything that goes wrong within and between them, from one seed. Each
// region has a counter store, which keeps its clock, and the state of its shares as JSON; its nodes read it from time
// to time, and send requests that arrive late.
type world struct {
	t       *testing.T
	r       *rand.Rand
	now     int64 // true time, ms
	limit   limiter.Limit
	spec    Spec
	specs   map[int64]Spec
	faults  bool
	steps   bool  // clocks step; then nothing can be said about windows
	delay   int64 // of a message one way, if not 0 and without faults, ms
	regions []*simRegion
	parcels []parcel
	cut     map[[2]int]bool
	account account
	asks    int64 // units asked for and admitted since the load is steady
	served  int64
}

type simRegion struct {
	at       int
	cfg      Config
	kept     *State
	old      *State // one of before
	skew     int64
	store    *memstore.Store
	time     atomic.Int64 // the store's clock; its sweeper reads it too
	nodes    []*simNode
	demand   float64 // units a second
	owed     float64
	asked    int64
	reported int64 // true time
	told     []int64
	may      Spans  // what it and its nodes may spend, as it was checked last
	marks    *Marks // as they were read last
	mark     *limiter.HighWater
}

// simNode is what a node has read, until when it uses that, on the clock of its region's store.
type simNode struct {
	use    Spans
	until  int64
	frozen int64 // true time until which it does nothing
}

// parcel is something on its way.
type parcel struct {
	at int64
	do func()
}

// account checks what was admitted.
type account interface {
	admit(w *world, r *simRegion, n int64)
}

const rule = 7

func (r *simRegion) clock(now int64) int64 { return now + r.skew }

// save keeps a state as the region's Redis does. Each time would take long.
func (r *simRegion) save(w *world, s *State) {
	if r.kept = s; w.r.IntN(50) == 0 {
		r.kept = copied(w.t, s)
	}
}

func copied(t *testing.T, s *State) *State {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	out := &State{}
	if err := json.Unmarshal(b, out); err != nil {
		t.Fatal(err)
	}
	out.init()
	return out
}

func newWorld(t *testing.T, seed uint64, l limiter.Limit, n int, interval int64) *world {
	w := &world{t: t, r: rand.New(rand.NewPCG(seed, 3)), now: 1_795_000_000_000, limit: l, cut: map[[2]int]bool{}}
	w.spec = Spec{Units: Units(l), Life: Life(l), New: true, Marked: w.now + time.Hour.Milliseconds()}
	if !Markable(l) {
		w.spec.New, w.spec.Marked = false, limiter.MaxExact
	}
	w.specs = map[int64]Spec{rule: w.spec}
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("r%02d", i))
	}
	for i, name := range names {
		r := &simRegion{at: i, told: make([]int64, n), reported: w.now,
			cfg: Config{Self: name, Prefix: "sl:", Regions: names, Interval: interval, Term: 3 * interval,
				Valid: 1500, Skew: 10_000}}
		r.time.Store(w.now)
		r.store = memstore.New(memstore.Options{Clock: r.time.Load, Steady: true})
		t.Cleanup(func() { _ = r.store.Close() })
		for range 1 + w.r.IntN(3) {
			r.nodes = append(r.nodes, &simNode{})
		}
		r.save(w, NewState(&r.cfg, nil, r.clock(w.now)))
		w.regions = append(w.regions, r)
	}
	return w
}

// step is a fifth of a second.
const step = 200

func (w *world) run(steps int) {
	for range steps {
		w.now += step
		var due, later []parcel
		for _, p := range w.parcels {
			if p.at <= w.now {
				due = append(due, p)
			} else {
				later = append(later, p)
			}
		}
		w.parcels = later
		slices.SortStableFunc(due, func(a, b parcel) int { return int(a.at - b.at) })
		w.checkAll()
		for _, p := range due {
			p.do()
		}
		if w.faults {
			w.fault()
		}
		for _, i := range w.r.Perm(len(w.regions)) {
			w.turn(w.regions[i])
		}
	}
}

// later does something after up to so many ms.
func (w *world) later(most int64, do func()) {
	w.parcels = append(w.parcels, parcel{w.now + w.r.Int64N(most+1), do})
}

// turn is what a region does in a step.
func (w *world) turn(r *simRegion) {
	now := r.clock(w.now)
	for _, n := range r.nodes {
		if n.frozen > w.now {
			continue
		}
		if w.r.IntN(3) == 0 { // it reads the state, and acts as its region
			s := r.kept
			var asked map[int64]int64
			if past := w.now - r.reported; past >= r.cfg.Interval {
				asked = map[int64]int64{rule: r.asked * w.limit.Window / past}
				r.asked, r.reported = 0, w.now
			}
			s.Tick(&r.cfg, w.specs, asked, w.marks(r, now), now)
			r.save(w, s)
			n.read(r, s, w.spec, now)
			w.check(r)
			w.send(r, s)
		}
	}
	r.owed += r.demand * step / 1000
	for ; r.owed >= 1; r.owed-- {
		r.asked++
		w.asks++
		n := r.nodes[w.r.IntN(len(r.nodes))]
		use, until := n.use, n.until
		if n.frozen > w.now {
			continue
		}
		if now >= until {
			use, until = r.cfg.Least(w.spec.Units), limiter.MaxExact
		}
		delay := int64(0)
		if w.faults && w.r.IntN(50) == 0 {
			delay = w.r.Int64N(30_000)
		}
		w.later(delay, func() { w.take(r, use, until) })
	}
}

// marks are the high-water marks of a region. They may have been read a while ago.
func (w *world) marks(r *simRegion, now int64) *Marks {
	if !r.kept.Waits() {
		return nil
	}
	last := r.marks
	if last == nil || w.r.IntN(3) > 0 {
		r.time.Store(now)
		levels, err := r.store.HighWater(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		r.marks = NewMarks(levels, now)
	}
	if last != nil && w.r.IntN(3) == 0 {
		return last
	}
	return r.marks
}

// read takes over what the state says.
func (n *simNode) read(r *simRegion, s *State, sp Spec, now int64) {
	use, until := s.Use(&r.cfg, rule, sp, now)
	n.use, n.until = use, min(until, now+r.cfg.Valid)
}

// take is a request that reaches the store.
func (w *world) take(r *simRegion, use Spans, until int64) {
	if r.clock(w.now) >= until {
		return
	}
	if r.mark == nil {
		r.mark = MarkOf(&r.cfg, rule, w.limit)
	}
	var res limiter.Result
	req := limiter.Request{Asks: []limiter.Ask{{Key: "{k}|7|x", Weight: 1, Limit: Limit(w.limit, use),
		HighWater: r.mark}}}
	r.time.Store(r.clock(w.now))
	if err := r.store.Do(w.t.Context(), &req, &res); err != nil {
		w.t.Fatal(err)
	}
	if res.Allowed {
		w.served++
		if w.account != nil {
			w.account.admit(w, r, 1)
		}
	}
}

// send tells the others what is due.
func (w *world) send(r *simRegion, s *State) {
	for i, to := range w.regions {
		pause := r.cfg.Interval
		switch { // as package sharing does
		case i == r.at:
		case s.WaitsFor(to.cfg.Self):
			pause = 1000
		case s.Lacks(&r.cfg, to.cfg.Self, w.specs, r.clock(w.now)):
			pause = max(pause/4, 1000)
		}
		if i == r.at || w.now-r.told[i] < pause {
			continue
		}
		r.told[i] = w.now
		sent := r.clock(w.now)
		m := w.wired(s.Message(&r.cfg, to.cfg.Self, w.specs, sent))
		deliver := func() {
			if w.cut[[2]int{r.at, i}] {
				return
			}
			ts := to.kept
			a := ts.Answer(&to.cfg, m, w.specs, to.clock(w.now))
			to.save(w, ts)
			w.check(to)
			back := func() {
				if w.cut[[2]int{i, r.at}] {
					return
				}
				rs := r.kept
				rs.Accept(&r.cfg, a, w.specs, sent, r.clock(w.now))
				r.save(w, rs)
				w.check(r)
			}
			w.carry(back)
		}
		w.carry(deliver)
	}
}

// wired is a message as it arrives. To encode each would take long.
func (w *world) wired(m *Message) *Message {
	if w.r.IntN(20) > 0 {
		return m
	}
	b, err := json.Marshal(m)
	if err != nil {
		w.t.Fatal(err)
	}
	out, err := Decode(b, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// carry delivers something: late, twice or never.
func (w *world) carry(do func()) {
	if !w.faults && w.delay > 0 {
		w.parcels = append(w.parcels, parcel{w.now + w.delay, do})
		return
	}
	if !w.faults {
		w.later(200, do)
		return
	}
	switch w.r.IntN(10) {
	case 0: // lost
	case 1:
		w.later(300, do)
		w.later(40_000, do)
	case 2:
		w.later(40_000, do)
	default:
		w.later(300, do)
	}
}

// fault is what goes wrong.
func (w *world) fault() {
	if w.r.IntN(10) > 0 {
		return
	}
	r := w.regions[w.r.IntN(len(w.regions))]
	switch w.r.IntN(12) {
	case 0, 1: // a link, one way
		link := [2]int{r.at, w.r.IntN(len(w.regions))}
		w.cut[link] = !w.cut[link]
	case 2:
		clear(w.cut)
	case 3: // parts of the world
		for i := range w.regions {
			w.cut[[2]int{r.at, i}], w.cut[[2]int{i, r.at}] = true, true
		}
	case 4, 5:
		r.nodes[w.r.IntN(len(r.nodes))].frozen = w.now + w.r.Int64N(60_000)
	case 6: // its Redis is empty, or is one of before
		old := r.old
		if w.r.IntN(2) == 0 {
			old = nil
		}
		s := NewState(&r.cfg, old, r.clock(w.now))
		s.Remember(&r.cfg, r.kept, r.clock(w.now))
		r.save(w, s)
	case 7:
		r.old = copied(w.t, r.kept)
	case 8: // a clock steps, within what is allowed
		if w.steps {
			r.skew = w.r.Int64N(10_001) - 5000
		}
	case 9, 10, 11:
		r.demand = []float64{0, 1, float64(Units(w.limit)) * 2000 / float64(w.limit.Window), 12}[w.r.IntN(4)]
	}
	w.checkAll()
}

// maySpend is what a region and its nodes may spend.
func (w *world) maySpend(r *simRegion) Spans {
	now, least := r.clock(w.now), r.cfg.Least(w.spec.Units)
	use, until := r.kept.Use(&r.cfg, rule, w.spec, now)
	if until <= now {
		use = least
	}
	for _, n := range r.nodes {
		if n.until > now {
			use = use.Plus(n.use)
		} else {
			use = use.Plus(least)
		}
	}
	return use
}

// check: what a region and its nodes may spend, nobody else may.
func (w *world) check(r *simRegion) {
	w.t.Helper()
	r.may = w.maySpend(r)
	for _, other := range w.regions {
		if other == r {
			continue
		}
		if twice := r.may.And(other.may); len(twice) > 0 {
			w.t.Fatalf("at %d, %s and %s may both spend %v", w.now, r.cfg.Self, other.cfg.Self, twice)
		}
	}
}

// checkAll: what the regions may spend does not overlap, so that its units add up to the limit at most.
func (w *world) checkAll() {
	w.t.Helper()
	sum := int64(0)
	var all Spans
	for _, r := range w.regions {
		r.may = w.maySpend(r)
		sum += r.may.Units(w.spec.Units)
		all = append(all, r.may...)
	}
	if size := all.Size(); size != all.Plus(nil).Size() || sum > w.spec.Units {
		w.t.Fatalf("at %d the regions may spend %d of %d, and %v", w.now, sum, w.spec.Units, all)
	}
}
