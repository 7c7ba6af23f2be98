package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/capacity"
	"sluice/internal/config"
	"sluice/limiter"
	"sluice/rules"
)

func TestPlan_KnowsEveryAlgorithm(t *testing.T) {
	for _, a := range limiter.Algorithms() {
		if f := &capacity.Measured; f.KeyBytes[a.String()] == 0 || f.RedisMicros[a.String()] == 0 {
			t.Errorf("nothing is measured of %s", a)
		}
		r := &capacity.Measured.Regions
		if a.Traits().Spans() && (r.SumsBytes[a.String()].Own == 0 || r.HearRedis[a.String()] == 0) {
			t.Errorf("nothing is measured of %s with span global", a)
		}
	}
}

func TestPlan_PrintsTableAndJSON(t *testing.T) {
	code, out, errs := sluice(t, "", "plan", "--rps", "50000", "--keys", "10000000")
	if code != exitDone || !strings.Contains(out, "Redis servers") {
		t.Errorf("plan = %d, %q, %q", code, out, errs)
	}
	code, out, errs = sluice(t, "", "plan", "--daily", "86400000", "--peak", "2", "--json")
	var p struct {
		Load struct{ PerSecond float64 }
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != exitDone || p.Load.PerSecond != 2000 {
		t.Errorf("plan --json = %d, %q, %q (%v), want a peak of 2000 a second", code, out, errs, err)
	}
}

func TestPlan_KnowsRegions(t *testing.T) {
	for span, want := range map[string]string{
		rules.SpanRegion:      "25,000 when one is lost",
		rules.SpanGlobal:      "1,000/s of a key × (50 ms + 200 ms) × 2/3, 83.3 % of the limit",
		rules.SpanShares:      "3 intervals of 60 s, 13 s for nodes and clocks, 1200 s in which spent units count",
		rules.SpanGlobalExact: "a round trip, for 67 % of the checks",
	} {
		code, out, errs := sluice(t, "", "plan", "--rps=50000", "--regions=3", "--span="+span, "--window=10m", "--limit=200",
			"--key-rps=1000", "--region-delay=50ms")
		if code != exitDone || !strings.Contains(out, want) {
			t.Errorf("%s: exits %d, want %q in:\n%s%s", span, code, want, out, errs)
		}
	}
	if capacity.MinGlobalWindow != rules.MinGlobalWindow || capacity.MaxRegions != config.MaxRegions {
		t.Error("rules and settings have other bounds of regions than plans")
	}
	if capacity.RegionInterval != config.RegionInterval.Milliseconds() ||
		capacity.ShareInterval != config.RegionShareInterval.Milliseconds() {
		t.Error("regions exchange at other intervals than plans say")
	}
	code, out, errs := sluice(t, "", "plan", "--rps=300", "--regions=2", "--span=global", "--json")
	var p struct {
		Regions struct {
			PerSecond float64 `json:"checks_per_second"`
			OverMS    float64 `json:"over_ms"`
		}
	}
	if err := json.Unmarshal([]byte(out), &p); err != nil || code != exitDone || p.Regions.PerSecond != 150 ||
		p.Regions.OverMS != 140 {
		t.Errorf("plan --json = %d, %q, %q (%v)", code, out, errs, err)
	}
}

func TestPlan_SaysHowLongALogIs(t *testing.T) {
	for args, want := range map[string]string{
		"":                          "624 bytes (a log of 100 entries)",
		"--limit=500":               "2736 bytes (a log of 500 entries)",
		"--limit=500 --entries=100": "624 bytes (a log of 100 entries)",
	} {
		all := append([]string{"plan", "--rps=10", "--keys=10", "--algorithm=sliding_window_log"}, strings.Fields(args)...)
		if code, out, errs := sluice(t, "", all...); code != exitDone || !strings.Contains(out, want) {
			t.Errorf("%s: exits %d, want %q in:\n%s%s", args, code, want, out, errs)
		}
	}
}

func TestPlan_RefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"plan"}, {"plan", "--rps", "1", "--daily", "1"}, {"plan", "--daily", "5", "--peak", "0.5"},
		{"plan", "--rps", "-1"}, {"plan", "--rps", "1", "--algorithm", "magic"}, {"plan", "--rps", "NaN"},
		{"plan", "--rps", "1", "--peak", "0"}, {"plan", "--rps", "1", "--algorithm", "sliding_window_log", "--entries", "-1"},
		{"plan", "--rps", "1", "--regions", "0"}, {"plan", "--rps", "1", "--regions", "51"},
		{"plan", "--rps", "1", "--span", "global"}, {"plan", "--rps", "1", "--key-rps", "5"},
		{"plan", "--rps", "1", "--regions", "2", "--span", "moon"},
		{"plan", "--rps", "1", "--regions", "2", "--region-delay", "0s"},
	} {
		if code, out, errs := sluice(t, "", args...); code != exitError || errs == "" || out != "" {
			t.Errorf("%v = %d, %q, %q; want an error", args, code, out, errs)
		}
	}
}
