package main

import (
	"encoding/json"
	"strings"
	"testing"

	"sluice/internal/capacity"
	"sluice/limiter"
)

func TestPlan_KnowsEveryAlgorithm(t *testing.T) {
	for _, a := range limiter.Algorithms() {
		if f := &capacity.Measured; f.KeyBytes[a.String()] == 0 || f.RedisMicros[a.String()] == 0 {
			t.Errorf("nothing is measured of %s", a)
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
	} {
		if code, out, errs := sluice(t, "", args...); code != exitError || errs == "" || out != "" {
			t.Errorf("%v = %d, %q, %q; want an error", args, code, out, errs)
		}
	}
}
