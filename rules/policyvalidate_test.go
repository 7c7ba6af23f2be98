package rules

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/limiter"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/rules/when"
)

func TestValidatePolicy_AcceptsWhatBelongsTogether(t *testing.T) {
	n := ptr[int64]
	for name, edit := range map[string]func(*Rule){
		"soft":       func(r *Rule) { r.Throttle, r.SoftPercent = "soft", n(1000) },
		"elastic":    func(r *Rule) { r.Throttle, r.ElasticPercent, r.Pool = "elastic", n(10_000), ptr("shop") },
		"pool, hard": func(r *Rule) { r.Pool, r.Priority = ptr("shop"), ptr("critical") },
		"tiers":      func(r *Rule) { r.Tiers = map[string]TierLimit{"Pro Plus": {Limit: n(0)}, "é": {Unlimited: true}} },
		"tier with burst": func(r *Rule) {
			r.Algorithm, r.Tiers = "gcra", map[string]TierLimit{"pro": {Limit: n(5), Burst: n(50)}}
		},
		"whole day": func(r *Rule) {
			r.Schedule = &Schedule{Windows: []ScheduleWindow{{From: "00:00", To: "24:00", Percent: n(0)}}}
		},
		"from is to": func(r *Rule) {
			r.Schedule = &Schedule{Windows: []ScheduleWindow{{From: "12:00", To: "12:00", Limit: n(1)}}}
		},
		"days in capitals": func(r *Rule) {
			r.Schedule = &Schedule{Windows: []ScheduleWindow{{Days: []string{"Sun", "MON"}, From: "12:00", To: "13:00",
				Limit: n(1)}}}
		},
		"calendar": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 0, &Calendar{Every: "week", AnchorDay: 7}
		},
		"calendar, year": func(r *Rule) {
			r.Algorithm, r.WindowMS = "fixed_window", 0
			r.Calendar = &Calendar{Every: "year", AnchorDay: 29, AnchorMonth: 2, At: "23:59"}
		},
		"calendar, hour": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 3_600_000, &Calendar{Every: "hour"}
		},
		"calendar, align": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Align, r.Calendar = "fixed_window", 0, ptr("calendar"), &Calendar{Every: "day"}
		},
		"nominal window": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", nominalMonth, &Calendar{Every: "month"}
		},
		"life": func(r *Rule) {
			r.ActiveFrom, r.ActiveUntil = ptr(noon), ptr(noon.Add(time.Millisecond))
		},
		"report":    func(r *Rule) { r.ChargeOn = "report" },
		"defer":     func(r *Rule) { r.OverLimit = "defer" },
		"candidate": func(r *Rule) { r.Candidate = &Candidate{Limit: n(1)} },
		"ban":       banned(Ban{After: 20, WithinMS: 60_000, ForMS: 600_000}),
		"ban, reports": func(r *Rule) {
			banned(Ban{After: 1_000_000, WithinMS: 1, ForMS: limiter.MaxWindow, Grow: 10, MostMS: limiter.MaxWindow})(r)
			r.ChargeOn, r.FailMode = "report", "local"
		},
		"jitter": func(r *Rule) { r.RetryJitterMS = n(0) },
		"denial": func(r *Rule) { r.Denial, r.Mode = &Denial{Status: 402, Retry: "never"}, "shadow" },
		"unit":   func(r *Rule) { r.Counts, r.Unit, r.UnitScale = new("money"), new("µ$"), n(MaxUnitScale) },
		"slots":  func(r *Rule) { r.Algorithm, r.Counts = "concurrency", new("concurrency") },
		"delay": func(r *Rule) {
			r.Delay, r.TarpitMS, r.Mode = &Delay{After: n(limiter.MaxExact), StepMS: MaxDelay, MostMS: 1}, n(MaxTarpit), "shadow"
		},
		"tarpit of slots": func(r *Rule) { r.Algorithm, r.TarpitMS = "concurrency", n(0) },
		"warn":            func(r *Rule) { r.Warn = &Warn{Percent: 100, Set: map[string]string{"model": ""}} },
		"hidden":          func(r *Rule) { r.Denial, r.Hidden = &Denial{}, true },
		"kept": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.KeepPeriods = "fixed_window", limiter.MinPeriod, n(MaxKeepPeriods)
		},
		"kept months": func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Calendar, r.KeepPeriods = "fixed_window", 0, &Calendar{Every: "month"}, n(13)
		},
		"meter": func(r *Rule) {
			r.Algorithm, r.Limit, r.Unlimited, r.FailMode = "fixed_window", 0, true, "local"
		},
		"notify": func(r *Rule) { r.NotifyPercent = []int64{100, 1, 80, 99} },
		"global": func(r *Rule) {
			r.Span, r.WindowMS, r.MaxOverPercent, r.Cold, r.CutOff = "global", 10_000, n(100), new("open"), new("closed")
		},
		"divided":           func(r *Rule) { r.Span, r.WindowMS = "local_then_global", 1 },
		"divided queue":     func(r *Rule) { r.Algorithm, r.Span = "leaky_queue", "local_then_global" },
		"global and leased": func(r *Rule) { r.Span, r.WindowMS, r.HotKeys = "global", 60_000, "leased" },
		"hot":               func(r *Rule) { r.HotKeys, r.HotRaisePercent = "sharded", n(400) },
		"foreign candidate": func(r *Rule) {
			r.Algorithm, r.Burst, r.Candidate = "gcra", n(7), &Candidate{Limit: n(1), Algorithm: "fixed_window"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(1, edit)
			r.Normalize()
			if err := Validate(&r); err != nil {
				t.Error(err)
			}
		})
	}
}

