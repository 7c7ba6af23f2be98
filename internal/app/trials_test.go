package app

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/history"
	"sluice/limiter"
	"sluice/rules"
)

// TestTrials_OfAShadowRuleCountWhatItWouldReplace: as if the named rules had not applied, on either store.
func TestTrials_OfAShadowRuleCountWhatItWouldReplace(t *testing.T) {
	t.Parallel()
	for store, cfg := range map[string]config.Serve{"memory": settings(t), "redis": sharedSettings(t)} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			n := start(t, cfg)
			begin := time.Now()
			rule := func(name string, limit int, more string) {
				n.create(fmt.Sprintf(`{"name":%q,"scope":"user","algorithm":"fixed_window","window_ms":86400000,"limit":%d%s}`,
					name, limit, more))
			}
			ids := map[string]int64{}
			trial := func(name string, limit int, more string) {
				doc := n.create(fmt.Sprintf(`{"name":%q,"scope":"user","algorithm":"fixed_window","window_ms":86400000,
					"mode":"shadow","route":"/%s","limit":%d%s}`, name, name, limit, more))
				id, _ := doc["id"].(float64)
				ids[name] = int64(id)
			}
			rule("two", 2, "")
			rule("one", 1, `,"route":"/beside"`)
			trial("looser", 4, `,"replaces":["two"]`)
			trial("stricter", 1, `,"replaces":["two"]`)
			trial("beside", 4, `,"replaces":["two"]`)
			trial("absent", 1, `,"replaces":["one"]`)
			trial("broken", 4, `,"replaces":["two"],"when":"1 / fields.n > 0 && 1 % fields.n == 0"`)
			trial("plain", 4, "")
			for name := range ids {
				allowed := 0
				for range 5 {
					if n.check(fmt.Sprintf(`{"user":%q,"route":"/%s"}`, name, name))["allowed"] == true {
						allowed++
					}
				}
				if want := map[bool]int{true: 1, false: 2}[name == "beside"]; allowed != want {
					t.Errorf("%s: %d requests passed, want %d: a shadow rule replaces nothing", name, allowed, want)
				}
			}
			var whole history.Figures
			eventually(t, "the figures of all requests are there", func() bool {
				h := n.figures(url.Values{"from": {begin.Add(-time.Minute).Format(time.RFC3339)}, "step": {"minute"}, "by": {"key"},
					"to": {time.Now().Add(time.Minute).Format(time.RFC3339)}})
				whole = h.sums()[""]
				return whole.Allowed+whole.Denied == int64(5*len(ids))
			})
			if whole.WouldAllow != 2 {
				t.Errorf("%d of all requests would be allowed, want 2", whole.WouldAllow)
			}
			n.stop() // it writes everything
			r := readerOf(t, cfg)
			for name, want := range map[string]history.TrialCounts{
				"looser":   {Denied: 1, NewlyAllowed: 2}, // 2 pass, 4 would
				"stricter": {Denied: 4, NewlyDenied: 1},  // 2 pass, 1 would
				"beside":   {Denied: 1},                  // the rule one allows 1 and stays
				"absent":   {Denied: 4, NewlyDenied: 1},  // the rule two allows 2 and stays
				"broken":   {Denied: 1},                  // a condition that fails replaces nothing
				"plain":    {Denied: 1, NewlyDenied: 1},  // a rule without replaces is compared with nothing
			} {
				got, err := r.Trial(t.Context(), ids[name], []int64{1})
				if err != nil || got.Seen != 5 || got.Compared != 5 || got.Denied != want.Denied ||
					got.NewlyDenied != want.NewlyDenied || got.NewlyAllowed != want.NewlyAllowed {
					t.Errorf("%s: %+v, %v, want %+v of 5", name, got, err, want)
				}
			}
		})
	}
}

// TestTried_AFailModeIsNotCompared: what a fail mode decided on a replaced rule is no decision of that rule.
func TestTried_AFailModeIsNotCompared(t *testing.T) {
	limit := func(name string, known bool, r rules.Rule) decide.LimitAnswer {
		r.Name = name
		return decide.LimitAnswer{Rule: name, Of: &r, Known: known, Shadow: r.Mode == rules.ModeShadow,
			Decision: limiter.Decision{Allowed: true}}
	}
	a := &decide.Answer{Limits: []decide.LimitAnswer{limit("general", false, rules.Rule{}),
		limit("special", true, rules.Rule{Mode: rules.ModeShadow, Replaces: []string{"general"}}),
		limit("other", true, rules.Rule{Mode: rules.ModeShadow, Replaces: []string{"nobody"}}),
		limit("descriptor", true, rules.Rule{Mode: rules.ModeShadow, Replaces: []string{"general"},
			Descriptor: &rules.RuleDescriptor{}})}}
	for i, compared := range map[int]bool{1: false, 2: true, 3: true} {
		if got := tried(a, i); got.Compared != compared {
			t.Errorf("%s: %+v, want compared %v", a.Limits[i].Rule, got, compared)
		}
	}
}
