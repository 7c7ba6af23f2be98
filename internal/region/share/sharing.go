package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	// MediaType is the media type of messages.
	MediaType = "application/vnd.sluice.regions.shares"
	// bookWait bounds what is done in Redis, sendWait one message.
	bookWait, sendWait = time.Second, 2 * time.Second
	// attempts is how often a step is tried that others come before.
	attempts = 5
	// mostAnswering is how many messages are answered at once.
	mostAnswering = 4
)

// Book keeps the state; see fleet.RegionShares.
type Book interface {
	Read(ctx context.Context) (*Kept, error)
	Write(ctx context.Context, read *Kept, version int64, state []byte) (bool, error)
	Turn(ctx context.Context, what string, ttl time.Duration) (bool, error)
	Ask(ctx context.Context, units map[int64]int64) error
	Asked(ctx context.Context) (map[int64]int64, error)
}

// Options configure Shares. All are required but Trouble.
type Options struct {
	Self   string
	Peers  []region.Peer
	Prefix string
	// Interval is the time between two reports to a region, Skew by how much clocks may differ or step.
	Interval, Skew time.Duration
	Book           Book
	// Marks are the high-water marks of the region's counters.
	Marks   limiter.HighWaterReader
	Sets    *match.Current
	Token   func() string
	Client  *http.Client
	Now     func() time.Time
	Log     *slog.Logger
	Trouble *trouble.Registry // nil discards
}

var (
	sharesFailing = trouble.Declare(trouble.Condition{Code: "region_shares_failing",
		Advice: "see to the Redis of this region",
		Starts: "the shares of this region cannot be read or kept; its nodes use the least part",
		Ends:   "the shares of this region can be read and kept again"})
	messagesFailing = trouble.Declare(trouble.Condition{Code: "region_share_messages_failing",
		Advice: "the attribute error says why: usually the token or the clock of one region", Of: "region",
		Starts: "a region does not accept messages about shares; loans from it end",
		Ends:   "a region accepts messages about shares again"})
)

// Shares is a node's part in the shares. It is safe for concurrent use. Run owns its goroutines.
type Shares struct {
	opt   Options
	cfg   Config
	every time.Duration // between two readings
	peers []*region.Link

	mu     sync.Mutex
	seen   int64  // the highest version of a state
	first  bool   // nothing was read yet
	last   []byte // the state that this node has read or written last, and its epoch, 0 for none
	epoch  int64
	at     int64 // of the last reading, on the clock of Redis
	began  time.Time
	ended  time.Time
	demand map[int64]*demand // of this interval
	since  time.Time         // when it began

	readMarks time.Time // when this node may read them again; of Run alone

	inForce   atomic.Pointer[table]
	counting  atomic.Pointer[map[int64]*demand]
	answering chan struct{}
	failing   atomic.Bool
	lost      atomic.Int64
}

// table is what this node has read.
type table struct {
	read  time.Time // when the reading began
	at    int64     // on the clock of Redis
	until int64
	rules map[int64]part
	state *State
}

// part is what this region may spend of the limits of a rule.
type part struct {
	use   Spans
	until int64
	life  int64
}