// Contradictions are refused with the field named, never ignored.
func TestValidatePolicy_NamesTheFieldAtFault(t *testing.T) {
	n := ptr[int64]
	windows := func(ws ...ScheduleWindow) func(*Rule) {
		return func(r *Rule) { r.Schedule = &Schedule{Windows: ws} }
	}
	many := make([]ScheduleWindow, MaxScheduleWindows+1)
	tiers := map[string]TierLimit{}
	for i := range MaxTiers + 1 {
		tiers[fmt.Sprint(i)] = TierLimit{Unlimited: true}
	}
	monthly := func(edit func(*Rule)) func(*Rule) {
		return func(r *Rule) {
			r.Algorithm, r.WindowMS, r.Calendar = "fixed_window", 0, &Calendar{Every: "month"}
			edit(r)
		}
	}
	for name, c := range map[string]struct {
		field string
		edit  func(*Rule)
	}{
		"soft without percent":   {"soft_percent", func(r *Rule) { r.Throttle = "soft" }},
		"soft percent 0":         {"soft_percent", func(r *Rule) { r.Throttle, r.SoftPercent = "soft", n(0) }},
		"soft percent too large": {"soft_percent", func(r *Rule) { r.Throttle, r.SoftPercent = "soft", n(1001) }},
		"soft and elastic": {"elastic_percent", func(r *Rule) {
			r.Throttle, r.SoftPercent, r.ElasticPercent = "soft",
				n(1), n(1)
		}},
		"elastic and soft": {"soft_percent", func(r *Rule) {
			r.Throttle, r.SoftPercent, r.ElasticPercent,
				r.Pool = "elastic", n(1), n(1), ptr("p")
		}},
		"elastic without percent": {"elastic_percent", func(r *Rule) { r.Throttle, r.Pool = "elastic", ptr("p") }},
		"elastic without pool":    {"pool", func(r *Rule) { r.Throttle, r.ElasticPercent = "elastic", n(1) }},
		"elastic percent too large": {"elastic_percent", func(r *Rule) {
			r.Throttle, r.ElasticPercent, r.Pool = "elastic",
				n(10_001), ptr("p")
		}},
		"soft queue": {"throttle", func(r *Rule) {
			r.Algorithm, r.Throttle, r.SoftPercent = "leaky_queue",
				"soft", n(1)
		}},
		"soft concurrency": {"throttle", func(r *Rule) {
			r.Algorithm, r.Throttle, r.SoftPercent = "concurrency",
				"soft", n(1)
		}},
		"pool of concurrency": {"pool", func(r *Rule) { r.Algorithm, r.Pool = "concurrency", ptr("p") }},
		"bad pool":            {"pool", func(r *Rule) { r.Pool = ptr("A b") }},
		"priority alone":      {"priority", func(r *Rule) { r.Priority = ptr("low") }},
		"unknown priority":    {"priority", func(r *Rule) { r.Pool, r.Priority = ptr("p"), ptr("high") }},
		"too many tiers":      {"tiers", func(r *Rule) { r.Tiers = tiers }},
		"unnamed tier":        {`tiers.""`, func(r *Rule) { r.Tiers = map[string]TierLimit{"": {Limit: n(1)}} }},
		"tier with blanks":    {`tiers." a"`, func(r *Rule) { r.Tiers = map[string]TierLimit{" a": {Limit: n(1)}} }},
		"tier without limit":  {"tiers.a.limit", func(r *Rule) { r.Tiers = map[string]TierLimit{"a": {}} }},
		"tier of both": {"tiers.a",
			func(r *Rule) { r.Tiers = map[string]TierLimit{"a": {Limit: n(1), Unlimited: true}} }},
		"tier burst on a window": {"tiers.a.burst",
			func(r *Rule) { r.Tiers = map[string]TierLimit{"a": {Limit: n(1), Burst: n(1)}} }},
		"tier too large": {"tiers.a.limit",
			func(r *Rule) { r.Tiers = map[string]TierLimit{"a": {Limit: n(math.MaxInt64)}} }},
		"kept windows that slide": {"keep_periods", func(r *Rule) { r.WindowMS, r.KeepPeriods = limiter.MinPeriod, n(1) }},
		"kept first hits":         {"keep_periods", kept(func(r *Rule) { r.Align = ptr("first_hit") })},
		"kept minutes":            {"window_ms", kept(func(r *Rule) { r.WindowMS = 60_000 })},
		"kept globally":           {"span", kept(func(r *Rule) { r.Span = "local_then_global" })},
		"kept leases":             {"hot_keys", kept(func(r *Rule) { r.HotKeys = "leased" })},
		"no period":               {"keep_periods", kept(func(r *Rule) { r.KeepPeriods = n(0) })},
		"periods":                 {"keep_periods", kept(func(r *Rule) { r.KeepPeriods = n(MaxKeepPeriods + 1) })},
		"kept nothing": {"keep_periods", kept(func(r *Rule) {
			r.Scope, r.Descriptor, r.Unlimited = "", &RuleDescriptor{"a", []entries.Element{{Key: "b"}}}, true
		})},
		"meter that slides":    {"algorithm", meter(func(r *Rule) { r.Algorithm = "gcra" })},
		"meter with limit":     {"limit", meter(func(r *Rule) { r.Limit = 1 })},
		"meter that closes":    {"fail_mode", meter(func(r *Rule) { r.FailMode = "closed" })},
		"soft meter":           {"throttle", meter(func(r *Rule) { r.Throttle, r.SoftPercent = "soft", n(1) })},
		"meter in a pool":      {"pool", meter(func(r *Rule) { r.Pool = ptr("p") })},
		"meter with tiers":     {"tiers", meter(func(r *Rule) { r.Tiers = map[string]TierLimit{"a": {Limit: n(1)}} })},
		"meter that defers":    {"over_limit", meter(func(r *Rule) { r.OverLimit = "defer" })},
		"meter with candidate": {"candidate", meter(func(r *Rule) { r.Candidate = &Candidate{Limit: n(1)} })},
		"meter with ban":       {"ban", meter(banned(Ban{After: 20, WithinMS: 60_000, ForMS: 600_000}))},
		"meter with denial":    {"denial", meter(func(r *Rule) { r.Denial = &Denial{Status: 402} })},
		"meter with message":   {"message", meter(func(r *Rule) { r.Message = ptr("no") })},
		"meter that notifies":  {"notify_percent", meter(func(r *Rule) { r.NotifyPercent = []int64{1} })},
		"shadow of a meter":    {"mode", meter(func(r *Rule) { r.Mode = "shadow" })},
		"meter of regions":     {"span", meter(func(r *Rule) { r.Span = "global_exact" })},
		"no windows":           {"schedule.windows", windows()},
		"too many windows":     {"schedule.windows", windows(many...)},
		"unknown zone": {"schedule.zone", func(r *Rule) {
			windows(ScheduleWindow{From: "01:00", To: "02:00", Percent: n(1)})(r)
			r.Schedule.Zone = "Mars/Olympus"
		}},
		"local zone": {"schedule.zone", func(r *Rule) {
			windows(ScheduleWindow{From: "01:00", To: "02:00", Percent: n(1)})(r)
			r.Schedule.Zone = "Local"
		}},
		"zone climbing": {"schedule.zone", func(r *Rule) {
			windows(ScheduleWindow{From: "01:00", To: "02:00", Percent: n(1)})(r)
			r.Schedule.Zone = "../../etc/passwd"
		}},
		"from 24:00": {"schedule.windows[0].from", windows(ScheduleWindow{From: "24:00", To: "02:00", Percent: n(1)})},
		"from 9:00":  {"schedule.windows[0].from", windows(ScheduleWindow{From: "9:00", To: "12:00", Percent: n(1)})},
		"from 09:60": {"schedule.windows[0].from", windows(ScheduleWindow{From: "09:60", To: "12:00", Percent: n(1)})},
		"to 24:01":   {"schedule.windows[0].to", windows(ScheduleWindow{From: "09:00", To: "24:01", Percent: n(1)})},
		"unknown day": {"schedule.windows[0].days",
			windows(ScheduleWindow{Days: []string{"someday"}, From: "09:00", To: "10:00", Percent: n(1)})},
		"day twice": {"schedule.windows[0].days",
			windows(ScheduleWindow{Days: []string{"mon", "mon"}, From: "09:00", To: "10:00", Percent: n(1)})},
		"window of nothing": {"schedule.windows[0].percent", windows(ScheduleWindow{From: "09:00", To: "10:00"})},
		"window of both": {"schedule.windows[0]",
			windows(ScheduleWindow{From: "09:00", To: "10:00", Percent: n(1), Limit: n(1)})},
		"percent too large": {"schedule.windows[0].percent",
			windows(ScheduleWindow{From: "09:00", To: "10:00", Percent: n(1001)})},
		"burst on a window": {"schedule.windows[0].burst",
			windows(ScheduleWindow{From: "09:00", To: "10:00", Limit: n(1), Burst: n(1)})},
		"product too large": {"schedule.windows[0].percent", func(r *Rule) {
			windows(ScheduleWindow{From: "09:00", To: "10:00", Percent: n(1000)})(r)
			r.Limit = 2_000_000_000_000
		}},
		"calendar of another algorithm": {"calendar", func(r *Rule) {
			r.WindowMS, r.Calendar = 0,
				&Calendar{Every: "month"}
		}},
		"unknown period": {"calendar.every",
			monthly(func(r *Rule) { r.Calendar.Every, r.WindowMS = "decade", 1000 })},
		"day with anchor": {"calendar.anchor_day",
			monthly(func(r *Rule) { r.Calendar.Every, r.Calendar.AnchorDay = "day", 1 })},
		"hour with anchor": {"calendar.anchor_day",
			monthly(func(r *Rule) { r.Calendar = &Calendar{Every: "hour", AnchorDay: 1} })},
		"hour with a time": {"calendar.at", monthly(func(r *Rule) { r.Calendar = &Calendar{Every: "hour", At: "05:30"} })},
		"month of a month": {"calendar.anchor_month", monthly(func(r *Rule) { r.Calendar.AnchorMonth = 1 })},
		"13th month": {"calendar.anchor_month",
			monthly(func(r *Rule) { r.Calendar = &Calendar{Every: "year", AnchorMonth: 13} })},
		"32nd of a quarter": {"calendar.anchor_day",
			monthly(func(r *Rule) { r.Calendar = &Calendar{Every: "quarter", AnchorDay: 32} })},
		"no such time": {"calendar.at", monthly(func(r *Rule) { r.Calendar.At = "24:00" })},
		"half a time":  {"calendar.at", monthly(func(r *Rule) { r.Calendar.At = "5:30" })},
		"eighth weekday": {"calendar.anchor_day",
			monthly(func(r *Rule) { r.Calendar.Every, r.Calendar.AnchorDay = "week", 8 })},
		"32nd":                   {"calendar.anchor_day", monthly(func(r *Rule) { r.Calendar.AnchorDay = 32 })},
		"calendar zone":          {"calendar.zone", monthly(func(r *Rule) { r.Calendar.Zone = "Local" })},
		"calendar and first hit": {"align", monthly(func(r *Rule) { r.Align = ptr("first_hit") })},
		"calendar and anchor":    {"anchor_ms", monthly(func(r *Rule) { r.AnchorMS = n(0) })},
		"calendar and window":    {"window_ms", monthly(func(r *Rule) { r.WindowMS = 60_000 })},
		"life of nothing": {"active_until", func(r *Rule) {
			r.ActiveFrom, r.ActiveUntil = ptr(noon),
				ptr(noon)
		}},
		"year 10000": {"active_until",
			func(r *Rule) { r.ActiveUntil = ptr(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)) }},
		"unknown charge_on":      {"charge_on", func(r *Rule) { r.ChargeOn = "success" }},
		"reported concurrency":   {"charge_on", func(r *Rule) { r.Algorithm, r.ChargeOn = "concurrency", "report" }},
		"unknown over_limit":     {"over_limit", func(r *Rule) { r.OverLimit = "queue" }},
		"defer a report":         {"over_limit", func(r *Rule) { r.ChargeOn, r.OverLimit = "report", "defer" }},
		"defer concurrency":      {"over_limit", func(r *Rule) { r.Algorithm, r.OverLimit = "concurrency", "defer" }},
		"defer a shadow":         {"over_limit", func(r *Rule) { r.Mode, r.OverLimit = "shadow", "defer" }},
		"defer bounds alone":     {"defer", func(r *Rule) { r.Defer = &Defer{MaxItems: 1, MaxAgeMS: 1000} }},
		"defer of nothing alone": {"defer", func(r *Rule) { r.Defer = &Defer{} }},
		"defer too many": {"defer.max_items", func(r *Rule) {
			r.OverLimit, r.Defer = "defer",
				&Defer{MaxItems: 1_000_001}
		}},
		"defer too short": {"defer.max_age_ms", func(r *Rule) {
			r.OverLimit, r.Defer = "defer",
				&Defer{MaxAgeMS: 999}
		}},
		"candidate without limit": {"candidate.limit", func(r *Rule) { r.Candidate = &Candidate{} }},
		"candidate of a shadow": {"candidate", func(r *Rule) {
			r.Mode, r.Candidate = "shadow",
				&Candidate{Limit: n(1)}
		}},
		"candidate burst on a window": {"candidate.burst",
			func(r *Rule) { r.Candidate = &Candidate{Limit: n(1), Burst: n(1)} }},
		"candidate of magic": {"candidate.algorithm",
			func(r *Rule) { r.Candidate = &Candidate{Limit: n(1), Algorithm: "magic"} }},
		"candidate of leases": {"candidate",
			func(r *Rule) { r.Candidate = &Candidate{Limit: n(1), Algorithm: "concurrency"} }},
		"ban without after":    {"ban.after", banned(Ban{WithinMS: 1000, ForMS: 1000})},
		"ban without within":   {"ban.within_ms", banned(Ban{After: 1, ForMS: 1000})},
		"ban without length":   {"ban.for_ms", banned(Ban{After: 1, WithinMS: 1000, MostMS: 5})},
		"ban after too many":   {"ban.after", banned(Ban{After: 1_000_001, WithinMS: 1000, ForMS: 1000})},
		"ban within too long":  {"ban.within_ms", banned(Ban{After: 1, WithinMS: limiter.MaxWindow + 1, ForMS: 1000})},
		"ban too long":         {"ban.for_ms", banned(Ban{After: 1, WithinMS: 1000, ForMS: limiter.MaxWindow + 1})},
		"ban growing too fast": {"ban.grow", banned(Ban{After: 1, WithinMS: 1000, ForMS: 1000, Grow: 11})},
		"ban shrinking":        {"ban.grow", banned(Ban{After: 1, WithinMS: 1000, ForMS: 1000, Grow: -1})},
		"ban of less":          {"ban.most_ms", banned(Ban{After: 1, WithinMS: 1000, ForMS: 1000, MostMS: 999})},
		"ban of too much": {"ban.most_ms",
			banned(Ban{After: 1, WithinMS: 1000, ForMS: 1000, MostMS: limiter.MaxWindow + 1})},
		"ban of concurrency": {"ban", banned(someBan, func(r *Rule) { r.Algorithm = "concurrency" })},
		"ban of a shadow":    {"ban", banned(someBan, func(r *Rule) { r.Mode = "shadow" })},
		"ban of leased keys": {"ban", banned(someBan, func(r *Rule) { r.HotKeys = "leased" })},
		"ban of shards":      {"ban", banned(someBan, func(r *Rule) { r.HotKeys = "sharded" })},
		"ban and elastic": {"ban", banned(someBan, func(r *Rule) {
			r.Throttle, r.ElasticPercent, r.Pool = "elastic", n(10), ptr("p")
		})},
		"ban and queue":        {"ban", banned(someBan, func(r *Rule) { r.OverLimit = "defer" })},
		"ban of a quota":       {"ban", banned(someBan, describe, func(r *Rule) { r.Quota = true })},
		"ban of nothing":       {"ban", banned(someBan, describe, func(r *Rule) { r.Unlimited, r.Limit = true, 0 })},
		"denial of 404":        {"denial.status", func(r *Rule) { r.Denial = &Denial{Status: 404} }},
		"denial without words": {"denial.retry", func(r *Rule) { r.Denial = &Denial{Retry: "later"} }},
		"denial and defer":     {"denial", func(r *Rule) { r.Denial, r.OverLimit = &Denial{}, "defer" }},
		"denial, unlimited": {"denial", func(r *Rule) {
			r.Denial, r.Unlimited, r.Scope = &Denial{}, true, ""
			r.Descriptor = &RuleDescriptor{Domain: "d", Entries: []entries.Element{{Key: "k"}}}
		}},
		"jitter of a denial that never ends": {"retry_jitter_ms", func(r *Rule) {
			r.Denial, r.RetryJitterMS = &Denial{Retry: "never"}, n(1)
		}},
		"unknown kind":        {"counts", func(r *Rule) { r.Counts = new("bytes") }},
		"tokens at a time":    {"counts", func(r *Rule) { r.Counts, r.Algorithm = new("tokens"), "concurrency" }},
		"slots of a window":   {"counts", func(r *Rule) { r.Counts = new("concurrency") }},
		"scale of nothing":    {"unit_scale", func(r *Rule) { r.UnitScale = n(10) }},
		"odd scale":           {"unit_scale", func(r *Rule) { r.Unit, r.UnitScale = new("$"), n(60) }},
		"scale 0":             {"unit_scale", func(r *Rule) { r.Unit, r.UnitScale = new("$"), n(0) }},
		"long unit":           {"unit", func(r *Rule) { r.Unit = new("millions of dollars") }},
		"delay after nothing": {"delay.after", func(r *Rule) { r.Delay = &Delay{StepMS: 1} }},
		"delay without step":  {"delay.step_ms", func(r *Rule) { r.Delay = &Delay{After: n(1)} }},
		"delay after -1":      {"delay.after", func(r *Rule) { r.Delay = &Delay{After: n(-1), StepMS: 1} }},
		"long step":           {"delay.step_ms", func(r *Rule) { r.Delay = &Delay{After: n(1), StepMS: MaxDelay + 1} }},
		"long delay":          {"delay.most_ms", func(r *Rule) { r.Delay = &Delay{n(1), 1, MaxDelay + 1} }},
		"delay of a queue": {"delay", func(r *Rule) {
			r.Algorithm, r.Delay = "leaky_queue", &Delay{After: n(1), StepMS: 1}
		}},
		"delay of slots": {"delay", func(r *Rule) {
			r.Algorithm, r.Delay = "concurrency", &Delay{After: n(1), StepMS: 1}
		}},
		"delay of a report": {"delay", func(r *Rule) {
			r.ChargeOn, r.Delay = "report", &Delay{After: n(1), StepMS: 1}
		}},
		"delay of hot keys": {"hot_keys", func(r *Rule) {
			r.HotKeys, r.Delay = "sharded", &Delay{After: n(1), StepMS: 1}
		}},
		"hidden delay":  {"hidden", func(r *Rule) { r.Hidden, r.Delay = true, &Delay{After: n(1), StepMS: 1} }},
		"hidden tarpit": {"hidden", func(r *Rule) { r.Hidden, r.TarpitMS = true, n(1) }},
		"long tarpit":   {"tarpit_ms", func(r *Rule) { r.TarpitMS = n(MaxTarpit + 1) }},
		"tarpit of a queue": {"tarpit_ms", func(r *Rule) {
			r.OverLimit, r.TarpitMS = "defer", n(1)
		}},
		"warn of nothing": {"warn.set", func(r *Rule) { r.Warn = &Warn{Percent: 1} }},
		"warn at 101": {"warn.percent", func(r *Rule) {
			r.Warn = &Warn{Percent: 101, Set: map[string]string{"a": ""}}
		}},
		"warn of no name": {`warn.set."a b"`, func(r *Rule) {
			r.Warn = &Warn{Percent: 1, Set: map[string]string{"a b": ""}}
		}},
		"long warn": {"warn.set.a", func(r *Rule) {
			r.Warn = &Warn{Percent: 1, Set: map[string]string{"a": strings.Repeat("b", 256)}}
		}},
		"warn of a shadow": {"warn", func(r *Rule) {
			r.Mode, r.Warn = "shadow", &Warn{Percent: 1, Set: map[string]string{"a": "b"}}
		}},
		"hidden message":     {"message", func(r *Rule) { r.Hidden, r.Message = true, new("no") }},
		"hidden concurrency": {"hidden", func(r *Rule) { r.Hidden, r.Algorithm = true, "concurrency" }},
		"hidden queue":       {"hidden", func(r *Rule) { r.Hidden, r.Algorithm = true, "leaky_queue" }},
		"jitter too long":    {"retry_jitter_ms", func(r *Rule) { r.RetryJitterMS = n(3_600_001) }},
		"notify at 0":        {"notify_percent[0]", func(r *Rule) { r.NotifyPercent = []int64{0} }},
		"notify above":       {"notify_percent[1]", func(r *Rule) { r.NotifyPercent = []int64{80, 101} }},
		"notify twice":       {"notify_percent[2]", func(r *Rule) { r.NotifyPercent = []int64{80, 90, 80} }},
		"notify often":       {"notify_percent", func(r *Rule) { r.NotifyPercent = []int64{1, 2, 3, 4, 5} }},
		"unknown span":       {"span", func(r *Rule) { r.Span = "planet" }},
		"exact and leased":   {"hot_keys", func(r *Rule) { r.Span, r.HotKeys = "global_exact", "leased" }},
		"exact and sharded":  {"hot_keys", func(r *Rule) { r.Span, r.HotKeys = "global_exact", "sharded" }},
		"exact of nothing": {"span", func(r *Rule) {
			describe(r)
			r.Span, r.Unlimited, r.Limit = "global_exact", true, 0
		}},
		"exact and cold":     {"cold", func(r *Rule) { r.Span, r.Cold = "global_exact", new("open") }},
		"exact and cut off":  {"cut_off", func(r *Rule) { r.Span, r.CutOff = "global_exact", new("alone") }},
		"exact and over":     {"max_over_percent", func(r *Rule) { r.Span, r.MaxOverPercent = "global_exact", n(2) }},
		"global slots":       {"span", func(r *Rule) { r.Algorithm, r.Span, r.WindowMS = "concurrency", "global", 60_000 }},
		"global queue":       {"span", func(r *Rule) { r.Algorithm, r.Span, r.WindowMS = "leaky_queue", "global", 60_000 }},
		"global and sharded": {"hot_keys", func(r *Rule) { r.Span, r.WindowMS, r.HotKeys = "global", 60_000, "sharded" }},
		"global and short":   {"window_ms", func(r *Rule) { r.Span, r.WindowMS = "global", 9999 }},
		"global and a queue on trial": {"candidate.algorithm", func(r *Rule) {
			r.Span, r.WindowMS, r.Candidate = "global", 60_000, &Candidate{Algorithm: "leaky_queue", Limit: n(5)}
		}},
		"global and short on trial": {"candidate.window_ms", func(r *Rule) {
			r.Span, r.WindowMS, r.Candidate = "global", 60_000, &Candidate{Limit: n(5), WindowMS: n(1000)}
		}},
		"divided and nothing on trial": {"candidate.limit", func(r *Rule) {
			r.Span, r.Candidate = "local_then_global", &Candidate{Limit: n(0)}
		}},
		"over of a region":    {"max_over_percent", func(r *Rule) { r.MaxOverPercent = n(2) }},
		"divided slots":       {"span", func(r *Rule) { r.Algorithm, r.Span = "concurrency", "local_then_global" }},
		"divided nothing":     {"span", func(r *Rule) { r.Limit, r.Span = 0, "local_then_global" }},
		"divided and sharded": {"hot_keys", func(r *Rule) { r.HotKeys, r.Span = "sharded", "local_then_global" }},
		"divided and cut off": {"cut_off", func(r *Rule) { r.CutOff, r.Span = new("share"), "local_then_global" }},
		"over 0": {"max_over_percent", func(r *Rule) {
			r.Span, r.WindowMS, r.MaxOverPercent = "global", 60_000, n(0)
		}},
		"cold region":         {"cold", func(r *Rule) { r.Cold = new("open") }},
		"unknown cold":        {"cold", func(r *Rule) { r.Span, r.WindowMS, r.Cold = "global", 60_000, new("shut") }},
		"cut off of a region": {"cut_off", func(r *Rule) { r.CutOff = new("share") }},
		"unknown overload":    {"overload", func(r *Rule) { r.Overload = new("pass") }},
		"unknown cut off":     {"cut_off", func(r *Rule) { r.Span, r.WindowMS, r.CutOff = "global", 60_000, new("open") }},
		"unknown hot_keys":    {"hot_keys", func(r *Rule) { r.HotKeys = "warm" }},
		"hot log": {"hot_keys", func(r *Rule) {
			r.Algorithm, r.HotKeys = "sliding_window_log",
				"leased"
		}},
		"raise an exact one": {"hot_raise_percent", func(r *Rule) { r.HotRaisePercent = n(10) }},
		"raise too far": {"hot_raise_percent", func(r *Rule) {
			r.HotKeys, r.HotRaisePercent = "leased",
				n(401)
		}},
		"long condition": {"when",
			func(r *Rule) { r.When = ptr(strings.Repeat(" ", 8) + strings.Repeat("a", when.MaxBytes+1)) }},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule(1, c.edit)
			r.Normalize()
			var ve *field.ValidationError
			if err := Validate(&r); !errors.As(err, &ve) || len(ve.Fields) != 1 || ve.Fields[0].Field != c.field ||
				ve.Fields[0].Message == "" {
				t.Errorf("got %v, want one error of %s", err, c.field)
			}
		})
	}
}

