package ruleedit_test

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/field"
	"sluice/web/ruleedit"
	"sluice/web/webtest"
)

// policies are rules with every field somewhere.
func policies() []rules.Rule {
	text, n := func(s string) *string { return &s }, func(n int64) *int64 { return &n }
	from := time.Date(2026, 11, 27, 8, 30, 0, 500_000_000, time.UTC)
	until := from.Add(time.Hour)
	return []rules.Rule{
		{Name: "soft", Scope: "user+ip", Limit: 7, WindowMS: 1500, Throttle: rules.ThrottleSoft, SoftPercent: n(20),
			RetryJitterMS: n(2500), NotifyPercent: []int64{80, 100}, When: text(`tier == "a"`), ActiveFrom: &from, ActiveUntil: &until},
		{Name: "world", Scope: "user", Limit: 7, WindowMS: 60_000, Span: "global", MaxOverPercent: n(5), Cold: text("open"),
			CutOff: text("alone"), Overload: text("deny")},
		{Name: "hosts", Scope: "user+host", Limit: 7, WindowMS: 1500, Host: text("*.example.com"),
			When: text(`cidr(ip, "10.0.0.0/8") && host != "a.example.com"`)},
		{Name: "elastic", Scope: "apikey", Limit: 7, WindowMS: 60_000, Throttle: rules.ThrottleElastic,
			ElasticPercent: n(150), Pool: text("shop"), Priority: text("low"), HotKeys: "sharded", HotRaisePercent: n(50)},
		{Name: "tiers", Scope: "user", Algorithm: "token_bucket", Limit: 10, WindowMS: 1000, Burst: n(5),
			Tiers: map[string]rules.TierLimit{"free": {Limit: n(1)}, "gold": {Limit: n(100), Burst: n(200)},
				"a b": {Unlimited: true}}},
		{Name: "schedule", Scope: "global", Limit: 100, WindowMS: 86_400_000,
			Schedule: &rules.Schedule{Zone: "Europe/Berlin",
				Windows: []rules.ScheduleWindow{{Days: []string{"sat", "sun"}, From: "08:00", To: "24:00", Percent: n(0)},
					{From: "22:00", To: "06:00", Limit: n(5)}}}},
		{Name: "calendar", Scope: "user", Algorithm: "fixed_window", Limit: 1_000_000,
			Calendar: &rules.Calendar{Every: "year", Zone: "Asia/Tokyo", AnchorDay: 31, AnchorMonth: 12, At: "05:30"},
			Replaces: []string{"everyone", "search"}},
		{Name: "report", Scope: "user", Limit: 5, WindowMS: 1, ChargeOn: "report", WeightField: text("tokens"),
			FailMode: "closed", Ban: &rules.Ban{After: 20, WithinMS: 60_000, ForMS: 600_001, Grow: 2, MostMS: 86_400_000}},
		{Name: "slow", Scope: "user", Limit: 5, WindowMS: 1, TarpitMS: n(2000),
			Delay: &rules.Delay{After: n(0), StepMS: 100, MostMS: 1500}},
		{Name: "told", Scope: "user", Limit: 5, WindowMS: 1, Hidden: true,
			Warn:   &rules.Warn{Percent: 90, Set: map[string]string{"model": "small", "a": "= b"}},
			Counts: text("money"), Unit: text("$"),
			UnitScale: n(100), Denial: &rules.Denial{Status: 402, Retry: "never"}},
		{Name: "defer", Scope: "user", Limit: 5, WindowMS: 604_800_000, OverLimit: "defer",
			Defer: &rules.Defer{MaxItems: 5, MaxAgeMS: 1001}},
		{Name: "candidate", Scope: "user", Algorithm: "fixed_window", Align: text("first_hit"), Limit: 5, WindowMS: 1000,
			Candidate: &rules.Candidate{Algorithm: "sliding_window_buckets", Limit: n(4), WindowMS: n(90_000), Buckets: n(30)}},
		{Name: "anchored", Scope: "user", Algorithm: "fixed_window", AnchorMS: n(-5), Limit: 5, WindowMS: 1000,
			Candidate: &rules.Candidate{Limit: n(4), Burst: nil, Align: text("calendar"), AnchorMS: n(7)}},
		{Name: "descriptor", Algorithm: "fixed_window", Limit: 5, WindowMS: 1000, Addend: rules.AddendCharge, Quota: true,
			ShareThreshold: true, Replaces: []string{"a", "b-c"},
			Metadata: map[string]string{"a=b": "c=d", "e": "", "f": " %41\n"},
			Descriptor: &rules.RuleDescriptor{Domain: " the shop", Entries: []entries.Element{{Key: "user"},
				{Key: "path", Pattern: "/v1/*"}, {Key: "a", Pattern: "~b*", Shared: true}, {Key: "c", Pattern: "~*"},
				{Key: "a=b~c", Value: "= d ~%3d\t "}, {Key: "%", Pattern: "~~*"}, {Key: " ", Value: "漢字\u00a0"}}}},
		{Name: "unlimited", Unlimited: true, WindowMS: 1000,
			Descriptor: &rules.RuleDescriptor{Domain: "d", Entries: []entries.Element{{Key: "user", Value: "root"}}}},
	}
}