// New returns Shares that do nothing before Run.
func New(opt Options) (*Shares, error) {
	if opt.Self == "" || len(opt.Peers) == 0 || opt.Interval <= 0 || opt.Book == nil || opt.Marks == nil ||
		opt.Sets == nil || opt.Token == nil || opt.Client == nil || opt.Now == nil || opt.Log == nil {
		return nil, errors.New("share: all options are required")
	}
	names := []string{opt.Self}
	for _, p := range opt.Peers {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	every := min(max(opt.Interval/5, 200*time.Millisecond), time.Second)
	x := &Shares{
		opt: opt, every: every, first: true, demand: map[int64]*demand{}, answering: make(chan struct{}, mostAnswering),
		cfg: Config{Self: opt.Self, Regions: names, Prefix: opt.Prefix, Interval: opt.Interval.Milliseconds(),
			Term: 3 * opt.Interval.Milliseconds(), Valid: 3 * every.Milliseconds(), Skew: opt.Skew.Milliseconds()},
	}
	for _, p := range opt.Peers {
		x.peers = append(x.peers, region.NewLink(p, opt.Client, opt.Token, 0))
	}
	x.counting.Store(&map[int64]*demand{})
	return x, nil
}

// Run reads, acts and sends until ctx ends.
func (x *Shares) Run(ctx context.Context) {
	var senders sync.WaitGroup
	defer senders.Wait()
	for _, p := range x.peers {
		senders.Go(func() { x.sendTo(ctx, p) })
	}
	for range tick.Every(ctx, x.every) {
		err := x.turn(ctx)
		if ctx.Err() == nil {
			x.failing.Store(err != nil)
			x.opt.Trouble.Note(sharesFailing, "", err)
		}
	}
}

// turn reads the state once and then acts for the region.
func (x *Shares) turn(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, bookWait)
	defer cancel()
	set := x.opt.Sets.Load()
	if set == nil {
		return nil
	}
	specs := specsOf(set)
	if t := x.inForce.Load(); len(specs) == 0 && t != nil && len(t.state.Rules) == 0 {
		return nil // no rule has shares; since when marks are kept stands in the state
	}
	err := x.opt.Book.Ask(ctx, x.count(specs))
	mine, turnErr := x.opt.Book.Turn(ctx, "act", x.every*9/10)
	if err := errors.Join(err, turnErr); err != nil {
		return err
	}
	if !mine {
		r, err := x.read(ctx)
		switch {
		case err != nil || r.lost:
			return err
		case r.added: // otherwise the node continues with the state as it is
			return x.step(ctx, specs, func(*State, int64) {})
		}
		x.publish(r, specs)
		return nil
	}
	var asked map[int64]int64
	if due, err := x.opt.Book.Turn(ctx, "report", x.opt.Interval*95/100); err != nil {
		return err
	} else if due {
		if asked, err = x.opt.Book.Asked(ctx); err != nil {
			return err
		}
		asked = x.demandOf(set, asked)
	}
	marks := x.marks(ctx)
	if err := x.step(ctx, specs, func(s *State, now int64) {
		s.Tick(&x.cfg, specs, asked, marks, now)
		asked = nil
	}); err != nil {
		return err
	}
	for _, p := range x.peers {
		p.Wake()
	}
	return nil
}

// restsAfterMarks is how many times as long as reading the marks took this node does not read them again.
const restsAfterMarks = 10

// marks reads the high-water marks, if they can end the waiting for something. Without them it only takes longer.
func (x *Shares) marks(ctx context.Context) *Marks {
	began, t := x.opt.Now(), x.inForce.Load()
	if t == nil || !t.state.Waits() || began.Before(x.readMarks) {
		return nil
	}
	levels, err := x.opt.Marks.HighWater(ctx)
	ended := x.opt.Now()
	x.readMarks = ended.Add(restsAfterMarks * ended.Sub(began))
	if err != nil {
		return nil
	}
	return NewMarks(levels, t.at)
}

// specsOf is what share must know of the rules of a set.
func specsOf(set *match.Set) map[int64]Spec {
	specs := map[int64]Spec{}
	set.Divided(func(c *match.Compiled, limits []limiter.Limit) {
		sp := Spec{Units: Units(limits[0])}
		for _, l := range limits {
			sp.Life = max(sp.Life, Life(l))
		}
		sp.New, sp.Marked = c.Rule.Version == 1, c.Rule.UpdatedAt.UnixMilli()
		if !Markable(c.Limit) {
			sp.New, sp.Marked = false, limiter.MaxExact
		}
		if len(specs) < MostRules {
			specs[c.Rule.ID] = sp
		}
	})
	return specs
}

// demandOf turns units asked for in an interval into units within the window of each rule.
func (x *Shares) demandOf(set *match.Set, asked map[int64]int64) map[int64]int64 {
	out := map[int64]int64{}
	set.Divided(func(c *match.Compiled, _ []limiter.Limit) {
		l := c.Limit
		if n := asked[c.Rule.ID]; n > 0 && l.Count > 0 && len(out) < MostRules {
			in := float64(n) * float64(l.Window) / float64(x.cfg.Interval) * float64(Units(l)) / float64(l.Count)
			out[c.Rule.ID] = int64(max(1, min(in, 1<<50)))
		}
	})
	return out
}