// A refusal of a span names each span that the rule may have, and no other.
func TestValidate_ARefusedSpanNamesTheOthers(t *testing.T) {
	spans := []string{SpanRegion, SpanGlobal, SpanShares, SpanGlobalExact}
	for name, edit := range map[string]func(*Rule){
		"a short window": func(r *Rule) { r.Span, r.WindowMS = SpanGlobal, 1000 },
		"a queue":        func(r *Rule) { r.Span, r.WindowMS, r.Algorithm = SpanGlobal, 60_000, "leaky_queue" },
		"slots":          func(r *Rule) { r.Span, r.WindowMS, r.Algorithm = SpanGlobal, 60_000, "concurrency" },
		"divided slots":  func(r *Rule) { r.Span, r.Algorithm = SpanShares, "concurrency" },
	} {
		r := rule(1, edit)
		r.Normalize()
		var ve *field.ValidationError
		if err := Validate(&r); !errors.As(err, &ve) || len(ve.Fields) != 1 {
			t.Fatalf("%s: got %v, want one error", name, err)
		}
		words := strings.FieldsFunc(ve.Fields[0].Message, func(c rune) bool { return strings.ContainsRune(" ,:", c) })
		for _, span := range spans {
			if span == r.Span {
				continue
			}
			other := r
			other.Span = span
			if fits := Validate(&other) == nil; fits != slices.Contains(words, span) {
				t.Errorf("%s: span %s fits: %v, but the refusal says %q", name, span, fits, ve.Fields[0].Message)
			}
		}
	}
}