func TestRuleForm_ReadsBackEveryRule(t *testing.T) {
	for _, r := range append(policies(), webtest.SampleRules()...) {
		r.Normalize()
		if err := rules.Validate(&r); err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		got, errs := ruleedit.RuleOf(ruleedit.ValuesOf(&r))
		if len(errs) > 0 {
			t.Errorf("%s: %v", r.Name, errs)
		}
		for _, c := range rules.Diff(&r, &got) {
			t.Errorf("%s: %s was %v, is %v", r.Name, c.Field, c.Old, c.New)
		}
	}
}

func TestRuleForm_ShowsInvisibleCharactersAndKeepsThem(t *testing.T) {
	const hidden = "a\u202eb\u200bc\u2066\n"
	r := rules.Rule{Name: "a", Limit: 1, WindowMS: 1000, Metadata: map[string]string{hidden: hidden},
		Descriptor: &rules.RuleDescriptor{Domain: hidden, Entries: []entries.Element{{Key: hidden, Value: hidden},
			{Key: hidden, Pattern: hidden + "*"}}}}
	r.Normalize()
	form := ruleedit.ValuesOf(&r)
	for _, name := range []string{"descriptor.domain", "descriptor.entries", "metadata"} {
		if got := form.Get(name); strings.ContainsAny(got, "\u202e\u200b\u2066") || !strings.Contains(got, "a%E2%80%AEb") {
			t.Errorf("%s shows %q", name, got)
		}
	}
	got, errs := ruleedit.RuleOf(form)
	if changes := rules.Diff(&r, &got); len(errs) > 0 || len(changes) > 0 {
		t.Errorf("it came back with %v and %v", errs, changes)
	}
}

// Fields of the other kind are hidden, so what they hold does not count.
func TestRuleForm_HasOneKind(t *testing.T) {
	form := url.Values{
		"kind": {"descriptor"}, "name": {"a"}, "scope": {"user"}, "route": {"/a"}, "method": {"GET"}, "when": {"weight > 1"},
		"tiers[0].name": {"free"}, "tiers[0].limit": {"1"}, "limit": {"5"}, "window_ms": {"1s"},
		"descriptor.domain": {"shop"}, "descriptor.entries": {"user\n\n path = /a b \nplan~*-x\nteam~~*\n"}, "quota": {"on"},
	}
	r, errs := ruleedit.RuleOf(form)
	want := []entries.Element{{Key: "user"}, {Key: "path", Value: "/a b"}, {Key: "plan", Pattern: "*-x"},
		{Key: "team", Pattern: "*", Shared: true}}
	if len(errs) > 0 || rules.Validate(&r) != nil || !r.Quota || !slices.Equal(r.Descriptor.Entries, want) {
		t.Errorf("got %+v, %v, %v", r.Descriptor, errs, rules.Validate(&r))
	}
	for _, kind := range []string{"facts", "", "other"} {
		form.Set("kind", kind)
		r, errs := ruleedit.RuleOf(form)
		if len(errs) > 0 || rules.Validate(&r) != nil || r.Descriptor != nil || r.Quota || r.Scope != "user" ||
			len(r.Tiers) != 1 {
			t.Errorf("kind %q: %+v, %v, %v", kind, r, errs, rules.Validate(&r))
		}
	}
}

func TestRuleForm_NamesTheLineOfADescriptor(t *testing.T) {
	for _, c := range []struct{ field, value, wrong, want string }{
		{"descriptor.domain", "", "descriptor.domain", "must have 1 to 255 bytes"},
		{"descriptor.entries", "", "descriptor.entries", "must be a list of 1 to 32 entries"},
		{"descriptor.entries", "user\n=a", "descriptor.entries", "line 2: key must have 1 to 255 bytes"},
		{"descriptor.entries", "user~a", "descriptor.entries",
			"line 1: pattern must contain *, which stands for any text; use value for an exact text"},
		{"replaces", "b\nB b", "replaces", "line 2: must be the name of a rule: 1 to 63 of a-z, 0-9, '.', '_' and '-', " +
			"beginning with a letter or digit"},
		{"metadata", "team", "metadata", "must have one name=value per line, each name once"},
		{"metadata", "a=b\na=c", "metadata", "must have one name=value per line, each name once"},
		{"notify_percent", "80, 0", "notify_percent", "must be between 1 and 100"},
		{"notify_percent", "80, many", "notify_percent", "must be whole numbers such as 80, 100"},
		{"limit", "", "limit", "is required"},
	} {
		r := rules.Rule{Name: "a", Limit: 1, WindowMS: 1000,
			Descriptor: &rules.RuleDescriptor{Domain: "d", Entries: []entries.Element{{Key: "user"}}}}
		r.Normalize()
		form := ruleedit.ValuesOf(&r)
		form.Set(c.field, c.value)
		got, errs := ruleedit.RuleOf(form)
		if err := rules.Validate(&got); len(errs) == 0 && err != nil {
			var invalid *field.ValidationError
			if errors.As(err, &invalid) {
				errs = ruleedit.ToFormNames(form, invalid.Fields)
			}
		}
		if len(errs) != 1 || errs[0].Field != c.wrong || errs[0].Message != c.want {
			t.Errorf("%s = %q: got %+v", c.field, c.value, errs)
		}
	}
}