// read returns the state as it was kept, or a new one in its place.
func (x *Shares) read(ctx context.Context) (*reading, error) {
	began := x.opt.Now()
	kept, err := x.opt.Book.Read(ctx)
	if err != nil {
		return nil, err
	}
	return x.judge(kept, began, x.opt.Now()), nil
}

// reading is a state that was read.
type reading struct {
	kept  *Kept
	state *State
	began time.Time
	lost  bool // it is a new one, because what was lent may have been lost
	alien bool // it is of another list of regions, which nodes that are newer know
	added bool // the state had started empty, and the loans that this node knows were added to it
}

// judge decides whether a state is the last one that was kept.
func (x *Shares) judge(kept *Kept, began, ended time.Time) *reading {
	x.mu.Lock()
	defer x.mu.Unlock()
	r := &reading{kept: kept, began: began}
	before := Parse(kept.State)
	why := ""
	switch skew := x.opt.Skew / 2; {
	case before == nil:
		why = "there is no state"
	case kept.Kept != kept.Server:
		why = "another server answers"
	case kept.Version < x.seen:
		why = "it is an old state"
	case !x.first && (time.Duration(kept.At-x.at)*time.Millisecond > ended.Sub(x.began)+skew ||
		time.Duration(kept.At-x.at)*time.Millisecond < began.Sub(x.ended)-skew):
		why = "the clock of Redis has stepped"
	case !slices.Equal(before.Regions, x.cfg.Regions):
		if r.alien = !x.first; !r.alien {
			why = "the list of regions has changed"
		}
	}
	x.at, x.began, x.ended = kept.At, began, ended
	if before != nil && before.Began == 0 {
		before.Began = kept.At // a node of a version without marks has written it
	}
	if r.state = before; why != "" {
		r.lost, r.state = true, NewState(&x.cfg, before, kept.At)
		x.remember(r)
		x.lost.Add(1)
		report := x.opt.Log.Warn
		if set := x.opt.Sets.Load(); set == nil || len(specsOf(set)) == 0 {
			report = x.opt.Log.Info // no limit is divided
		}
		report("what this region has lent to others is asked of them; until then it uses the least part", "because", why)
		return r
	}
	x.first = false
	x.seen = max(x.seen, kept.Version)
	if r.alien {
		return r
	}
	if r.added = before.Epoch > x.epoch && x.remember(r); !r.added {
		x.last, x.epoch = kept.State, before.Epoch
	}
	return r
}

// remember adds the loans that this node knows to a state that has started empty, and reports whether they were
// missing. x.mu is held.
func (x *Shares) remember(r *reading) bool {
	before := Parse(x.last)
	return before != nil && r.state.Remember(&x.cfg, before, r.kept.At)
}

// step changes the state and keeps it. do is called again if another node came first.
func (x *Shares) step(ctx context.Context, specs map[int64]Spec, do func(s *State, now int64)) error {
	for range attempts {
		r, err := x.read(ctx)
		if err != nil {
			return err
		}
		if r.alien {
			x.publish(r, specs)
			return nil
		}
		do(r.state, r.kept.At)
		b, err := json.Marshal(r.state)
		if err != nil {
			return err
		}
		x.mu.Lock()
		version := max(r.kept.Version, x.seen) + 1
		x.mu.Unlock()
		done, err := x.opt.Book.Write(ctx, r.kept, version, b)
		if err != nil {
			return err
		}
		if done {
			x.mu.Lock()
			x.seen, x.first = max(x.seen, version), false
			x.last, x.epoch = b, r.state.Epoch
			x.mu.Unlock()
			x.publish(r, specs)
			return nil
		}
	}
	return fmt.Errorf("%w: %d times another node came first", region.ErrBusy, attempts)
}

