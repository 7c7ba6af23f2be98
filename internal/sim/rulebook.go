package sim

import (
	"math/rand/v2"
	"strconv"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// rulebook is the rule database: the current rules and their version.
type rulebook struct {
	rules   []rules.Rule
	version int64
	shadows map[string]bool // by id
}

// meterID is the id of the rule whose buckets never drain, and its form in keys.
const (
	meterID     = 1
	meterRuleID = "1"
)

var (
	scopes  = []string{"user", "ip", "global", "user+route", "user+ip"}
	windows = []int64{7, 40, 100, 250, 1000}
	fails   = []string{rules.FailOpen, rules.FailClosed, rules.FailLocal}
)

func newRulebook(r *rand.Rand) *rulebook {
	b := &rulebook{version: 1, shadows: map[string]bool{}}
	b.rules = append(b.rules, meterRule(r))
	for id := int64(meterID + 1); id <= 4+r.Int64N(3); id++ {
		rule := rules.Rule{
			ID: id, Name: "r" + strconv.FormatInt(id, 10), Scope: pick(r, scopes),
			Algorithm: pick(r, limiter.Algorithms()).String(),
			Limit:     1 + r.Int64N(8), WindowMS: pick(r, windows), FailMode: pick(r, fails), IsActive: true,
		}
		if r.IntN(12) == 0 {
			rule.Limit = 0
		}
		if r.IntN(5) == 0 {
			rule.Mode = rules.ModeShadow
			b.shadows[strconv.FormatInt(id, 10)] = true
		}
		details(r, &rule)
		b.rules = append(b.rules, rule)
	}
	return b
}

// meterRule returns a rule whose buckets never drain: a window or log of years, or a bucket
// without a rate.
func meterRule(r *rand.Rand) rules.Rule {
	rule := rules.Rule{
		ID: meterID, Name: "meter", Scope: pick(r, scopes), Algorithm: "fixed_window", Limit: 15 + r.Int64N(60),
		WindowMS: limiter.MaxWindow,
		FailMode: pick(r, fails), IsActive: true,
	}
	switch r.IntN(3) {
	case 0:
		rule.Algorithm = "sliding_window_log"
	case 1:
		rule.Algorithm, rule.Burst, rule.Limit, rule.WindowMS = "token_bucket", ptr(rule.Limit), 0, 1000
	}
	return rule
}

// details sets random values for the settings of the rule's algorithm.
func details(r *rand.Rand, rule *rules.Rule) {
	rule.Burst, rule.Align, rule.AnchorMS, rule.Buckets = nil, nil, nil, nil
	if r.IntN(2) != 0 {
		return
	}
	switch rule.Traits().Setting {
	case limiter.SettingBurst:
		rule.Burst = ptr(1 + r.Int64N(10))
	case limiter.SettingBuckets:
		rule.Buckets = ptr(1 + r.Int64N(min(10, rule.WindowMS)))
	case limiter.SettingAlign:
		if r.IntN(2) == 0 {
			rule.Align = ptr("first_hit")
		} else {
			rule.AnchorMS = ptr(r.Int64N(100) - 50)
		}
	}
}

func ptr[T any](v T) *T { return &v }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// edit changes one rule in a way that keeps its buckets: limit, window, burst, fail mode, or the
// algorithm within its kind.
func (b *rulebook) edit(r *rand.Rand) *rules.Rule {
	b.version++
	rule := &b.rules[r.IntN(len(b.rules))]
	rule.Version++
	switch {
	case r.IntN(5) == 0:
		rule.FailMode = pick(r, fails)
	case rule.ID == meterID && rule.Burst != nil:
		rule.Burst = ptr(15 + r.Int64N(60))
	case rule.ID == meterID:
		rule.Limit = 15 + r.Int64N(60)
	case r.IntN(3) == 0:
		rule.Limit = r.Int64N(9)
	default:
		rule.WindowMS = pick(r, windows)
		if rule.Traits().Kind == limiter.TokenBucket.Kind() {
			rule.Algorithm = pick(r, []limiter.Algorithm{limiter.TokenBucket, limiter.LeakyBucket, limiter.LeakyQueue}).String()
		}
		details(r, rule)
	}
	return rule
}

// compile returns the set of the current rules.
func (b *rulebook) compile() (*match.Set, error) {
	return match.Compile(b.rules, b.version, match.Options{})
}
