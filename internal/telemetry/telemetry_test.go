package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
	"sluice/internal/fleet"
	"sluice/internal/records"
	"sluice/internal/region/exchange"
	"sluice/internal/region/home"
	"sluice/internal/region/sharing"
	"sluice/limiter"
	"sluice/limiter/nearstore"
	"sluice/limiter/redisstore"
	"sluice/rules"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	rec := httptest.NewRecorder()
	m.Handler().ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	body, err := io.ReadAll(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// setOf compiles a set of rules with these names.
func setOf(t *testing.T, version int64, names ...string) *rules.Set {
	t.Helper()
	var list []rules.Rule
	for i, name := range names {
		r := rules.Rule{ID: int64(i + 1), Name: name, Scope: "user", Limit: 5, WindowMS: 1000, IsActive: true}
		r.Normalize()
		list = append(list, r)
	}
	set, err := rules.Compile(list, version, rules.Options{})
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
	at := time.UnixMilli(1_000_000)
	m := New(Build{Version: "v1", Revision: "abc", Go: "go1"}, func() time.Time { return at.Add(90 * time.Second) })
	m.MemoryStore(memoryFigures{})
	log := &records.Account{}
	log.Drop(records.RingFull, 2)
	m.DecisionLog("file", log.Totals, func() time.Duration { return 3 * time.Second })
	m.Webhooks(func() alerts.DeliveryTotals {
		return alerts.DeliveryTotals{Attempts: map[alerts.Result]int64{alerts.ResultGone: 2},
			GivenUp: alerts.GivenUp{TooOld: 3}, Backlog: alerts.Backlog{Waiting: 4, Oldest: 5 * time.Second}}
	})
	m.Disk(func() bool { return true })
	m.Replica(func() bool { return true })
	m.Alerts(func() Alerts {
		return Alerts{Reports: map[string]sense.Count{"key_usage": {Stored: 3, Dropped: 4}}, Waiting: 5,
			Runner: evaluate.RunnerStats{Held: true, Age: time.Second, Events: 6}, Active: func(alerts.Kind) int { return 7 }}
	})
	m.Starvation(func() time.Duration { return 0 })
	m.StatsLag(func() time.Duration { return time.Minute })
	m.Traces(func() (exported, dropped int64) { return 3, 1 })
	m.Timings().CalledAtOnce(time.Millisecond, 1)
	m.CountQuestion("forward", "denied")
	m.CountPlainCheck()
	m.CountHTTPCheck()
	m.CountHandOver("slow")
	m.EnvoyCalls([]string{"rls"}, []string{"error"}, []string{"pings"})
	m.CountCall("ratelimit", "denied")
	m.Refusals([]string{"check"}, []string{"scope", "not_open"})
	m.CountRefused("check", "scope")
	m.CountFlood("pings")
	m.RegionCalls([]string{"us"})("us", "", 80*time.Millisecond)
	m.RegionGiveBacks(func() home.Stats { return home.Stats{Undone: 31, Pending: 32, Lost: 33} })
	m.RegionAnswers(func() home.Answered { return home.Answered{Decided: 34, Failed: 35, Foreign: 36, Invalid: 37} })
	m.RegionShares(func() sharing.Overview {
		return sharing.Overview{Rules: []sharing.RuleShares{{Rule: "r", Limit: 90, Share: 60, Unused: 9}}}
	})
	m.Regions(func() exchange.Overview {
		return exchange.Overview{Waiting: 21, Invalid: 22,
			Rules: []exchange.Estimate{{Rule: "r", OverPercent: 1.5, MaxOverPercent: 2}},
			Peers: []exchange.Status{{Name: "us", CutOff: true, CutTotal: 90 * time.Second, Lags: 1,
				LagP99:    300 * time.Millisecond,
				SkewKnown: true, Skew: -3 * time.Second, LastNews: at, Set: 7, Messages: 5, Failures: 2, Sent: 23, Received: 24,
				Told: 25, Here: exchange.Answer{Applied: 26, Repeated: 27, Shrunk: 28, Unknown: 29}}}}
	})
	m.SettingsDiffer(func() int64 { return 2 })
	m.SecretFile("DATABASE_URL_FILE", func() bool { return true })
	m.SecretFile("REDIS_URL_FILE", func() bool { return false })
	m.TLS(TLS{Expires: func() time.Time { return at }, Failing: func() bool { return true },
		BadHandshakes: func() int64 { return 6 }})
	m.CounterStore(CounterStore{
		Breakers: func() []redisstore.Breaker {
			return []redisstore.Breaker{{Node: "redis:6379", State: redisstore.BreakerOpen, Opened: 4, Refused: 5}}
		},
		Nodes: func() int { return 3 },
		Units: func() decide.LedgerStats {
			return decide.LedgerStats{Spent: 15, Reconciled: 1, Expired: 2, Doubtful: 3, Dropped: 4, Pending: 5}
		},
		Slots: func() redisstore.Stats {
			return redisstore.Stats{Spanning: 9, GiveBacks: 3, GiveBacksPending: 4, GiveBacksLost: 1, Reloads: 2}
		},
	})
	m.Near(func() Near {
		return Near{
			Stats: nearstore.Stats{
				Remembered: 1, Answered: 2, Dropped: 3, Held: 4, Hot: 5, TurnedHot: 6, Leases: 7, Leased: 8, Spent: 9,
				Returned: 10, Lost: 11, Probes: 12,
			},
			Bus: fleet.BusStats{Sent: 13, Received: 14, Lost: 15},
		}
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
	source := m.RuleSource()
	source.Source(FromDatabase)
	source.Source(FromCopy)
	source.Refused(true)
	source.Copy("restored")
	m.Confirmed(at)
	m.Ready(true)
	return m
}

func TestMetrics_CountWhatHappened(t *testing.T) {
	got := scrape(t, used(t))
	for _, want := range []string{
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
		`sluice_set_version 7`, `sluice_set_rules 2`, `sluice_set_age_seconds 90`, `sluice_ready 1`,
		`sluice_set_source{source="copy"} 1`, `sluice_set_source{source="database"} 0`, `sluice_set_refused 1`,
		`sluice_secret_file_failing{setting="DATABASE_URL_FILE"} 1`, `sluice_secret_file_failing{setting="REDIS_URL_FILE"} 0`,
		`sluice_region_cut_off{region="us"} 1`, `sluice_region_cut_off_seconds_total{region="us"} 90`,
		`sluice_region_lag_seconds{region="us"} 0.3`, `sluice_region_clock_ahead_seconds{region="us"} -3`,
		`sluice_region_set_version{region="us"} 7`, `sluice_region_messages_total{region="us",result="taken"} 3`,
		`sluice_region_messages_total{region="us",result="failed"} 2`, `sluice_region_bytes_total{region="us",way="sent"} 23`,
		`sluice_region_bytes_total{region="us",way="received"} 24`, `sluice_region_buckets_total{fate="sent",region="us"} 25`,
		`sluice_region_buckets_total{fate="applied",region="us"} 26`, `sluice_region_buckets_total{fate="shrunk",region="us"} 28`,
		`sluice_region_waiting_buckets 21`, `sluice_region_invalid_messages_total 22`, `sluice_region_over_percent{rule="r"} 1.5`,
		`sluice_region_max_over_percent{rule="r"} 2`,
		`sluice_rules_disk_failing 1`, `sluice_settings_differ 2`,
		`sluice_webhook_attempts_total{result="gone"} 2`, `sluice_webhook_attempts_total{result="delivered"} 0`,
		`sluice_webhook_given_up_total{reason="too_old"} 3`, `sluice_webhook_waiting 4`, `sluice_webhook_oldest_seconds 5`,
		`sluice_rule_copies_total{outcome="restored"} 1`, `sluice_rule_copies_total{outcome="saved"} 0`,
		`sluice_breaker_state{node="redis:6379"} 2`, `sluice_breaker_opened_total{node="redis:6379"} 4`,
		`sluice_breaker_refused_total{node="redis:6379"} 5`, `sluice_live_nodes 3`,
		`sluice_local_spent_units_total 15`, `sluice_local_pending_units 5`,
		`sluice_cluster_spanning_requests_total 9`, `sluice_cluster_give_backs_total 3`,
		`sluice_cluster_give_backs_pending 4`, `sluice_cluster_give_backs_lost_total 1`, `sluice_cluster_reloads_total 2`,
		`sluice_local_settled_units_total{fate="reconciled"} 1`, `sluice_local_settled_units_total{fate="dropped"} 4`,
		`sluice_deny_cache_remembered_total 1`, `sluice_deny_cache_answers_total 2`, `sluice_deny_cache_drops_total 3`,
		`sluice_deny_cache_buckets 4`, `sluice_hot_keys 5`, `sluice_hot_keys_turned_total 6`, `sluice_hot_slices_total 7`,
		`sluice_hot_units_total{fate="leased"} 8`, `sluice_hot_units_total{fate="spent"} 9`,
		`sluice_hot_units_total{fate="returned"} 10`, `sluice_hot_units_total{fate="lost"} 11`,
		`sluice_hot_shard_probes_total 12`, `sluice_forget_total{way="told"} 13`,
		`sluice_forget_total{way="heard"} 14`, `sluice_forget_total{way="lost"} 15`,
		`sluice_memory_keys 3`, `sluice_memory_evictions_total 2`, `sluice_request_record_bytes 77`,
		`sluice_request_records_dropped_total{reason="room"} 6`, `sluice_request_records_dropped_total{reason="key"} 7`,
		`sluice_reload_failures_total{what="rules"} 0`, `sluice_condition_failures_total 1`,
		`sluice_envoy_calls_total{face="ratelimit",result="denied"} 1`,
		`sluice_envoy_calls_total{face="rls",result="error"} 0`,
		`sluice_envoy_domain_calls_total{domain="shop",result="denied"} 1`,
		`sluice_refused_total{endpoint="check",reason="scope"} 1`,
		`sluice_refused_total{endpoint="check",reason="not_open"} 0`,
		`sluice_condition_duration_seconds_bucket{le="5e-06"} 1`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("metrics lack %q", want)
		}
	}
}

// What is given back beside takes is no decision of its rule.
func TestMetrics_RefundsOfDescriptorsDecideNothing(t *testing.T) {
	m := used(t)
	d := taken("given-back")
	d.Answer.Limits[0].Returned = true
	m.ObserveDecision(d)
	if got := scrape(t, m); strings.Contains(got, "given-back") {
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
	m := New(Build{}, time.Now)
	for i := range maxRuleLabels + 50 {
		m.ObserveDecision(taken(fmt.Sprintf("rule-%d", i)))
	}
	m.ObserveDecision(taken("rule-0"))
	got := scrape(t, m)
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
	m := New(Build{}, time.Now)
	for i := range maxDomainLabels + 50 {
		m.CountDomain(fmt.Sprintf("domain-%d", i), "allowed")
	}
	m.CountDomain("domain-0", "allowed")
	got := scrape(t, m)
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
	if got := scrape(t, m); strings.Contains(got, `domain="domain-0"`) {
		t.Error("the series of a domain without rules are still served")
	}
}

func TestSwapped_EndsTheSeriesOfRulesThatAreGone(t *testing.T) {
	m := New(Build{}, time.Now)
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
	if got := scrape(t, m); strings.Count(got, `rule="goes"`) != 8 {
		t.Fatalf("%d series of the rule, want 8", strings.Count(got, `rule="goes"`))
	}
	m.Swapped(setOf(t, 2, "stays"))
	got := scrape(t, m)
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
	if got := scrape(t, m); !strings.Contains(got,
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="goes"} 1`+"\n") {
		t.Error("a rule that came back does not count anew from 0")
	}
}

// docs/metrics.md names exactly the series that the registry serves.
func TestDocs_ListEveryMetric(t *testing.T) {
	doc, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	names := func(re, text string) []string {
		var out []string
		for _, m := range regexp.MustCompile(re).FindAllStringSubmatch(text, -1) {
			out = append(out, m[1])
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	served := names(`(?m)^# TYPE (sluice_\w+) `, scrape(t, used(t)))
	written := names("(?m)^\\| `(sluice_\\w+)", string(doc))
	if !slices.Equal(served, written) {
		t.Errorf("docs/metrics.md lists\n%v\nthe registry serves\n%v", written, served)
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
	m, d := New(Build{}, time.Now), taken("charges-per-user")
	d.Outcome, d.By, d.Took = decide.OutcomeAdmitted, decide.ByStore, time.Millisecond
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			m.ObserveDecision(d)
		}
	})
}
