package backtest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"

	"sluice/api/decide"
	"sluice/internal/records"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

const (
	// maxFirst, maxTop and maxPictures bound the differences, the keys and the pictures of a report.
	maxFirst    = 10
	maxTop      = 20
	maxPictures = 20
	// maxChanged bounds the number of keys whose differences are counted separately.
	maxChanged = 100_000
)

// Options configure Run. Log and Proposed are required.
type Options struct {
	Span
	// Today are the rules to compare with. If nil, Run compares with the decisions in the log.
	Today *match.Set
	// Proposed are the rules to try.
	Proposed *match.Set
	// MaxKeys bounds the buckets of each set of rules; 0 means 500,000, which take about 100 MB. Beyond it, the buckets
	// that expire first are dropped, and counted.
	MaxKeys int
}

// run is the state of one replay.
type run struct {
	opt           Options
	today, next   *engine // today is nil if the log is compared with
	before, after decide.Answer
	report        Report
	rules         map[string]*RuleChange
	keys          map[ruleKey]*KeyChange
	otherKeys     bool
	traffic       series[traffic]
	demands       map[*match.Compiled]*demand
	room          int // for further keys of demands
	left          map[string]int64
	absent        factSet
	absentEvents  map[factSet]int64
	failModes     int64
	overloaded    int64
}

type ruleKey struct{ rule, key string }

// Run decides the events of a log by the proposed rules, and by today's, and reports the differences. It stops when ctx
// ends, with the error of ctx. Its memory does not grow with the log, except for the buckets, whose number is bounded.
func Run(ctx context.Context, opt Options) (_ *Report, err error) {
	if opt.Log == nil || opt.Proposed == nil {
		return nil, errors.New("backtest: Log and Proposed are required")
	}
	r := &run{opt: opt, room: maxPeakKeys, rules: map[string]*RuleChange{}, keys: map[ruleKey]*KeyChange{},
		left: map[string]int64{}, demands: map[*match.Compiled]*demand{}, absentEvents: map[factSet]int64{},
		traffic: series[traffic]{width: firstColumn, merge: addTraffic}}
	maxKeys := cmp.Or(opt.MaxKeys, maxKeys)
	if r.next, err = newEngine(opt.Proposed, maxKeys); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.next.close()) }()
	r.report.Compared = ComparedLog
	if opt.Today != nil {
		r.report.Compared = ComparedRules
		if r.today, err = newEngine(opt.Today, maxKeys); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, r.today.close()) }()
	}
	cut, err := opt.read(ctx, func(e *Entry) error { return r.event(ctx, e) })
	if err != nil {
		return nil, err
	}
	r.report.Cut = cut
	return r.end(), nil
}

// event replays one event.
func (r *run) event(ctx context.Context, e *Entry) error {
	r.report.Events++
	if r.report.From == 0 {
		r.report.From = e.TS
	}
	r.report.Until = e.TS
	from := e.Event
	if from.Rate < 100 && !from.Drawn {
		r.left[leftNotDrawn]++ // its entity's allowed requests are not in the log
		return nil
	}
	err := r.next.do(ctx, from, e.TS, &r.after)
	if err == nil && r.today != nil {
		err = r.today.do(ctx, from, e.TS, &r.before)
	}
	if reason, left := errors.AsType[leftOut](err); left {
		r.left[string(reason)]++
		return nil
	}
	if err != nil {
		return err
	}
	r.report.Replayed++
	if o := omitted(from); o != 0 {
		r.absent |= o
		r.absentEvents[o]++
	}
	if from.Op == "check" {
		r.compare(e)
	}
	return nil
}

// compare adds the answers to a check to the report.
func (r *run) compare(e *Entry) {
	from, times := e.Event, 1.0
	if from.Rate < 100 {
		times = 100 / from.Rate
		r.report.Scaled.add(from.Rate)
	}
	if decide.ByFailMode(from.Degraded) {
		r.failModes++
	}
	if from.Overloaded {
		r.overloaded++
	}
	before := fromEvent(from)
	if r.today != nil {
		before = fromAnswer(&r.before, from)
	}
	after := fromAnswer(&r.after, from)

	r.report.Checks += times
	col := r.traffic.at(e.TS)
	col.checks += times
	if !before.Allowed {
		r.report.DeniedBefore += times
		col.before += times
		for i := range before.Limits {
			r.rule(before.Limits[i].Rule, times, 0)
			r.key(&before.Limits[i]).DeniedBefore += times
		}
	}
	if !after.Allowed {
		r.report.DeniedAfter += times
		col.after += times
		for i := range after.Limits {
			r.rule(after.Limits[i].Rule, 0, times)
			r.key(&after.Limits[i]).DeniedAfter += times
		}
	}
	r.demand(e)
	if before.Allowed != after.Allowed {
		r.differs(e, &before, &after, times)
	}
}

