package share

import (
	"maps"
	"slices"

	"sluice/limiter"
)

const (
	// MostRules is the number of rules whose shares move; further ones have the least part.
	MostRules = 1000
	// mostSpans bounds the spans of a loan in a message.
	mostSpans = 100
	// leastOf is the part of an equal part that a region never lends: a thirty-second, and a unit at least.
	leastOf = 32
	// steadyOf is the part of an equal part by which its use must change for a change of what a region lends.
	steadyOf = 20
	// missed is after how many intervals without a report a region is left out.
	missed = 3
)

// Config says who a region is, and for how long things count, in ms.
type Config struct {
	// Self is one of Regions, which are all regions by name. Segments follow their order.
	Self    string
	Regions []string
	// Prefix begins the keys in Redis. It is the same in all regions.
	Prefix string
	// Interval is the time between two messages to a region, and Term the length of a loan.
	Interval, Term int64
	// Valid is for how long a node uses what it has read: then every node knows of a change.
	Valid int64
	// Skew is the largest difference of two clocks, or step of one clock, that a wait allows for.
	Skew int64
}

// Spec is what must be known of the limit of a rule.
type Spec struct {
	// Units is the number of units that are divided; see the function Units.
	Units int64
	// Life is the longest life of the rule's limits; see the function Life.
	Life int64
	// Marked is since when all that is spent of the rule has been covered by Marks, where they were kept, in ms;
	// limiter.MaxExact for never. New: nothing was spent before.
	Marked int64
	New    bool
}

// State is what a region knows of the shares. All of its nodes have the same, in their Redis; each step begins with
// the last, and is kept before anything of it is sent. Times are ms of the clock of that Redis. Use NewState.
type State struct {
	// Regions are the regions that own the segments.
	Regions []string `json:"regions"`
	// Began is since when nodes of the region keep Marks.
	Began int64 `json:"began"`
	// Epoch grows whenever the region may have lost what it had lent.
	Epoch int64 `json:"epoch"`
	// Lost is not nil while that is not known again.
	Lost *Lost `json:"lost,omitempty"`
	// Known are the epochs of others.
	Known map[string]int64 `json:"known,omitempty"`
	// Demand is the demand on this region by rule, and Received the reports of the other regions.
	Demand   map[int64]int64    `json:"demand,omitempty"`
	Received map[string]*Report `json:"received,omitempty"`
	// Rules are the rules with at least one loan in this epoch.
	Rules map[int64]*Rule `json:"rules,omitempty"`
}

// Lost says since when it is not known what was lent, which regions have said what they hold, and what was this
// region's segment before.
type Lost struct {
	Since    int64    `json:"since"`
	Answered []string `json:"answered,omitempty"`
	Before   Spans    `json:"before"`
}

// Report is the demand on a region: for each rule, the units of its limit within a window.
type Report struct {
	At     int64           `json:"at"`
	Demand map[int64]int64 `json:"demand,omitempty"`
}

// Rule is what is lent and borrowed of the limit of a rule.
type Rule struct {
	// Keep is where the part ends that this region wants to spend itself.
	Keep int64 `json:"keep"`
	// Withheld are parts that it spends no more, to lend them.
	Withheld []Hold               `json:"withheld,omitempty"`
	Lent     map[string]*Lent     `json:"lent,omitempty"`
	Borrowed map[string]*Borrowed `json:"borrowed,omitempty"`
}

// Hold is parts that are not spent any more, since when, and for how long what was spent before counts. Free: no bucket
// has used them.
type Hold struct {
	Spans Spans `json:"spans"`
	Since int64 `json:"since"`
	Life  int64 `json:"life"`
	Free  bool  `json:"free,omitempty"`
}

// Lent are the spans of this region's segment that another region holds. Number is the number of the last grant, and
// Granted are its spans.
type Lent struct {
	Number  int64   `json:"number"`
	Granted Spans   `json:"granted,omitempty"`
	Leases  []Lease `json:"leases,omitempty"`
}

// Lease is spans that are not to be used here until an instant, if what is spent under them counts for Life at most.
// Kept: the region that has them has lost its state since, and does not know whether what it spent under them counts,
// so that it cannot give them back.
type Lease struct {
	Spans Spans `json:"spans"`
	Until int64 `json:"until"`
	Life  int64 `json:"life,omitempty"`
	Kept  bool  `json:"kept,omitempty"`
}

// ends is until when the spans are not to be used. After an edit what is spent under them may count for longer.
func (l *Lease) ends(sp Spec) int64 { return l.Until + max(0, sp.Life-l.Life) }

// Borrowed is what this region has of another one's segment: Granted until Until, less what is Leaving. What is
// leaving is held until nothing that was spent under it counts. Life is for how long that is, as of the last grant.
type Borrowed struct {
	Number  int64  `json:"number"`
	Granted Spans  `json:"granted,omitempty"`
	Until   int64  `json:"until"`
	Life    int64  `json:"life,omitempty"`
	Leaving []Hold `json:"leaving,omitempty"`
}

