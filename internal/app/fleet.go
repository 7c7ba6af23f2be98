package app

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/history"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/redact"
)

// fleetReporter observes every decision and publishes the figures and the status of
// this node to the other nodes. It is safe for concurrent use.
type fleetReporter struct {
	decide.NopObserver
	recorder *history.Recorder
	now      func() time.Time

	// tenant is the attribute that names the tenant of a request.
	tenant        string
	node, version string
	started       time.Time
	address       atomic.Value // string; set once the listener is open
	ready         *readiness
	counters      *counters
	// own holds the minutes of this node, live reads the last minutes of all nodes. fallback holds the last minutes of
	// this node for times when the board is unavailable; it is nil if the board is in memory.
	own      *history.Own
	live     *history.LiveReader
	fallback *history.Memory
}

func newFleetReporter(now func() time.Time, tenant, version string, ready *readiness, c *counters) *fleetReporter {
	writer := 1 + rand.Int64N(1<<62) //nolint:gosec // not a secret
	f := &fleetReporter{
		recorder: history.NewRecorder(), now: now, tenant: tenant, node: history.NodeID(writer), version: version,
		started: now(), ready: ready, counters: c, live: history.NewLiveReader(c.board, now),
	}
	f.own = history.NewOwn(writer, f.recorder)
	if c.kind == "redis" {
		f.fallback = history.NewMemory(now)
		f.live.FallBackOn(f.fallback)
	}
	return f
}

// ObserveDecision implements decide.Observer. It counts only takes, and the decisions that callers report.
func (f *fleetReporter) ObserveDecision(d *decide.Decision) {
	q, a := d.Question, d.Answer
	if d.Settled != nil && d.Settled.Decisions != nil {
		f.countCaller(a, d.Settled.Decisions)
	}
	if d.Lease && !a.Allowed() { // a sample of the denials that its caller will report
		la := &a.Limits[a.Strictest]
		f.recorder.Denied(la.Series(), func() history.Request { return f.sample(q, a, la, la.Display()) })
	}
	if a.Op != limiter.OpTake || d.Lease {
		return
	}
	whole := history.Decided{Allowed: a.Allowed(), Soft: a.Soft, Elastic: a.Elastic, Shed: a.Verdict == decide.Shed,
		Degraded: decide.ByFailMode(a.Degraded)}
	// Every limit that denied has a candidate that allows, or a shadow rule that allows would replace it.
	rescued := !whole.Allowed
	weight, denied := f.recorder.Weight(), false
	number := f.numberOf(weight)
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Returned {
			continue
		}
		name := la.Series()
		if la.Shadow && la.Known {
			if id, ok := match.RuleID(la.Key); ok {
				f.recorder.Trial(history.Trial{Rule: id, Version: la.Version}, tried(a, i), la.Display)
			}
		}
		if la.Overloaded { // nobody has decided on it
			if !la.Shadow {
				f.recorder.Denied(name, func() history.Request { return f.sample(q, a, la, la.Display()) })
			}
			denied, rescued = denied || !la.Decision.Allowed, rescued && la.Shadow
			if weight > 0 && !la.Candidate {
				f.recorder.TopKey(number, la.Display(), la.Decision.Allowed || la.Shadow, weight)
			}
			continue
		}
		if !la.Candidate { // the enforced limit counts the request
			one := history.Decided{Use: useOf(la), Failed: la.ConditionFailed}
			decided(a, i, &one)
			f.recorder.Limit(name, &one)
			whole.WouldDeny = whole.WouldDeny || whole.Allowed && one.WouldDeny
			rescued = rescued && (one.Allowed || one.WouldAllow || replacedOnTrial(a, la))
			if weight > 0 {
				key := la.Display()
				f.countTop(q, name, key, one.Allowed, weight)
				f.recorder.TopKey(number, key, one.Allowed, weight)
			}
			if !one.Allowed {
				f.recorder.DeniedKey(name, factsOf(la))
			}
		}
		if la.Decision.Allowed {
			continue
		}
		denied = true
		f.recorder.Denied(name, func() history.Request { return f.sample(q, a, la, la.Display()) })
	}
	if whole.Allowed && !denied && f.recorder.SampleAllowed() {
		f.recorder.KeepAllowed(f.sampleAllowed(q, a))
	}
	whole.WouldAllow = rescued && len(a.Limits) > 0
	f.recorder.Request(&whole)
	if !whole.Allowed && a.Strictest >= 0 && a.Strictest < len(a.Limits) {
		f.recorder.DeniedKey("", factsOf(&a.Limits[a.Strictest]))
	}
	if weight > 0 {
		f.countTop(q, "", "", whole.Allowed, weight) // its keys are counted
	}
}

