package words

import (
	"strings"
	"testing"
	"time"

	"sluice/rules"
)

func worded(edit func(*rules.Rule)) *rules.Rule {
	r := &rules.Rule{Name: "charges", Scope: "user", Route: new("/v1/charges"), Method: new("POST"), Limit: 100, WindowMS: 60_000, IsActive: true}
	if edit != nil {
		edit(r)
	}
	r.Normalize()
	return r
}

func TestSummary_SaysWhatTheRuleDoes(t *testing.T) {
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name string
		edit func(*rules.Rule)
		want string
	}{
		{"plain", nil, "POST requests to /v1/charges of the same user may number 100 per minute. What goes over is denied. While the counters cannot be reached, everything passes."},
		{"everyone", func(r *rules.Rule) { r.Scope, r.Route, r.Method, r.FailMode = "global", nil, nil, rules.FailClosed },
			"Requests on every route, all together, may number 100 per minute. What goes over is denied. While the counters cannot be reached, everything it applies to is denied."},
		{"bucket", func(r *rules.Rule) {
			r.Scope, r.Algorithm, r.Burst, r.FailMode = "user+ip", "token_bucket", new(int64(20)), rules.FailLocal
		},
			"POST requests to /v1/charges of the same user and address may number 100 per minute, at most 20 at once. What goes over is denied. While the counters cannot be reached, each node counts its share by itself."},
		{"leases", func(r *rules.Rule) { r.Algorithm, r.Limit, r.WindowMS = "concurrency", 2, 600_000 },
			"may number 2 at a time; one that is not released ends after 10 minutes."},
		{"weighed", func(r *rules.Rule) { r.WeightField, r.Limit = new("bytes"), 1_000_000 },
			"may spend 1\u202f000\u202f000 units, weighed by the field bytes, per minute."},
		{"soft", func(r *rules.Rule) { r.Throttle, r.SoftPercent = rules.ThrottleSoft, new(int64(20)) },
			"Up to 20% over that passes too, marked as over; what goes beyond is denied."},
		{"elastic", func(r *rules.Rule) {
			r.Throttle, r.ElasticPercent, r.Pool = rules.ThrottleElastic, new(int64(50)), new("shop")
		},
			"Up to 50% over that passes while the pool shop has room; what goes beyond is denied."},
		{"shadow", func(r *rules.Rule) { r.Mode = rules.ModeShadow }, "What goes over is only counted: the rule is on trial (shadow) and denies nothing."},
		{"defer", func(r *rules.Rule) { r.OverLimit = rules.OverLimitDefer }, "What goes over waits in a queue of up to 10\u202f000, for up to 1 hour."},
		{"jitter", func(r *rules.Rule) { r.RetryJitterMS = new(int64(1500)) }, "is denied, and told to wait up to 1\u202f500 ms longer at random."},
		{"tiers", func(r *rules.Rule) {
			r.Tiers = map[string]rules.TierLimit{"gold": {Unlimited: true}, "free": {Limit: new(int64(10))}}
		}, "By tier: free has 10 and gold is not limited."},
		{"schedule", func(r *rules.Rule) {
			r.Schedule = &rules.Schedule{Zone: "Europe/Berlin", Windows: []rules.ScheduleWindow{{Days: []string{"sat", "sun"}, From: "08:00", To: "20:00", Percent: new(int64(50))}, {From: "22:00", To: "06:00", Limit: new(int64(5))}}}
		}, "By the clock of Europe/Berlin: sat, sun from 08:00 to 20:00 50% of the limit; every day from 22:00 to 06:00 5."},
		{"calendar", func(r *rules.Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 0, &rules.Calendar{Every: rules.EveryMonth}
		}, "may number 100 per calendar month of UTC."},
		{"life", func(r *rules.Rule) { r.ActiveFrom = &from }, "It is in force from 2026-11-27 00:00 UTC."},
		{"condition", func(r *rules.Rule) { r.When = new(`tier == "free"`) }, `POST requests to /v1/charges for which tier == "free" holds of the same user`},
		{"report", func(r *rules.Rule) { r.ChargeOn = rules.ChargeOnReport }, "A check spends nothing; only a reported charge does."},
		{"candidate", func(r *rules.Rule) { r.Candidate = &rules.Candidate{Algorithm: "gcra", Limit: new(int64(60))} },
			"A candidate of 60 per minute (gcra) is tried beside it and denies nothing."},
		{"off", func(r *rules.Rule) { r.IsActive = false }, "The rule is off."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Summary(worded(tt.edit)); !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if got := Summary(&rules.Rule{}); got == "" {
		t.Error("nothing is said of an empty rule")
	}
}

func TestLimitWords_AreShort(t *testing.T) {
	for want, edit := range map[string]func(*rules.Rule){
		"100 per minute per user":                        nil,
		"100 per 90 seconds in all":                      func(r *rules.Rule) { r.Scope, r.WindowMS = "global", 90_000 },
		"2 at a time per API key":                        func(r *rules.Rule) { r.Scope, r.Algorithm, r.Limit = "apikey", "concurrency", 2 },
		"100 per minute per tenant, bursts of 5":         func(r *rules.Rule) { r.Scope, r.Algorithm, r.Burst = "attr:tenant", "gcra", new(int64(5)) },
		"100 per calendar week per user":                 func(r *rules.Rule) { r.Algorithm, r.Calendar = "fixed_window", &rules.Calendar{Every: rules.EveryWeek} },
		"1\u202f000\u202f000 per 1\u202f500 ms per user": func(r *rules.Rule) { r.Limit, r.WindowMS = 1_000_000, 1500 },
	} {
		if got := Limit(worded(edit)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
