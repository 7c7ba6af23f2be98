package api

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// TestModel_RandomRulesAndRequestsAgainstAnOracle puts random mixes of hard, soft,
// elastic, report, concurrency, shadow and candidate limits to a whole Checker,
// with edits between requests. It holds every answer, every flag and every
// remaining to an oracle, so that all-or-nothing, "denied spends nothing" and
// "consumption survives an edit" are one comparison.
func TestModel_RandomRulesAndRequestsAgainstAnOracle(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				f := pooled(t, kind, nil, nil)
				m := newMix(rt, f)
				for range rapid.IntRange(5, 40).Draw(rt, "steps") {
					m.step()
				}
			})
		})
	}
}

type mix struct {
	t   *rapid.T
	f   *fixture
	o   oracle
	ids []sent
	n   int
}

// sent is a request with an id that was allowed and has not been edited under.
type sent struct {
	q        decide.Question
	repeats  bool
	refunded bool
}

func newMix(t *rapid.T, f *fixture) *mix {
	m := &mix{t: t, f: f}
	m.o = oracle{spent: map[string]int64{}, notes: map[string]note{}}
	m.o.pool = rules.NewPool()
	m.o.pool.Name, m.o.pool.Limit, m.o.pool.WindowMS = "shop", rapid.Int64Range(0, 30).Draw(t, "pool"), 60_000
	f.pools = []rules.Pool{m.o.pool}
	algorithms := []string{"fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "concurrency"}
	for i := range rapid.IntRange(1, 4).Draw(t, "rules") {
		r := aMinute(fmt.Sprint("r", i), 0)
		r.ID = int64(i + 1)
		r.Scope = rapid.SampledFrom([]string{"user", "global"}).Draw(t, "scope")
		r.Algorithm = rapid.SampledFrom(algorithms).Draw(t, "algorithm")
		m.draw(&r)
		m.o.set = append(m.o.set, r)
	}
	m.enforce()
	return m
}

// draw gives a rule new numbers and policies.
func (m *mix) draw(r *rules.Rule) {
	t := m.t
	*r = rules.Rule{
		ID: r.ID, Name: r.Name, Scope: r.Scope, Algorithm: r.Algorithm, WindowMS: r.WindowMS, IsActive: true,
		FailMode: rules.FailOpen,
		Throttle: rules.ThrottleHard, Limit: rapid.Int64Range(1, 12).Draw(t, "limit"),
		Mode: rapid.SampledFrom([]string{rules.ModeEnforce, rules.ModeEnforce, rules.ModeShadow}).Draw(t, "mode"),
	}
	if r.Algorithm != "concurrency" {
		switch rapid.IntRange(0, 3).Draw(t, "throttle") {
		case 0:
			*r = soft(*r, rapid.Int64Range(1, 150).Draw(t, "soft"))
		case 1, 2:
			*r = elastic(*r, rapid.Int64Range(1, 300).Draw(t, "elastic"), "shop",
				rapid.SampledFrom([]string{"critical", "normal", "low"}).Draw(t, "priority"))
		default:
			if rapid.Bool().Draw(t, "pooled") {
				*r = inPool(*r, "shop", "normal")
			}
		}
		if rapid.IntRange(0, 3).Draw(t, "report") == 0 {
			*r = byReport(*r)
		}
		if r.Mode == rules.ModeEnforce && rapid.IntRange(0, 2).Draw(t, "candidate") == 0 {
			r.Candidate = &rules.Candidate{Limit: ptr(rapid.Int64Range(1, 12).Draw(t, "candidate limit"))}
		}
		if r.Algorithm == "token_bucket" || r.Algorithm == "leaky_bucket" {
			r.Algorithm = rapid.SampledFrom([]string{"token_bucket", "leaky_bucket"}).Draw(t, "bucket")
		}
	}
	r.Normalize()
}

// enforce puts the rules in force.
func (m *mix) enforce() {
	m.n++
	set, err := match.CompileSource(rules.Source{Rules: slices.Clone(m.o.set), Pools: m.f.pools, Version: int64(m.n)},
		match.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	m.f.sets.Store(set)
}

func (m *mix) step() {
	switch rapid.IntRange(0, 11).Draw(m.t, "what") {
	case 0:
		m.draw(&m.o.set[rapid.IntRange(0, len(m.o.set)-1).Draw(m.t, "which")])
		m.enforce()
		m.ids = nil // what a record means after an edit is the stores' own test
	case 1:
		m.charge()
	case 2, 3:
		if len(m.ids) > 0 {
			m.again(rapid.IntRange(0, len(m.ids)-1).Draw(m.t, "id"))
		}
	default:
		m.check()
	}
	m.books()
}

func (m *mix) question(op limiter.Op) decide.Question {
	q := decide.Question{Op: op, Weight: rapid.Int64Range(0, 5).Draw(m.t, "weight")}
	q.Descriptor.User = rapid.SampledFrom([]string{"a", "b"}).Draw(m.t, "user")
	if rapid.Bool().Draw(m.t, "named") {
		m.n++
		q.RequestID = fmt.Sprint("id", m.n)
	}
	return q
}

func (m *mix) do(q *decide.Question) *decide.Answer {
	var a decide.Answer
	if err := m.f.checker.Do(m.t.Context(), q, &a); err != nil {
		m.t.Fatal(err)
	}
	return &a
}

func (m *mix) check() {
	q := m.question(limiter.OpTake)
	enforced, apart := m.o.parties(q.Op, q.Descriptor.User, q.RequestID != "")
	want := true
	var limits []verdictOf
	if len(enforced) > 0 {
		want, limits = m.o.decide(enforced, q.Op, q.Weight, m.o.call(&q, "main"))
	}
	a := m.do(&q)
	limits = append(limits, m.apart(apart, &q)...)
	m.compare(a, want, limits)
	if q.RequestID != "" && want {
		m.ids = append(m.ids, sent{q: q, repeats: len(enforced) > 0 && !m.o.notes[m.o.call(&q, "main")].refunded})
	}
}

// apart judges the groups of one that are decided after the enforced limits.
func (m *mix) apart(parties []party, q *decide.Question) (limits []verdictOf) {
	for i := range parties {
		_, v := m.o.decide(parties[i:i+1], q.Op, q.Weight, m.o.call(q, parties[i].mode+parties[i].bucket))
		limits = append(limits, v...)
	}
	return limits
}

func (m *mix) charge() {
	q := m.question(limiter.OpCharge)
	enforced, apart := m.o.parties(q.Op, q.Descriptor.User, q.RequestID != "")
	want := true
	var limits []verdictOf
	if len(enforced) > 0 {
		want, limits = m.o.decide(enforced, q.Op, q.Weight, m.o.call(&q, "main"))
	}
	a := m.do(&q)
	limits = append(limits, m.apart(apart, &q)...)
	m.compare(a, want, limits)
	if q.RequestID != "" && q.Weight > 0 {
		m.ids = append(m.ids, sent{q: q})
	}
}

// again repeats or refunds an earlier request.
func (m *mix) again(i int) {
	s := &m.ids[i]
	q := s.q
	if s.repeats && !s.refunded && rapid.Bool().Draw(m.t, "repeat") {
		_, apart := m.o.parties(q.Op, q.Descriptor.User, true)
		for k := range apart {
			// One that has a record, or a lease, has it still; the others decide anew.
			call := m.o.call(&q, apart[k].mode+apart[k].bucket)
			if n, ok := m.o.notes[call]; !ok || n.refunded && apart[k].r.Algorithm != "concurrency" {
				m.o.decide(apart[k:k+1], q.Op, q.Weight, call)
			}
		}
		if a := m.do(&q); !a.Allowed() || !a.Replayed {
			m.t.Fatalf("a repeat: %+v", *a)
		}
		return
	}
	if s.refunded {
		return
	}
	s.refunded = true
	q.Op = limiter.OpRefund
	enforced, apart := m.o.parties(q.Op, q.Descriptor.User, true)
	m.o.giveBack(enforced, m.o.call(&q, "main"))
	for k := range apart {
		m.o.giveBack(apart[k:k+1], m.o.call(&q, apart[k].mode+apart[k].bucket))
	}
	m.do(&q)
}

func (m *mix) compare(a *decide.Answer, want bool, limits []verdictOf) {
	m.t.Helper()
	var got []verdictOf
	soft, elastic := false, false
	for i := range a.Limits {
		la := &a.Limits[i]
		v := verdictOf{la.Rule, rules.ModeEnforce, la.Decision.Allowed, la.Decision.Remaining, la.Soft, la.Elastic}
		switch {
		case la.Candidate:
			v.mode = decide.ModeCandidate
		case la.Shadow:
			v.mode = rules.ModeShadow
		default:
			soft, elastic = soft || la.Soft, elastic || la.Elastic
		}
		got = append(got, v)
	}
	if diff := cmp.Diff(limits, got, cmp.AllowUnexported(verdictOf{})); diff != "" || a.Allowed() != want ||
		a.Soft != soft || a.Elastic != elastic {
		m.t.Fatalf("allowed %v, want %v; soft %v elastic %v; limits (-want +got):\n%s", a.Verdict, want, a.Soft, a.Elastic,
			diff)
	}
}

// books compares what every bucket holds with the oracle's numbers.
func (m *mix) books() {
	m.t.Helper()
	for _, r := range m.f.sets.Load().Pools() {
		used := m.f.checker.PoolState(m.t.Context(), r).Used
		if used == nil || *used != m.o.spent[poolBucket] {
			m.t.Fatalf("the pool holds %v, want %d", used, m.o.spent[poolBucket])
		}
	}
	for _, user := range []string{"a", "b"} {
		d := match.Descriptor{User: user}
		for _, match := range m.f.sets.Load().Match(&d, 0, m.f.book.now(), nil) {
			m.hold(match.Rule.Rule.Name, user, &match.Rule.Rule, match.Key, match.Limit, "")
			if key, limit, ok := match.Candidate(); ok {
				m.hold(match.Rule.Rule.Name, user, &match.Rule.Rule, key, limit, "candidate of ")
			}
		}
	}
}

func (m *mix) hold(name, user string, r *rules.Rule, key limiter.Key, l limiter.Limit, prefix string) {
	m.t.Helper()
	if r.Scope == "global" {
		user = ""
	}
	l = l.Widen(1000 - l.Capacity()) // so that what is left tells what is held
	bucket := fmt.Sprint(prefix, name, "/", user, "/", kindOf(r.Algorithm))
	if got := 1000 - m.peek(key, l); got != m.o.spent[bucket] {
		m.t.Fatalf("%s holds %d, want %d of %s", bucket, got, m.o.spent[bucket], strings.Join(m.names(), ", "))
	}
}

func (m *mix) names() (out []string) {
	for _, r := range m.o.set {
		out = append(out, fmt.Sprintf("%s %s %d %s %s", r.Name, r.Algorithm, r.Limit, r.Throttle, r.Mode))
	}
	return out
}

func (m *mix) peek(key limiter.Key, l limiter.Limit) int64 {
	m.t.Helper()
	req := limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: key, Limit: l}}}
	var res limiter.Result
	if err := m.f.store.Store.Do(m.t.Context(), &req, &res); err != nil {
		m.t.Fatal(err)
	}
	return res.Limits[0].Remaining
}