// rule counts denials by the limits that denied.
func (r *run) rule(name string, before, after float64) *RuleChange {
	c := r.rules[name]
	if c == nil {
		c = &RuleChange{Rule: name}
		r.rules[name] = c
	}
	c.DeniedBefore += before
	c.DeniedAfter += after
	return c
}

// differs counts a request that would be answered otherwise.
func (r *run) differs(e *Entry, before, after *Outcome, times float64) {
	denies := after
	if after.Allowed {
		denies = before
		r.report.NewlyAllowed += times
	} else {
		r.report.NewlyDenied += times
	}
	for i := range denies.Limits {
		l := &denies.Limits[i]
		c, k := r.rule(l.Rule, 0, 0), r.key(l)
		if after.Allowed {
			c.NewlyAllowed += times
			k.NewlyAllowed += times
		} else {
			c.NewlyDenied += times
			k.NewlyDenied += times
		}
	}
	if len(r.report.First) < maxFirst {
		f := e.Event
		r.report.First = append(r.report.First, Difference{File: e.File, Line: e.Line, TS: e.TS, Method: f.Method,
			Route: f.Route, Weight: f.Weight, Before: *before, After: *after})
	}
}

// key returns the counts of a bucket. Buckets beyond maxChanged share one.
func (r *run) key(l *OutcomeLimit) *KeyChange {
	at := ruleKey{l.Rule, l.Key}
	k := r.keys[at]
	if k == nil {
		if len(r.keys) >= maxChanged {
			r.otherKeys = true
			return &KeyChange{}
		}
		k = &KeyChange{Rule: l.Rule, Key: l.Key}
		r.keys[at] = k
	}
	return k
}

// demand adds a check to the pictures of the rules that apply to it.
func (r *run) demand(e *Entry) {
	set := r.opt.Proposed
	for i := range r.after.Limits {
		la := &r.after.Limits[i]
		c := set.Named(la.Rule)
		if la.Direct || la.Candidate || c == nil || !la.Known || !r.judged(c) {
			continue
		}
		d := r.demands[c]
		if d == nil {
			if len(r.demands) >= maxPictures {
				continue
			}
			d = newDemand(la.Rule, max(1, c.Limit.Window), &r.room)
			r.demands[c] = d
		}
		d.add(e.TS, la.Key, la.Weight, la.Limit.Capacity())
	}
}

// judged reports whether the limit of a rule is judged for the present event.
func (r *run) judged(c *match.Compiled) bool {
	p := r.next.part
	n := p.judged[c.Rule.ID]
	return p.whole || n.values&p.hashed == 0 && (p.drawn == 0 || n.scope&p.drawn != 0)
}

// fromEvent returns the outcome of a check in the log.
func fromEvent(e *records.Event) Outcome {
	o := Outcome{Allowed: e.Allowed, Degraded: e.Degraded, Overloaded: e.Overloaded}
	for i := range e.Limits {
		l := &e.Limits[i]
		o.Strictest = stricter(o.Strictest, OutcomeLimit{l.Rule, l.Key, l.Limit, l.Used, l.RetryAfterMS}, l.Rule == e.Rule &&
			l.Key == e.Key && l.Mode == e.Mode)
		if !l.Allowed && !l.Overloaded && l.Mode == rules.ModeEnforce {
			o.Limits = append(o.Limits, OutcomeLimit{l.Rule, l.Key, l.Limit, l.Used, l.RetryAfterMS})
		}
	}
	if e.Allowed {
		o.Limits = nil
	}
	return o
}

// fromAnswer is what an engine says of the check of an event.
func fromAnswer(a *decide.Answer, from *records.Event) Outcome {
	o := Outcome{Allowed: a.Allowed()}
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Shadow || i != a.Strictest && (o.Allowed || la.Decision.Allowed) {
			continue
		}
		l := OutcomeLimit{Rule: la.Name(), Key: nameOf(la, from), Limit: la.Decision.Limit,
			Used: la.Decision.Used, RetryAfterMS: la.Decision.RetryAfter}
		o.Strictest = stricter(o.Strictest, l, i == a.Strictest)
		if !la.Decision.Allowed && !o.Allowed {
			o.Limits = append(o.Limits, l)
		}
	}
	return o
}

// stricter keeps the limit that is the strictest.
func stricter(have *OutcomeLimit, l OutcomeLimit, is bool) *OutcomeLimit {
	if is {
		return &l
	}
	return have
}

