package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"

	"sluice/api/decide"
	"sluice/limiter"
)

// Options select what is simulated. The zero value is the correct system without a trace.
type Options struct {
	// Steps is the number of steps; 0 means 120.
	Steps int
	// Trace receives a line for everything that happens; nil discards it.
	Trace io.Writer
	// Defect breaks the shared store.
	Defect Defect
	// Tamper falsifies answers before they are checked; nil does not change them.
	Tamper func(*decide.Answer)
	// Memory compares the real memory store with the shared store's model, even after
	// failovers.
	Memory bool
}

// world is one simulation: a clock, a rules database, a shared store, nodes, a network and a
// client. It runs on one goroutine.
type world struct {
	opt    Options
	rng    *rand.Rand
	now    int64 // ms since the epoch
	book   *rulebook
	server *bank
	skew   int64 // of the shared store's clock, ms
	nodes  []*node

	agenda       []event
	order        int
	faultPercent int   // percent of round trips that fail
	downUntil    int64 // until when the store is down
	client       client
	sums         tally
	failed       error // the first violation
	started      int64
}

// event is an action at a later time.
type event struct {
	at    int64
	order int
	do    func() error
}

// epoch is the start of every simulation, in ms.
const epoch = 1_700_000_000_000

const defaultSteps = 120

// Run simulates one seed and returns its accounts and the first violation. The same seed and
// options give the same run.
func Run(seed uint64, opt Options) (Accounts, error) {
	w := &world{opt: opt, rng: rand.New(rand.NewPCG(seed, 0x51c3)), now: epoch, started: epoch, faultPercent: 8}
	if w.opt.Steps == 0 {
		w.opt.Steps = defaultSteps
	}
	err := w.run()
	for _, n := range w.nodes {
		if !n.down {
			_ = n.bank.close() // a memory store's Close has nothing to report
		}
	}
	_ = w.server.close()
	if err != nil {
		return Accounts{}, fmt.Errorf("seed %d, %d ms in: %w", seed, w.now-w.started, err)
	}
	return w.accounts(), nil
}

func (w *world) run() error {
	w.book = newRulebook(w.rng)
	var open func(func() int64) limiter.Store
	if w.opt.Memory {
		open = openMemory
	}
	w.server = newBank("shared store", func() int64 { return w.now + w.skew }, w.opt.Defect, w.book.shadows, open)
	for i := range 2 + w.rng.IntN(2) {
		n := &node{w: w, id: i + 1}
		w.nodes = append(w.nodes, n)
		if err := n.boot(); err != nil {
			return err
		}
	}
	w.client = client{w: w}
	for i := range w.book.rules {
		r := &w.book.rules[i]
		w.say("rule %d: %s %s, %d per %d ms, %s %s", r.ID, r.Algorithm, r.Scope, r.Limit, r.WindowMS, r.FailMode, r.Mode)
	}
	for range w.opt.Steps {
		if err := w.step(); err != nil {
			return err
		}
	}
	return w.finish()
}

// step advances the clock, triggers a random event, and checks the accounts.
func (w *world) step() error {
	w.pass(w.pause())
	if err := w.due(w.now); err != nil {
		return err
	}
	if err := w.randomEvent(); err != nil {
		return err
	}
	return w.verify()
}

// finish delivers everything that is still in flight.
func (w *world) finish() error {
	for len(w.agenda) > 0 {
		w.now = max(w.now, w.next().at)
		if err := w.due(w.now); err != nil {
			return err
		}
	}
	return w.verify()
}

func (w *world) pass(ms int64) { w.now += ms }

// pause returns the time to the next step: mostly short, so that buckets fill, sometimes long.
func (w *world) pause() int64 {
	switch w.rng.IntN(10) {
	case 0:
		return w.rng.Int64N(2000)
	case 1, 2:
		return w.rng.Int64N(200)
	case 3:
		return 0
	}
	return w.rng.Int64N(20)
}

// later schedules an event.
func (w *world) later(in int64, do func() error) {
	w.order++
	w.agenda = append(w.agenda, event{w.now + in, w.order, do})
}

// next returns the earliest event.
func (w *world) next() *event {
	first := &w.agenda[0]
	for i := range w.agenda {
		if a := &w.agenda[i]; a.at < first.at || (a.at == first.at && a.order < first.order) {
			first = a
		}
	}
	return first
}

// due runs the events up to now, in order.
func (w *world) due(now int64) error {
	for len(w.agenda) > 0 {
		a := *w.next()
		if a.at > now {
			return nil
		}
		w.agenda = slices.DeleteFunc(w.agenda, func(b event) bool { return b.order == a.order })
		if err := a.do(); err != nil {
			return err
		}
	}
	return nil
}

// say writes a line of the trace.
func (w *world) say(format string, args ...any) {
	if w.opt.Trace != nil {
		fmt.Fprintf(w.opt.Trace, "%8d  %s\n", w.now-w.started, fmt.Sprintf(format, args...))
	}
}

// fail keeps the first violation, because the Checker would treat it as a store that cannot
// decide.
func (w *world) fail(err error) error {
	if w.failed == nil && isViolation(err) {
		w.failed = err
	}
	return err
}

// apply applies a request to the shared store.
func (w *world) apply(req *limiter.Request, res *limiter.Result, heard bool) error {
	note := ""
	if !heard {
		note = ", and nobody hears of it"
	}
	err := w.fail(w.server.apply(req, res, heard))
	w.say("  store: %s %s %s → allowed=%v replayed=%v%s", req.Op, req.ID, asksOf(req), res.Allowed, res.Replayed, note)
	return err
}

// applyLater applies a request after its deadline.
func (w *world) applyLater(req limiter.Request) {
	w.later(1+w.rng.Int64N(400), func() error {
		var res limiter.Result
		return w.apply(&req, &res, false)
	})
}

func asksOf(req *limiter.Request) string {
	s := ""
	for i := range req.Asks {
		a := &req.Asks[i]
		s += fmt.Sprintf("[%s %d of %d, %d/%d ms]", a.Key, a.Weight, a.Limit.Capacity(), a.Limit.Count, a.Limit.Window)
	}
	return s
}