// numberOf is the number under which a request is counted by its keys, 0 if it is not drawn.
func (f *fleetReporter) numberOf(weight int64) uint64 {
	if weight == 0 {
		return 0
	}
	return f.recorder.Number()
}

// countCaller counts the decisions of the caller of a lease. The strictest limit is the limit that denied.
func (f *fleetReporter) countCaller(a *decide.Answer, by *decide.Decisions) {
	weight := f.recorder.Weight()
	for _, n := range [...]struct {
		count   int64
		allowed bool
	}{{by.Allowed, true}, {by.Denied, false}} {
		if n.count == 0 {
			continue
		}
		f.recorder.Requests(&history.Decided{Allowed: n.allowed}, n.count)
		number := f.numberOf(weight)
		for i := range a.Limits {
			la := &a.Limits[i]
			allowed := n.allowed || i != a.Strictest
			f.recorder.Limits(la.Series(), &history.Decided{Allowed: allowed, Use: useOf(la)}, n.count)
			if weight > 0 {
				key := la.Display()
				f.countTop(nil, la.Series(), key, allowed, weight*n.count)
				f.recorder.TopKey(number, key, allowed, weight*n.count)
			}
			if !allowed {
				f.recorder.DeniedKey(la.Series(), factsOf(la))
				f.recorder.DeniedKey("", factsOf(la))
			}
		}
	}
}

// decided says in d how the limit at i of an answer was decided, which is not a candidate, and how its candidate would
// have. It returns nothing, because copying what was just written in parts makes a processor wait.
func decided(a *decide.Answer, i int, d *history.Decided) {
	la := &a.Limits[i]
	d.Allowed, d.Degraded = la.Decision.Allowed || la.Shadow, decide.ByFailMode(la.Degraded)
	d.Soft, d.Elastic = la.Soft && !la.Shadow, la.Elastic && !la.Shadow
	d.Shed = !d.Allowed && la.Shed != ""
	d.WouldDeny = la.Shadow && !la.Decision.Allowed
	if la.Shadow && la.Known && la.Decision.Allowed {
		allowed, known := withoutTrial(a, la)
		d.WouldAllow = known && !allowed
	}
	for j := i + 1; j < len(a.Limits); j++ {
		if c := &a.Limits[j]; c.Candidate && c.Known && !c.Returned && c.Rule == la.Rule {
			d.WouldDeny = d.Allowed && !c.Decision.Allowed
			d.WouldAllow = !d.Allowed && c.Decision.Allowed
		}
	}
}

// useOf is the use of a limit after a decision. A weight that was denied counts as used.
func useOf(la *decide.LimitAnswer) int64 {
	if !la.Known {
		return 0
	}
	used := la.Decision.Used
	if !la.Decision.Allowed {
		used += la.Weight
	}
	return history.UseOf(used, la.Decision.Limit)
}

// factsOf is the part of a limit's key that says whose it is, the same for every rule.
func factsOf(la *decide.LimitAnswer) string {
	facts, _, _ := strings.Cut(string(la.Key), "|")
	return facts
}

// tried is how the limit on trial at i of an answer decided, and how its rule did as it stands.
func tried(a *decide.Answer, i int) history.Tried {
	la := &a.Limits[i]
	t := history.Tried{Allowed: la.Decision.Allowed}
	if !la.Candidate {
		t.Was, t.Compared = withoutTrial(a, la)
		return t
	}
	facts := factsOf(la)
	for j := range i {
		now := &a.Limits[j]
		if now.Rule == la.Rule && !now.Shadow && factsOf(now) == facts {
			t.Was, t.Compared = now.Decision.Allowed, now.Known && !now.Returned
			break
		}
	}
	return t
}