// end completes the report.
func (r *run) end() *Report {
	out, log := &r.report, r.opt.Log
	out.Log = LogReport{Lines: log.Lines, Corrupt: log.Corrupt, Late: log.Late, Problems: log.Problems}
	out.Rules = []RuleChange{}
	for _, name := range slices.Sorted(maps.Keys(r.rules)) {
		out.Rules = append(out.Rules, *r.rules[name])
	}
	slices.SortStableFunc(out.Rules, func(a, b RuleChange) int { return order(b.changed(), a.changed()) })
	out.Keys = []KeyChange{}
	for _, k := range r.keys {
		if k.changed() > 0 {
			out.ChangedKeys++
		}
		out.Keys = append(out.Keys, *k)
	}
	slices.SortFunc(out.Keys, func(a, b KeyChange) int {
		return cmp.Or(order(b.changed(), a.changed()), order(b.DeniedAfter, a.DeniedAfter), order(a.Rule, b.Rule),
			order(a.Key, b.Key))
	})
	out.MoreKeys = r.otherKeys
	out.Keys = out.Keys[:min(len(out.Keys), maxTop)]
	r.endTraffic()
	r.endDemands()
	r.endLeft()
	return out
}

func (r *run) endTraffic() {
	t := &r.traffic
	r.report.Traffic = Traffic{From: t.from, StepMS: t.width, Checks: make([]float64, len(t.columns)),
		DeniedBefore: make([]float64, len(t.columns)), DeniedAfter: make([]float64, len(t.columns))}
	for i, c := range t.columns {
		r.report.Traffic.Checks[i], r.report.Traffic.DeniedBefore[i], r.report.Traffic.DeniedAfter[i] = c.checks,
			c.before, c.after
	}
}

// endDemands orders the pictures as the rules.
func (r *run) endDemands() {
	r.report.Demand = []Demand{}
	for _, d := range r.demands {
		d.flush()
		out := Demand{Rule: d.rule, WindowMS: d.window, From: d.peaks.from, StepMS: d.peaks.width, Partial: d.partial}
		for _, c := range d.peaks.columns {
			out.Demand = append(out.Demand, c.demand)
			out.Limit = append(out.Limit, c.limit)
		}
		r.report.Demand = append(r.report.Demand, out)
	}
	place := func(d Demand) int {
		if i := slices.IndexFunc(r.report.Rules, func(c RuleChange) bool { return c.Rule == d.Rule }); i >= 0 {
			return i
		}
		return len(r.report.Rules)
	}
	slices.SortFunc(r.report.Demand, func(a, b Demand) int {
		if n := place(a) - place(b); n != 0 {
			return n
		}
		return order(a.Rule, b.Rule)
	})
}

// endLeft names the events that were not replayed.
func (r *run) endLeft() {
	r.report.Left = []Left{}
	add := func(l Left) {
		if l.Events > 0 {
			r.report.Left = append(r.report.Left, l)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(r.left)) {
		add(Left{Reason: reason, Events: r.left[reason]})
	}
	parts := map[leftLimit]int64{}
	for _, e := range []*engine{r.today, r.next} {
		if e != nil {
			for why, n := range e.part.left {
				parts[why] = max(parts[why], n)
			}
		}
	}
	for why, n := range parts {
		add(Left{Reason: why.reason, Rule: why.rule, Facts: why.facts.String(), Events: n})
	}
	for i := range r.opt.Proposed.Len() {
		n := needsOf(r.opt.Proposed, r.opt.Proposed.At(i))
		if lacks := n.any & r.absent; lacks != 0 {
			events := int64(0)
			for facts, count := range r.absentEvents {
				if facts&n.any != 0 {
					events += count
				}
			}
			add(Left{Reason: partAbsent, Rule: n.name, Facts: lacks.String(), Events: events})
		}
	}
	add(Left{Reason: leftFailMode, Events: r.failModes})
	add(Left{Reason: leftOverloaded, Events: r.overloaded})
	evicted := r.next.store.Evicted()
	if r.today != nil {
		evicted += r.today.store.Evicted()
	}
	add(Left{Reason: leftEvicted, Events: int64(min(evicted, uint64(limiter.MaxExact)))}) //nolint:gosec // bounded
	slices.SortStableFunc(r.report.Left, func(a, b Left) int {
		return order(a.Reason+"\x00"+a.Rule+"\x00"+a.Facts, b.Reason+"\x00"+b.Rule+"\x00"+b.Facts)
	})
	for i := range r.report.Left {
		r.report.Left[i].Text = r.report.Left[i].text()
	}
}