// publish makes a reading the basis of checks, unless the present one is newer.
func (x *Shares) publish(r *reading, specs map[int64]Spec) {
	t := &table{read: r.began, at: r.kept.At, until: r.kept.At + x.cfg.Valid, rules: map[int64]part{}, state: r.state}
	c := x.cfg
	if c.Regions = r.state.Regions; !slices.Contains(c.Regions, c.Self) {
		return
	}
	for id, sp := range specs {
		use, until := r.state.Use(&c, id, sp, r.kept.At)
		t.rules[id] = part{use: use, until: until, life: sp.Life}
	}
	for {
		old := x.inForce.Load()
		if old != nil && old.read.After(t.read) || x.inForce.CompareAndSwap(old, t) {
			return
		}
	}
}

// Share returns the part of a limit that this region may spend without asking others, and until when, ms on the clock
// of the counter store; 0 for always. units are the units of the request.
func (x *Shares) Share(rule int64, key limiter.Key, l limiter.Limit, units int64) (limiter.Limit, int64) {
	if units > 0 {
		if d := (*x.counting.Load())[rule]; d != nil {
			d.ask(key, units)
		}
	}
	t := x.inForce.Load()
	if t == nil {
		return Limit(l, x.least(rule)), 0
	}
	now := t.at + x.opt.Now().Sub(t.read).Milliseconds() + 1
	p, ok := t.rules[rule]
	switch until := min(t.until, p.until); {
	case !ok:
		return Limit(l, x.least(rule)), 0
	case now < until && Life(l) <= p.life:
		return Limit(l, p.use), until
	}
	return Limit(l, x.least(rule).And(p.use)), 0
}

// least is what this region never lends of a rule: the same part of each of its limits.
func (x *Shares) least(rule int64) Spans {
	set := x.opt.Sets.Load()
	if set == nil {
		return nil
	}
	c := set.Get(rule)
	if c == nil {
		return nil
	}
	return x.cfg.Least(Units(c.Limit))
}

// HighWater returns the high-water mark that covers the buckets of a rule with a limit, which is whole.
func (x *Shares) HighWater(rule int64, l limiter.Limit) *limiter.HighWater {
	d := (*x.counting.Load())[rule]
	if d == nil {
		return MarkOf(&x.cfg, rule, l)
	}
	if h, ok := d.marks.Load(l); ok {
		return h.(*limiter.HighWater) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	h := MarkOf(&x.cfg, rule, l)
	d.marks.Store(l, h)
	return h
}

// ShareInterval is after how long at the latest a region with more demand gets more.
func (x *Shares) ShareInterval() time.Duration { return x.opt.Interval }

// Receive answers a message of another region. The error wraps region.ErrMessage, region.ErrBusy or a
// *limiter.StoreError, or is a *region.RefusedError.
func (x *Shares) Receive(ctx context.Context, body []byte) (*Answer, error) {
	select {
	case x.answering <- struct{}{}:
		defer func() { <-x.answering }()
	default:
		return nil, region.ErrBusy
	}
	m, err := Decode(body, x.opt.Now().UnixMilli())
	if err != nil {
		return nil, err
	}
	head := region.Head{From: m.From, To: m.To, Prefix: m.Prefix, Set: m.Set}
	var others []string
	for _, p := range x.peers {
		others = append(others, p.Name)
	}
	if refused := head.Refuse(x.cfg.Self, x.cfg.Prefix, others); refused != nil {
		return nil, refused
	}
	if !slices.Equal(m.Regions, x.cfg.Regions) {
		return nil, &region.RefusedError{From: m.From, Field: "regions", Message: fmt.Sprintf("are %q, but SLUICE_REGIONS "+
			"of %s has %q: parts of limits follow from the list, which must be the same everywhere", m.Regions, x.cfg.Self,
			x.cfg.Regions)}
	}
	set := x.opt.Sets.Load()
	if set == nil {
		return nil, region.ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, bookWait)
	defer cancel()
	specs := specsOf(set)
	var a *Answer
	err = x.step(ctx, specs, func(s *State, now int64) { a = s.Answer(&x.cfg, m, specs, now) })
	if err == nil && a == nil {
		err = region.ErrBusy // nodes that are newer know another list of regions
	}
	return a, err
}
