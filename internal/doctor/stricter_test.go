package doctor_test

import (
	"testing"
	"time"

	"sluice/internal/doctor"
	"sluice/rules"
)

func TestStricter(t *testing.T) {
	base := func(edit func(*rules.Rule)) *rules.Rule { r := ruleOf(1, "r", edit); return &r }
	for name, c := range map[string]struct {
		by, of func(*rules.Rule)
		want   bool
	}{
		"lower limit":      {by: func(*rules.Rule) {}, want: true},
		"same limit":       {by: func(r *rules.Rule) { r.Limit = 100 }},
		"every route":      {of: func(r *rules.Rule) { r.Route = ptr("/v1/x") }, by: func(*rules.Rule) {}, want: true},
		"another route":    {of: func(r *rules.Rule) { r.Route = ptr("/v1/x") }, by: at("/v1/y")},
		"route below":      {of: at("/v1/x"), by: at("/v1/*"), want: true},
		"route of /v1":     {of: at("/v1"), by: at("/v1/*"), want: true},
		"a bucket":         {by: func(r *rules.Rule) { r.Algorithm = "gcra" }},
		"not below":        {of: at("/v10/x"), by: at("/v1/*")},
		"with parameters":  {of: at("/v1/x"), by: at("/{a}/*")},
		"fewer routes":     {by: at("/v1/*")},
		"another window":   {by: func(r *rules.Rule) { r.WindowMS = 1000 }},
		"another scope":    {by: func(r *rules.Rule) { r.Scope = "ip" }},
		"a condition":      {by: func(r *rules.Rule) { r.When = ptr(`tier == "free"`) }},
		"a shadow rule":    {by: func(r *rules.Rule) { r.Mode = rules.ModeShadow }},
		"soft":             {by: func(r *rules.Rule) { r.Throttle, r.SoftPercent = "soft", ptr(int64(10)) }},
		"only for a while": {by: func(r *rules.Rule) { r.ActiveUntil = ptr(now.Add(time.Hour)) }},
		"with tiers": {by: func(r *rules.Rule) {
			r.Tiers = map[string]rules.TierLimit{"pro": {Limit: ptr(int64(500))}}
		}},
	} {
		by := ruleOf(2, "by", func(r *rules.Rule) { r.Limit = 99; c.by(r) })
		if got := doctor.Stricter(&by, base(c.of)); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
