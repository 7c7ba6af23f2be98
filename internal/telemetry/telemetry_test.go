package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// setOf compiles a set of rules with these names.
func setOf(t *testing.T, version int64, names ...string) *match.Set {
	t.Helper()
	var list []rules.Rule
	for i, name := range names {
		r := rules.Rule{ID: int64(i + 1), Name: name, Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
		r.Normalize()
		list = append(list, r)
	}
	set, err := match.Compile(list, version, match.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

type memoryFigures struct{}

func (memoryFigures) Keys() int                          { return 3 }
func (memoryFigures) Evicted() uint64                    { return 2 }
func (memoryFigures) RecordBytes() int64                 { return 77 }
func (memoryFigures) DroppedRecords() (room, key uint64) { return 6, 7 }

func used(t *testing.T) *Metrics {
	t.Helper()
	m := New(Build{Version: "v1", Revision: "abc", Go: "go1"})
	m.MemoryStore(memoryFigures{})
	m.Timings().CalledAtOnce(time.Millisecond, 1)
	m.CountQuestion("forward", "denied")
	m.CountPlainCheck()
	m.CountHTTPCheck()
	m.CountHandOver("slow")
	m.EnvoyCalls([]string{"rls"}, []string{"error"}, []string{"pings"})
	m.CountCall("ratelimit", "denied")
	m.CountFlood("pings")
	m.Ledger(func() decide.LedgerStats {
		return decide.LedgerStats{Spent: 15, Reconciled: 1, Expired: 2, Doubtful: 3, Dropped: 4, Pending: 5}
	})
	d := taken("charges-per-user")
	d.Outcome, d.By, d.Took = "admitted", "open", 3*time.Millisecond
	d.Answer.Verdict, d.Answer.Limits[0].Decision.Allowed = decide.Denied, false
	d.Answer.Limits[0].Decision.BanBegan = true
	m.ObserveDecision(d)
	for _, what := range []string{"deferred", "unknown", "released", "acked", "dropped", "refused"} {
		m.ObserveDeferral(decide.Deferral{Rule: "charges-per-user", What: what, Reason: "full", Count: 1})
	}
	m.ObserveDegraded(decide.Degraded{FailMode: "closed", Cause: limiter.CauseConnection})
	m.ObserveDegraded(decide.Degraded{Cause: limiter.CauseTimeout})
	m.ObserveOverload(true)
	m.ObserveOverload(false)
	m.ObserveOverload(false)
	m.ObserveUnits(decide.Units{Mode: "enforce", Outcome: "admitted", By: "open", Count: 3})
	m.ObserveDoubt(decide.Doubt{Mode: "enforce", Count: 3})
	m.Swapped(setOf(t, 7, "charges-per-user", "logins"))
	shed := taken("reports")
	shed.Answer.Op = limiter.OpCharge // the takes are counted below
	shed.Answer.Verdict, shed.Answer.Limits[0].Decision.Allowed = decide.Shed, false
	shed.Answer.Limits[0].Shed, shed.Answer.Limits[0].Priority = "fleet", "low"
	m.ObserveDecision(shed)
	m.CountDomain("shop", "denied")
	m.ConditionFailed(nil)
	m.ConditionTook(3 * time.Microsecond)
	return m
}

func TestMetrics_CountWhatHappened(t *testing.T) {
	testenv.Served(t, used(t),
		`sluice_decisions_total{mode="enforce",outcome="denied",rule="charges-per-user"} 1`,
		`sluice_bans_total{rule="charges-per-user"} 1`,
		`sluice_shed_total{pool="fleet",priority="low"} 1`,
		`sluice_degraded_total{cause="connection",mode="closed"} 1`,
		`sluice_degraded_total{cause="timeout",mode="none"} 1`,
		`sluice_overloaded_total{how="deny"} 1`, `sluice_overloaded_total{how="wait"} 2`,
		`sluice_check_duration_seconds_count{op="take",outcome="denied"} 1`,
		`sluice_account_requests_total{by="open",outcome="admitted"} 1`,
		`sluice_account_requests_total{by="closed",outcome="denied"} 0`,
		`sluice_account_units_total{by="open",mode="enforce",outcome="admitted"} 3`,
		`sluice_account_doubt_units_total{mode="enforce"} 3`,
		`sluice_local_spent_units_total 15`, `sluice_local_pending_units 5`,
		`sluice_local_settled_units_total{fate="reconciled"} 1`, `sluice_local_settled_units_total{fate="expired"} 2`,
		`sluice_local_settled_units_total{fate="doubtful"} 3`, `sluice_local_settled_units_total{fate="dropped"} 4`,
		`sluice_memory_keys 3`, `sluice_memory_evictions_total 2`, `sluice_request_record_bytes 77`,
		`sluice_request_records_dropped_total{reason="room"} 6`, `sluice_request_records_dropped_total{reason="key"} 7`,
		`sluice_condition_failures_total 1`,
		`sluice_envoy_calls_total{face="ratelimit",result="denied"} 1`,
		`sluice_envoy_calls_total{face="rls",result="error"} 0`,
		`sluice_envoy_domain_calls_total{domain="shop",result="denied"} 1`,
		`sluice_condition_duration_seconds_bucket{le="5e-06"} 1`,
	)
}

// What is given back beside takes is no decision of its rule.
func TestMetrics_RefundsOfDescriptorsDecideNothing(t *testing.T) {
	m := used(t)
	d := taken("given-back")
	d.Answer.Limits[0].Returned = true
	m.ObserveDecision(d)
	if got := testenv.Scrape(t, m); strings.Contains(got, "given-back") {
		t.Error("a refund is a decision of its rule")
	}
}

// taken is a take that passed above the soft limit of one rule.
func taken(rule string) *decide.Decision {
	return &decide.Decision{Took: time.Millisecond, Answer: &decide.Answer{
		Op: limiter.OpTake, Verdict: decide.Allowed,
		Limits: []decide.LimitAnswer{{Rule: rule, Soft: true, Decision: limiter.Decision{Allowed: true}}},
	}}
}

func TestRuleLabels_AreBounded(t *testing.T) {
	m := New(Build{})
	for i := range maxRuleLabels + 50 {
		m.ObserveDecision(taken(fmt.Sprintf("rule-%d", i)))
	}
	m.ObserveDecision(taken("rule-0"))
	got := testenv.Scrape(t, m)
	if n := strings.Count(got, "\nsluice_decisions_total{"); n != maxRuleLabels+1 {
		t.Errorf("%d series, want %d", n, maxRuleLabels+1)
	}
	for _, want := range []string{
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="rule-0"} 2`,
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="other"} 50`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
}

func TestDomainLabels_AreBoundedAndEndWithTheSet(t *testing.T) {
	m := New(Build{})
	for i := range maxDomainLabels + 50 {
		m.CountDomain(fmt.Sprintf("domain-%d", i), "allowed")
	}
	m.CountDomain("domain-0", "allowed")
	got := testenv.Scrape(t, m)
	if n := strings.Count(got, "\nsluice_envoy_domain_calls_total{"); n != maxDomainLabels+1 {
		t.Errorf("%d series, want %d", n, maxDomainLabels+1)
	}
	for _, want := range []string{
		`sluice_envoy_domain_calls_total{domain="domain-0",result="allowed"} 2`,
		`sluice_envoy_domain_calls_total{domain="other",result="allowed"} 50`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("metrics lack %q", want)
		}
	}
	m.Swapped(setOf(t, 1)) // has no domain
	if got := testenv.Scrape(t, m); strings.Contains(got, `domain="domain-0"`) {
		t.Error("the series of a domain without rules are still served")
	}
}

func TestSwapped_EndsTheSeriesOfRulesThatAreGone(t *testing.T) {
	m := New(Build{})
	count := func() {
		for _, rule := range []string{"stays", "goes", rules.DirectRule} {
			m.ObserveDecision(taken(rule))
			for _, what := range []string{"deferred", "unknown", "released", "acked", "dropped", "refused"} {
				m.ObserveDeferral(decide.Deferral{Rule: rule, What: what, Reason: "full", Count: 1})
			}
		}
	}
	m.Swapped(setOf(t, 1, "stays", "goes"))
	count()
	if got := testenv.Scrape(t, m); strings.Count(got, `rule="goes"`) != 8 {
		t.Fatalf("%d series of the rule, want 8", strings.Count(got, `rule="goes"`))
	}
	m.Swapped(setOf(t, 2, "stays"))
	got := testenv.Scrape(t, m)
	if strings.Contains(got, `rule="goes"`) {
		t.Error("the series of a deleted rule are still served")
	}
	for _, rule := range []string{"stays", rules.DirectRule} {
		if n := strings.Count(got, `rule="`+rule+`"`); n != 8 {
			t.Errorf("%d series of %q, want 8", n, rule)
		}
	}
	m.Swapped(setOf(t, 3, "stays", "goes"))
	count()
	if got := testenv.Scrape(t, m); !strings.Contains(got,
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="goes"} 1`+"\n") {
		t.Error("a rule that came back does not count anew from 0")
	}
}

func TestLog_JSONStaysOneObjectALine(t *testing.T) {
	var b bytes.Buffer
	Log(&b, "info", "json").Info("rule refused", "error", "line one\nline two\x00\"}")
	if n := bytes.Count(b.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("%d lines, want 1: %q", n, b.String())
	}
	var v map[string]any
	if err := json.Unmarshal(b.Bytes(), &v); err != nil {
		t.Error(err)
	}
}

func TestLog_KeepsItsLevel(t *testing.T) {
	var b bytes.Buffer
	log := Log(&b, "warn", "text")
	log.Info("quiet")
	log.Warn("loud")
	if got := b.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "loud") {
		t.Errorf("log %q", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	m, d := New(Build{}), taken("charges-per-user")
	d.Outcome, d.By, d.Took = decide.OutcomeAdmitted, decide.ByStore, time.Millisecond
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.ObserveDecision(d)
		}
	})
}
