package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/records"
	"sluice/internal/testenv"
)

// What a caller decides by itself counts as if nodes had decided it: in metrics, figures and the decision log, once.
func TestGrant_WhatItsCallerDecidesCounts(t *testing.T) {
	t.Parallel()
	cfg := recording(t, config.DecisionLogFile)
	cfg.RedisURL.Value = testenv.SharedRedis(t).URL()
	cfg.KeyPrefix = fmt.Sprintf("t%d:", time.Now().UnixNano())
	cfg.LogRate = 0 // denials are recorded nevertheless
	n, begin := start(t, cfg), time.Now()
	n.create(`{"name":"near","scope":"user","route":"/near","limit":1000,"window_ms":86400000,
		"algorithm":"fixed_window","hot_keys":"leased"}`)
	var token string
	eventually(t, "the rule is in force", func() bool {
		_, doc := n.send(http.MethodPost, "/ratelimit/reserve", `{"user":"a","route":"/near","times":400}`)
		token, _ = doc["reservation"].(string)
		return doc["granted"] == 400.0
	})
	settle := func() map[string]any {
		_, doc := n.send(http.MethodPost, "/ratelimit/settle",
			fmt.Sprintf(`{"reservation":%q,"weight":250,"decisions":{"allowed":250,"denied":30}}`, token))
		return doc
	}
	if doc := settle(); doc["refunded"] != 150.0 || doc["remaining"] != 750.0 {
		t.Errorf("settled: %v", doc)
	}
	if doc := settle(); doc["replayed"] != true {
		t.Errorf("settled again: %v", doc)
	}
	for series, want := range map[string]float64{
		`sluice_account_requests_total{by="caller",outcome="admitted"}`:            250,
		`sluice_account_requests_total{by="caller",outcome="denied"}`:              30,
		`sluice_decisions_total{mode="enforce",outcome="allowed",rule="near"}`:     250,
		`sluice_decisions_total{mode="enforce",outcome="denied",rule="near"}`:      30,
		`sluice_account_units_total{by="store",mode="enforce",outcome="admitted"}`: 400,
		`sluice_account_units_total{by="store",mode="enforce",outcome="refunded"}`: 150,
		`sluice_account_requests_total{by="store",outcome="admitted"}`:             0,
		`sluice_check_duration_seconds_count{op="take",outcome="allowed"}`:         1,
		`sluice_check_duration_seconds_count{op="settle",outcome="allowed"}`:       2,
	} {
		if got := n.metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	eventually(t, "the figures have them", func() bool {
		sums := n.figures(url.Values{"rule": {"near"}, "from": {begin.Add(-time.Minute).Format(time.RFC3339)},
			"to": {time.Now().Add(time.Minute).Format(time.RFC3339)}, "step": {"second"}})
		of := sums.sums()["near"]
		return of.Allowed == 250 && of.Denied == 30
	})
	n.stop()
	var logged []records.Event
	for _, line := range linesIn(t, filepath.Join(cfg.DataDir, "decisions")) {
		var e records.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if e.By != "" {
			logged = append(logged, e)
		}
	}
	if len(logged) != 1 || logged[0].By != "caller" ||
		*logged[0].Decisions != (records.Decisions{Allowed: 250, Denied: 30}) || logged[0].Rule != "near" ||
		logged[0].Op != "settle" {
		t.Errorf("the decision log has %+v", logged)
	}
}

// What a caller denies by itself after a denied reserve counts once for each report, and the reserve counts nowhere.
func TestGrant_WhatItsCallerDeniesCounts(t *testing.T) {
	t.Parallel()
	cfg := recording(t, config.DecisionLogFile)
	cfg.RedisURL.Value = testenv.SharedRedis(t).URL()
	cfg.KeyPrefix = fmt.Sprintf("t%d:", time.Now().UnixNano())
	cfg.LogRate = 0
	n, begin := start(t, cfg), time.Now()
	n.create(`{"name":"used-up","scope":"user","route":"/near","limit":10,"window_ms":86400000,
		"algorithm":"fixed_window","hot_keys":"leased"}`)
	reserve := func() map[string]any {
		_, doc := n.send(http.MethodPost, "/ratelimit/reserve", `{"user":"a","route":"/near","times":400}`)
		return doc
	}
	eventually(t, "the rule is in force", func() bool { return reserve()["granted"] == 10.0 })
	token, _ := reserve()["reservation"].(string)
	const reports, each = 30, 50 // as many as would be folded if each were a denial
	for range reports {
		code, doc := n.send(http.MethodPost, "/ratelimit/reserve/batch", fmt.Sprintf(
			`{"settlements":[{"reservation":%q,"decisions":{"allowed":0,"denied":%d}}]}`, token, each))
		if code != http.StatusOK {
			t.Fatalf("%d: %v", code, doc)
		}
	}
	for series, want := range map[string]float64{
		`sluice_account_requests_total{by="caller",outcome="denied"}`:              reports * each,
		`sluice_account_requests_total{by="limit",outcome="denied"}`:               0,
		`sluice_decisions_total{mode="enforce",outcome="denied",rule="used-up"}`:   reports * each,
		`sluice_account_units_total{by="caller",mode="enforce",outcome="denied"}`:  reports * each,
		`sluice_account_units_total{by="limit",mode="enforce",outcome="denied"}`:   0,
		`sluice_account_units_total{by="store",mode="enforce",outcome="admitted"}`: 10,
	} {
		if got := n.metric(series); got != want {
			t.Errorf("%s is %v, want %v", series, got, want)
		}
	}
	eventually(t, "the figures have them", func() bool {
		sums := n.figures(url.Values{"rule": {"used-up"}, "from": {begin.Add(-time.Minute).Format(time.RFC3339)},
			"to": {time.Now().Add(time.Minute).Format(time.RFC3339)}, "step": {"second"}})
		return sums.sums()["used-up"].Denied == reports*each
	})
	n.stop()
	logged := int64(0)
	for _, line := range linesIn(t, filepath.Join(cfg.DataDir, "decisions")) {
		var e records.Event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		switch {
		case e.By == "caller" && e.Rule == "used-up" && !e.Allowed && e.Folded == 0:
			logged += e.Decisions.Denied
		case !e.Allowed:
			t.Errorf("the decision log has %+v", e)
		}
	}
	if logged != reports*each {
		t.Errorf("the decision log has %d denials, want %d", logged, reports*each)
	}
}
