package envoy

import (
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"sluice/rules"
	"sluice/rules/entries"
)

func TestCalendar_APeriodIsOneUnit(t *testing.T) { bothWays(t, calendarAPeriodIsOneUnit) }

func calendarAPeriodIsOneUnit(t *testing.T, by way) {
	for every, unit := range map[string]ratelimitv3.RateLimitResponse_RateLimit_Unit{
		rules.EveryHour:    ratelimitv3.RateLimitResponse_RateLimit_HOUR,
		rules.EveryDay:     ratelimitv3.RateLimitResponse_RateLimit_DAY,
		rules.EveryWeek:    ratelimitv3.RateLimitResponse_RateLimit_WEEK,
		rules.EveryMonth:   ratelimitv3.RateLimitResponse_RateLimit_MONTH,
		rules.EveryQuarter: ratelimitv3.RateLimitResponse_RateLimit_MONTH, // three of them
		rules.EveryYear:    ratelimitv3.RateLimitResponse_RateLimit_YEAR,
	} {
		multiplier := uint32(0)
		if every == rules.EveryQuarter {
			multiplier = 3
		}
		calendar := func(r *rules.Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 0, &rules.Calendar{Every: every, Zone: "Europe/Berlin"}
		}
		rs := perUser(5, calendar, func(r *rules.Rule) {
			r.Scope, r.Descriptor = "", &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "u"}}}
		})
		sent := descriptorOf("u", "42")
		sent.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 9, Unit: typev3.RateLimitUnit_HOUR}
		byFacts, byEntries := newFixture(t, by, perUser(5, calendar)), newFixture(t, by, rs)
		// A day of 25 hours, in a week of 169 and a month of 745.
		autumn := time.Date(2026, 10, 25, 12, 0, 0, 0, time.UTC).UnixMilli()
		byFacts.now.Store(autumn)
		byEntries.now.Store(autumn)
		for _, step := range []struct {
			f      *fixture
			domain string
			asked  *commonv3.RateLimitDescriptor
			want   ratelimitv3.RateLimitResponse_RateLimit_Unit
		}{
			{byFacts, "api", descriptorOf("u", "42"), unit},
			{byEntries, "shop", descriptorOf("u", "42"), unit},
			{byEntries, "shop", sent, ratelimitv3.RateLimitResponse_RateLimit_HOUR}, // replaces the limit of the rule
		} {
			r, err := step.f.call(step.domain, step.asked)
			if err != nil || len(r.GetStatuses()) != 1 {
				t.Fatalf("%s: %v, %v", every, r, err)
			}
			want := multiplier
			if step.asked == sent {
				want = 0
			}
			if l := r.GetStatuses()[0].GetCurrentLimit(); l.GetUnit() != step.want ||
				l.GetUnitMultiplier().GetValue() != want {
				t.Errorf("%s in %s: got %v, want %s", every, step.domain, l, step.want)
			}
		}
	}
}