// someBan is a valid ban.
var someBan = Ban{After: 3, WithinMS: 1000, ForMS: 1000}

// banned adds a ban to a rule, and changes it further.
func banned(b Ban, edits ...func(*Rule)) func(*Rule) {
	return func(r *Rule) {
		r.Ban = &b
		for _, edit := range edits {
			edit(r)
		}
	}
}

// describe makes a rule one for descriptors.
func describe(r *Rule) {
	r.Scope, r.Route, r.Method = "", nil, nil
	r.Descriptor = &RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "user"}}}
}

func TestValidatePool_NamesTheFieldAtFault(t *testing.T) {
	good := NewPool()
	good.Name, good.Limit, good.WindowMS = "shop", 10, 1000
	if err := ValidatePool(&good); err != nil {
		t.Fatal(err)
	}
	for member, edit := range map[string]func(*Pool){
		"name": func(p *Pool) { p.Name = "Shop" }, "limit": func(p *Pool) { p.Limit = -1 },
		"window_ms":      func(p *Pool) { p.WindowMS = 0 },
		"description":    func(p *Pool) { p.Description = "a\nb" },
		"normal_percent": func(p *Pool) { p.NormalPercent = 101 }, "low_percent": func(p *Pool) { p.LowPercent = 81 },
	} {
		p := good
		edit(&p)
		var ve *field.ValidationError
		if err := ValidatePool(&p); !errors.As(err, &ve) || len(ve.Fields) != 1 || ve.Fields[0].Field != member {
			t.Errorf("got %v, want one error of %s", err, member)
		}
	}
}

// kept edits a rule whose periods are kept.
func kept(edit func(*Rule)) func(*Rule) {
	return func(r *Rule) {
		r.Algorithm, r.WindowMS, r.KeepPeriods = "fixed_window", limiter.MinPeriod, new(int64(13))
		edit(r)
	}
}

// meter edits an unlimited rule with a scope.
func meter(edit func(*Rule)) func(*Rule) {
	return func(r *Rule) {
		r.Algorithm, r.Limit, r.Unlimited = "fixed_window", 0, true
		edit(r)
	}
}