// withoutTrial returns how a request was decided without a shadow rule, whose limit is la, and whether the counter
// store decided all of that. A shadow rule denies nothing, so only the limits count that it would replace. If another
// limit denies the request as well, the shadow rule would change nothing, whatever it decides.
func withoutTrial(a *decide.Answer, la *decide.LimitAnswer) (allowed, known bool) {
	if la.Of == nil || !la.Of.WouldReplace() {
		return true, true
	}
	allowed, known = true, true
	others := true // the limits that it would not replace allow the request
	for i := range a.Limits {
		now := &a.Limits[i]
		switch {
		case now.Shadow:
		case la.WouldReplace(now):
			allowed, known = allowed && now.Decision.Allowed, known && now.Known
		default:
			others = others && now.Decision.Allowed
		}
	}
	if !others {
		allowed = la.Decision.Allowed
	}
	return allowed, known
}

// replacedOnTrial reports whether a shadow rule that allows the request would replace the rule of an enforced limit.
func replacedOnTrial(a *decide.Answer, la *decide.LimitAnswer) bool {
	for i := range a.Limits {
		if by := &a.Limits[i]; by.Known && by.Decision.Allowed && by.WouldReplace(la) {
			return true
		}
	}
	return false
}

// countTop counts a decision by its key, route and tenant, without credentials. A key of "" is not counted.
func (f *fleetReporter) countTop(q *decide.Question, rule, key string, allowed bool, weight int64) {
	if key != "" {
		f.recorder.Top(rule, history.ByKey, key, allowed, weight)
	}
	if q == nil || q.IsDirect {
		return
	}
	if q.Descriptor.Route != "" {
		route := redact.Path(q.Descriptor.Route)
		if q.Descriptor.Method != "" {
			route = q.Descriptor.Method + " " + route
		}
		f.recorder.Top(rule, history.ByRoute, route, allowed, weight)
	}
	if tenant := q.Descriptor.Attributes[f.tenant]; tenant != "" {
		f.recorder.Top(rule, history.ByTenant, redact.Text(tenant), allowed, weight)
	}
}

// status is the status of this node.
func (f *fleetReporter) status() history.Status {
	st := history.Status{
		ID: f.node, Version: f.version, Started: f.started.UnixMilli(), Ready: f.ready.ready() == nil,
		Store: f.counters.kind, Breakers: f.counters.breakers(),
	}
	st.Address, _ = f.address.Load().(string)
	st.HotKeys = f.counters.hotKeys()
	if set := f.ready.sets.Load(); set != nil {
		st.SetVersion, st.Rules = set.Version(), set.Len()
	}
	if s := f.ready.rules.Load(); s != nil {
		st.Source, st.Confirmed = s.origin, s.confirmed.UnixMilli()
	}
	return st
}

// keep writes the figures of this node to the rules database, publishes the figures of the last seconds on the board,
// and returns a Reader of the figures of all nodes in both. Figures that cannot be written at a stop are stored in the
// file unsent.
func (f *fleetReporter) keep(cfg *config.Tuning, store history.Store, unsent string, metrics prometheus.Registerer,
	known *trouble.Registry, log *slog.Logger, stops *stops) *history.Reader {
	w := history.NewWriter(history.WriterOptions{Own: f.own, Store: store, Unsent: unsent,
		Peaks: func(ctx context.Context, minute int64) map[string]int64 { return f.live.Peaks(ctx, f.node, minute) },
		Keep:  time.Duration(cfg.StatsDays) * history.Day, Now: f.now, Trouble: known, Log: log})
	w.Register(metrics)
	stops.add("figures", task(w.Run)) // stopped after the parts whose figures it writes
	p := history.NewPublisher(history.PublisherOptions{Recorder: f.recorder, Own: f.own, Board: f.counters.board,
		Fallback: f.fallback, Status: f.status, Behind: f.live.Behind, Hot: f.hot(), Now: f.now,
		Trouble: known})
	stops.add("figures of the last seconds", task(p.Run))
	return history.NewReader(history.ReaderOptions{Live: f.live, Store: store, Own: f.own, Now: f.now, Exists: f.exists})
}

// exists reports whether a rule of that name is in force.
func (f *fleetReporter) exists(rule string) bool {
	set := f.ready.sets.Load()
	return rule == rules.DirectRule || set != nil && set.Named(rule) != nil
}

var _ decide.Observer = (*fleetReporter)(nil)