// NewState returns the state of a region that has none, or whose state may be an old one, at a time. before is the last
// that is known of it, or nil. Until all others have said what they hold of its segment, or it is certain that their
// loans have ended, the region spends the least part.
func NewState(c *Config, before *State, now int64) *State {
	s := &State{Regions: c.Regions, Began: now, Epoch: max(now, 1), Known: map[string]int64{}, Rules: map[int64]*Rule{},
		Received: map[string]*Report{}, Demand: map[int64]int64{}, Lost: &Lost{Since: now, Before: c.own()}}
	if before != nil {
		s.Epoch, s.Began = max(s.Epoch, before.Epoch+1), before.Began
		if i := slices.Index(before.Regions, c.Self); i >= 0 {
			s.Lost.Before = s.Lost.Before.And(Spans{Segment(i, len(before.Regions))})
		}
		s.Remember(c, before, now)
	}
	return s
}

// Remember holds what the region had borrowed by a state of before, which nodes still use, until nothing counts that
// was spent under it, and reports whether that is new. Without it, a region that loses its state together with a lender
// would say that it has nothing.
func (s *State) Remember(c *Config, before *State, now int64) (added bool) {
	if !slices.Equal(before.Regions, s.Regions) {
		return false // the parts belong to others now
	}
	for id, old := range before.Rules {
		for name, b := range old.Borrowed {
			is := &Borrowed{Number: b.Number}
			if r := s.Rules[id]; r != nil && r.Borrowed[name] != nil {
				is = r.Borrowed[name]
			}
			if spans := b.held().Minus(is.held()); len(spans) > 0 {
				is.Leaving = append(is.Leaving, Hold{Spans: spans, Since: now, Life: b.Life})
				s.rule(c, id).Borrowed[name], added = is, true
			}
		}
	}
	return added
}

// init makes what JSON leaves out.
func (s *State) init() {
	if s.Known == nil {
		s.Known = map[string]int64{}
	}
	if s.Received == nil {
		s.Received = map[string]*Report{}
	}
	if s.Demand == nil {
		s.Demand = map[int64]int64{}
	}
	if s.Rules == nil {
		s.Rules = map[int64]*Rule{}
	}
}

// noteEpoch notes the epoch of a region. In a new one that has forgotten what it held before.
func (s *State) noteEpoch(region string, epoch int64) {
	if epoch > s.Known[region] {
		for _, r := range s.Rules {
			if l := r.Lent[region]; l != nil {
				for i := range l.Leases {
					l.Leases[i].Kept = true
				}
			}
		}
	}
	s.Known[region] = epoch
}

func (c *Config) segment(region string) Spans {
	i := slices.Index(c.Regions, region)
	if i < 0 {
		return nil
	}
	return Spans{Segment(i, len(c.Regions))}
}

func (c *Config) own() Spans { return c.segment(c.Self) }

// Least is what a region never lends of a limit of some units: nothing of one that is too small to be divided.
func (c *Config) Least(units int64) Spans {
	own := c.own()[0]
	return Spans{{own.From, c.keeps(own, units, c.least(units))}}.Plus(nil)
}

// small reports whether a limit goes to the busiest region as a whole.
func (c *Config) small(units int64) bool { return units < 4*int64(len(c.Regions)) }

func (c *Config) least(units int64) int64 {
	if c.small(units) {
		return 0
	}
	return max(1, units/(leastOf*int64(len(c.Regions))))
}

// keeps is where the first units of a segment end.
func (c *Config) keeps(segment Span, units, first int64) int64 {
	if first <= 0 {
		return segment.From
	}
	return min(segment.To, max(segment.From, position(before(segment.From, units)+first, units)))
}

// settled reports whether nothing counts any more that was spent under what is held.
func (c *Config) settled(h *Hold, sp Spec, now int64) bool {
	return h.Free || now-h.Since >= c.Valid+c.Skew+max(h.Life, sp.Life)
}

// unsure reports whether parts of a rule may be lent that this region does not know of.
func (s *State) unsure(c *Config, sp Spec, now int64) bool {
	return s.Lost != nil && now-s.Lost.Since < c.Term+c.Skew+c.Valid+sp.Life
}

// rule returns what is known of a rule, and makes it.
func (s *State) rule(c *Config, id int64) *Rule {
	r := s.Rules[id]
	if r == nil {
		r = &Rule{Keep: c.own()[0].To}
		s.Rules[id] = r
	}
	if r.Lent == nil {
		r.Lent = map[string]*Lent{}
	}
	if r.Borrowed == nil {
		r.Borrowed = map[string]*Borrowed{}
	}
	return r
}