func TestRuleForm_NamesWhatItCannotRead(t *testing.T) {
	r := rules.Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000}
	r.Normalize()
	for field, bad := range map[string]string{
		"limit": "many", "window_ms": "1e3", "burst": "1.5", "active_from": "tomorrow",
		"retry_jitter_ms": "99999999999999999",
		"candidate.limit": "x", "tiers[0].limit": "x", "schedule.windows[0].percent": "half", "defer.max_items": "x",
		"anchor_ms": "x", "ban.for_ms": "long", "ban.grow": "0",
	} {
		form := ruleedit.ValuesOf(&r)
		if strings.HasPrefix(field, "ban.") {
			form.Set("ban.after", "3")
			form.Set("ban.within_ms", "1")
			form.Set("ban.for_ms", "1")
		}
		form.Set(field, bad)
		form.Set("retry_jitter_ms.unit", "week")
		if _, errs := ruleedit.RuleOf(form); len(errs) != 1 || errs[0].Field != field {
			t.Errorf("%s = %s: %v", field, bad, errs)
		}
	}
	form := ruleedit.ValuesOf(&r)
	form.Del("window_ms")
	if _, errs := ruleedit.RuleOf(form); len(errs) != 1 || errs[0].Field != "window_ms" {
		t.Errorf("without a window: %v", errs)
	}
	form.Set("window_ms", "5")
	form.Set("window_ms.unit", "fortnight")
	for _, limit := range []string{"1000000", "1,000,000", "1 000\u202f000"} {
		form.Set("limit", limit)
		if got, errs := ruleedit.RuleOf(form); len(errs) > 0 || got.WindowMS != 5 || got.Limit != 1_000_000 {
			t.Errorf("limit %s with an unknown unit: %v, %d, %d", limit, errs, got.WindowMS, got.Limit)
		}
	}
	for _, limit := range []string{"1,5", "1,0000", "1.000", ",100"} {
		form.Set("limit", limit)
		if _, errs := ruleedit.RuleOf(form); len(errs) != 1 || errs[0].Field != "limit" {
			t.Errorf("limit %s: %v, want an error", limit, errs)
		}
	}
}

func TestRuleForm_ReadsLengthsOfTimeAsPeopleWriteThem(t *testing.T) {
	r := rules.Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000}
	r.Normalize()
	for text, want := range map[string]int64{
		"10s": 10_000, "1m": 60_000, "1m30s": 90_000, "2 h": 7_200_000, "1 Day": 86_400_000, "1w": 604_800_000, "250ms": 250,
		"1h 5min": 3_900_000, "3": 180_000,
	} {
		form := ruleedit.ValuesOf(&r)
		form.Set("window_ms", text)
		form.Set("window_ms.unit", "minute")
		if got, errs := ruleedit.RuleOf(form); len(errs) > 0 || got.WindowMS != want {
			t.Errorf("%s: %d ms, %v; want %d", text, got.WindowMS, errs, want)
		}
	}
	for _, text := range []string{"s", "1.5h", "10s5", "1fortnight", "-1s", "1s-", "99999999999w",
		"9000000000000000ms9000000000000000ms", "９s"} {
		form := ruleedit.ValuesOf(&r)
		form.Set("window_ms", text)
		if _, errs := ruleedit.RuleOf(form); len(errs) != 1 || errs[0].Field != "window_ms" {
			t.Errorf("%s: %v", text, errs)
		}
	}
}

func TestRuleForm_RefusesWhatWouldBeIgnored(t *testing.T) {
	r := rules.Rule{Name: "a", Scope: "user", Limit: 1, WindowMS: 1000}
	r.Normalize()
	for name, c := range map[string]struct{ field, value, want string }{
		"a zone without a calendar":   {"calendar.zone", "Europe/Berlin", "calendar.every"},
		"a day without a calendar":    {"calendar.anchor_day", "3", "calendar.every"},
		"a zone without a schedule":   {"schedule.zone", "Europe/Berlin", "schedule.zone"},
		"a length without a queue":    {"defer.max_items", "5", "defer.max_items"},
		"an age without a queue":      {"defer.max_age_ms", "5", "defer.max_age_ms"},
		"a percentage without a soft": {"soft_percent", "5", "soft_percent"},
		"a priority without a pool":   {"priority", "low", "priority"},
	} {
		form := ruleedit.ValuesOf(&r)
		form.Set(c.field, c.value)
		got, errs := ruleedit.RuleOf(form)
		if err := rules.Validate(&got); len(errs) == 0 && err != nil {
			var invalid *field.ValidationError
			if errors.As(err, &invalid) {
				errs = invalid.Fields
			}
		}
		if len(errs) != 1 || errs[0].Field != c.want {
			t.Errorf("%s: %v, want one error of %s", name, errs, c.want)
		}
	}
}