// Use returns what this region may spend of a rule now, and until when: its own part, less the withheld and lent spans,
// plus the borrowed spans.
func (s *State) Use(c *Config, id int64, sp Spec, now int64) (use Spans, until int64) {
	own, until := c.own(), limiter.MaxExact
	if s.unsure(c, sp, now) {
		own = c.Least(sp.Units).And(s.Lost.Before)
	}
	r := s.Rules[id]
	if r == nil {
		return own, until
	}
	use = own.Minus(r.lent()).Minus(spansOf(r.Withheld))
	for _, b := range r.Borrowed {
		if now < b.Until && len(b.Granted) > 0 {
			use, until = use.Plus(b.used()), min(until, b.Until)
		}
	}
	return use, until
}

func (b *Borrowed) used() Spans { return b.Granted.Minus(spansOf(b.Leaving)) }

func (b *Borrowed) held() Spans { return b.Granted.Plus(spansOf(b.Leaving)) }

// lent is all that is not to be used because another region has it.
func (r *Rule) lent() (all Spans) {
	for _, l := range r.Lent {
		all = all.Plus(l.all())
	}
	return all
}

func (l *Lent) all() (all Spans) {
	for i := range l.Leases {
		all = all.Plus(l.Leases[i].Spans)
	}
	return all
}

// lendable are the withheld spans under which no spent unit counts any more.
func (r *Rule) lendable(c *Config, sp Spec, now int64) (all Spans) {
	for i := range r.Withheld {
		if c.settled(&r.Withheld[i], sp, now) {
			all = all.Plus(r.Withheld[i].Spans)
		}
	}
	return all
}

func spansOf(holds []Hold) (all Spans) {
	for i := range holds {
		all = all.Plus(holds[i].Spans)
	}
	return all
}

// without takes spans out of some holds.
func without(holds []Hold, gone Spans) []Hold {
	var out []Hold
	for _, h := range holds {
		if h.Spans = h.Spans.Minus(gone); len(h.Spans) > 0 {
			out = append(out, h)
		}
	}
	return out
}

// Tick does what is due: it removes ended loans, and lends and returns spans by demand. asked is the demand on this
// region since the last report, nil if no report is due. marks are nil if they were not read.
func (s *State) Tick(c *Config, specs map[int64]Spec, asked map[int64]int64, marks *Marks, now int64) {
	if asked != nil {
		s.measure(asked)
	}
	for id, r := range s.Rules {
		sp, known := specs[id]
		if known && marks != nil && !s.unsure(c, sp, now) && s.covers(c, sp, marks.At) {
			s.free(c, r, marks.Rules[id], marks.At, now)
		}
		s.end(c, r, sp, now)
		if !known && r.idle() {
			delete(s.Rules, id)
		}
	}
	for id, sp := range specs {
		if s.Rules[id] == nil && len(s.Rules) >= MostRules {
			continue
		}
		plan := s.plan(c, id, sp, now)
		if s.Rules[id] == nil && plan.lends == 0 && len(plan.borrows) == 0 {
			continue
		}
		r := s.rule(c, id)
		if !s.unsure(c, sp, now) {
			s.withhold(c, r, sp, plan.lends, now)
		}
		r.leave(c, sp, &plan, now)
	}
}

// measure takes a new demand: a greater one at once, a smaller one half way.
func (s *State) measure(asked map[int64]int64) {
	for id, was := range s.Demand {
		if asked[id] < was {
			asked[id] = (was + asked[id]) / 2
		}
	}
	maps.DeleteFunc(asked, func(_, n int64) bool { return n <= 0 })
	s.Demand = asked
}

// idle reports whether nothing is lent or borrowed.
func (r *Rule) idle() bool {
	for _, b := range r.Borrowed {
		if len(b.held()) > 0 {
			return false
		}
	}
	return len(r.lent()) == 0
}

// end ends the loans and the borrowing that have ended. sp is the zero value while the rule is not known.
func (s *State) end(c *Config, r *Rule, sp Spec, now int64) {
	for _, l := range r.Lent {
		l.Leases = slices.DeleteFunc(l.Leases, func(l Lease) bool { return now >= l.ends(sp) })
		l.Granted = l.Granted.And(l.all())
	}
	for _, b := range r.Borrowed {
		if now >= b.Until { // it stays granted, because it can be renewed
			b.leave(b.used(), sp, b.Until)
		}
		for _, h := range b.Leaving {
			if c.settled(&h, sp, now) {
				b.Granted = b.Granted.Minus(h.Spans)
				b.Leaving = without(b.Leaving, h.Spans)
			}
		}
	}
}

// leave spends some spans no more since an instant.
func (b *Borrowed) leave(spans Spans, sp Spec, since int64) {
	if len(spans) > 0 {
		b.Leaving = append(b.Leaving, Hold{Spans: spans, Since: since, Life: max(b.Life, sp.Life)})
	}
}
