package words

import (
	"strings"
	"testing"
	"time"

	"sluice/rules"
	"sluice/rules/entries"
)

// rule is a rule of 100 POST requests per minute and user to /v1/charges, after an edit.
func rule(edit func(*rules.Rule)) *rules.Rule {
	r := &rules.Rule{
		Name: "charges", Scope: "user", Route: new("/v1/charges"), Method: new("POST"), Limit: 100, WindowMS: 60_000,
		IsActive: true,
	}
	if edit != nil {
		edit(r)
	}
	r.Normalize()
	return r
}

// descriptor makes it a rule for descriptors of the domain shop.
func descriptor(list ...entries.Element) func(*rules.Rule) {
	return func(r *rules.Rule) {
		r.Scope, r.Route, r.Method = "", nil, nil
		r.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: list}
	}
}

func TestSummary_DescribesDescriptors(t *testing.T) {
	path, user := entries.Element{Key: "path", Value: "/pay"}, entries.Element{Key: "user"}
	file := entries.Element{Key: "file", Pattern: "/a/*"}
	const rest = "; the rest are denied."
	const open = " If Redis is unreachable, all of these requests pass."
	for _, tt := range []struct {
		want string
		list []entries.Element
		edit func(*rules.Rule)
	}{
		{"Each user may send 100 requests per minute that Envoy describes as shop: path=/pay, user" + rest + open,
			[]entries.Element{path, user}, nil},
		{"All clients together may send 1 request per minute that Envoy describes as shop: path=/pay" + rest + open,
			[]entries.Element{path}, func(r *rules.Rule) { r.Limit = 1 }},
		{"Each combination of file and user may have 100 requests that Envoy describes as shop: file=/a/*, user in " +
			"progress at a time" + rest + " A request that is not released stops counting after 1 minute." + open,
			[]entries.Element{file, user}, func(r *rules.Rule) { r.Algorithm = "concurrency" }},
		{"Requests that Envoy describes as shop: user are not limited.", []entries.Element{user},
			func(r *rules.Rule) { r.Unlimited = true }},
		{"Each user may send 100 requests per minute that Envoy describes as shop: file=/a/*, user" + rest +
			" All values of file that fit the pattern share one limit." +
			" As a quota, it denies a call only if all quotas of the call are used up." +
			" An amount that Envoy sends is counted in full, even if it does not fit." +
			" In a call to which it applies, it replaces a and b. Envoy receives its metadata with requests that pass." + open,
			[]entries.Element{file, user}, func(r *rules.Rule) {
				r.ShareThreshold, r.Quota, r.Addend = true, true, "charge"
				r.Replaces, r.Metadata = []string{"a", "b"}, map[string]string{"plan": "gold"}
			}},
	} {
		r := rule(func(r *rules.Rule) {
			descriptor(tt.list...)(r)
			if tt.edit != nil {
				tt.edit(r)
			}
		})
		if err := rules.Validate(r); err != nil {
			t.Errorf("%s: %v", tt.want, err)
		}
		if got := Summary(r); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestSummary_DescribesTheRule(t *testing.T) {
	const (
		denied = "; the rest are denied."
		plain  = "Each user may send 100 POST requests per minute to /v1/charges" + denied
		open   = " If Redis is unreachable, all of these requests pass."
	)
	from := time.Date(2026, 11, 27, 0, 0, 0, 0, time.UTC)
	until := from.AddDate(0, 0, 3)
	tests := []struct {
		name string
		edit func(*rules.Rule)
		want string
	}{
		{"plain", nil, plain + open},
		{"per second and closed", func(r *rules.Rule) {
			r.Limit, r.WindowMS, r.Route, r.FailMode = 10, 1000, new("/payments"), rules.FailClosed
		}, "Each user may send 10 POST requests per second to /payments" + denied +
			" If Redis is unreachable, all of these requests are denied."},
		{"one request", func(r *rules.Rule) { r.Limit = 1 },
			"Each user may send 1 POST request per minute to /v1/charges" + denied + open},
		{"local", func(r *rules.Rule) { r.FailMode = rules.FailLocal },
			plain + " If Redis is unreachable, each node enforces its share of the limit."},

		{"denied at once", func(r *rules.Rule) { r.Overload = new("deny") },
			plain + open + " When more requests arrive than Redis can decide, the excess is denied after the store timeout."},
		{"waiting", func(r *rules.Rule) { r.Overload = new("wait") }, plain + open +
			" When more requests arrive than Redis can decide, the excess waits as long as its callers do, and is then denied."},

		{"global without a route or a method", func(r *rules.Rule) { r.Scope, r.Route, r.Method = "global", nil, nil },
			"All clients together may send 100 requests per minute across all routes" + denied + open},
		{"by IP address", func(r *rules.Rule) { r.Scope = "ip" },
			"Each IP address may send 100 POST requests per minute to /v1/charges" + denied + open},
		{"by API key and attribute", func(r *rules.Rule) { r.Scope = "apikey+attr:tenant" },
			"Each combination of API key and tenant may send 100 POST requests per minute to /v1/charges" + denied + open},
		{"by user and route", func(r *rules.Rule) { r.Scope, r.Route, r.Method = "user+route", nil, nil },
			"Each user may send 100 requests per minute to each route" + denied + open},
		{"by route alone", func(r *rules.Rule) { r.Scope, r.Route = "route", new("/v1/files/*") },
			"All clients together may send 100 POST requests per minute to each route that matches /v1/files/*" + denied + open},
		{"by user and method", func(r *rules.Rule) { r.Scope, r.Method = "user+method", nil },
			"Each user may send 100 requests per minute to /v1/charges, counted per method" + denied + open},
		{"host", func(r *rules.Rule) { r.Host = new("*.example.com") },
			"Each user may send 100 POST requests per minute to /v1/charges at *.example.com" + denied + open},
		{"by host and method", func(r *rules.Rule) { r.Scope, r.Route, r.Method = "method+host", nil, nil },
			"All clients together may send 100 requests per minute across all routes, counted per method and host" +
				denied + open},
		{"condition", func(r *rules.Rule) { r.When = new(`tier == "free"`) },
			`Each user may send 100 POST requests per minute to /v1/charges, if tier == "free"; the rest are denied.` + open},

		{"burst", func(r *rules.Rule) { r.Algorithm, r.Burst = "token_bucket", new(int64(20)) },
			"Each user may send 100 POST requests per minute to /v1/charges, in bursts of up to 20" + denied + open},
		{"leaky queue", func(r *rules.Rule) { r.Algorithm, r.Burst = "leaky_queue", new(int64(20)) },
			"Each user may send 100 POST requests per minute to /v1/charges, in bursts of up to 20, " +
				"evenly spaced by delaying early requests" + denied + open},
		{"concurrency", func(r *rules.Rule) { r.Algorithm, r.Limit, r.WindowMS = "concurrency", 2, 600_000 },
			"Each user may have 2 POST requests to /v1/charges in progress at a time" + denied +
				" A request that is not released stops counting after 10 minutes." + open},
		{"weighted", func(r *rules.Rule) { r.WeightField, r.Limit = new("bytes"), 1_000_000 },
			"Each user may spend 1,000,000 units per minute on POST requests to /v1/charges, " +
				"weighted by the field bytes" + denied + open},
		{"weighted concurrency", func(r *rules.Rule) {
			r.Algorithm, r.WeightField, r.WindowMS = "concurrency", new("seats"), 60_000
		}, "Each user may hold 100 units at a time with POST requests to /v1/charges, weighted by the field seats" + denied +
			" A request that is not released stops counting after 1 minute." + open},
		{"calendar from a time of day", func(r *rules.Rule) {
			r.Algorithm, r.WindowMS = "fixed_window", 0
			r.Calendar = &rules.Calendar{Every: rules.EveryQuarter, Zone: "UTC", At: "05:30"}
		}, "Each user may send 100 POST requests per calendar quarter (UTC, from 05:30) to /v1/charges" + denied + open},
		{"calendar", func(r *rules.Rule) {
			r.Algorithm, r.WindowMS = "fixed_window", 0
			r.Calendar = &rules.Calendar{Every: rules.EveryMonth, Zone: "Europe/Berlin"}
		}, "Each user may send 100 POST requests per calendar month (Europe/Berlin) to /v1/charges" + denied + open},

		{"soft", func(r *rules.Rule) { r.Throttle, r.SoftPercent = rules.ThrottleSoft, new(int64(20)) },
			"to /v1/charges; up to 20% more pass, marked as over the limit, and the rest are denied." + open},
		{"elastic", func(r *rules.Rule) {
			r.Throttle, r.ElasticPercent, r.Pool = rules.ThrottleElastic, new(int64(50)), new("shop")
		}, "to /v1/charges; up to 50% more pass while the pool shop has room, and the rest are denied." + open},
		{"pool", func(r *rules.Rule) { r.Pool = new("shop") },
			plain + " These requests also count against the pool shop." + open},
		{"shadow and closed", func(r *rules.Rule) { r.Mode, r.FailMode = rules.ModeShadow, rules.FailClosed },
			"to /v1/charges; the rest would be denied, but the rule is in shadow mode: it counts and denies nothing. " +
				"If Redis is unreachable, the rule counts nothing."},
		{"soft in shadow mode", func(r *rules.Rule) {
			r.Throttle, r.SoftPercent, r.Mode = rules.ThrottleSoft, new(int64(20)), rules.ModeShadow
		}, "up to 20% more pass, marked as over the limit, and the rest would be denied, but the rule is in shadow mode"},
		{"queue", func(r *rules.Rule) { r.OverLimit = rules.OverLimitDefer },
			"to /v1/charges; the rest wait in a queue of up to 10,000 requests for up to 1 hour." + open},
		{"jitter", func(r *rules.Rule) { r.RetryJitterMS = new(int64(1500)) },
			plain + " Denied clients are told to wait up to 1,500 ms longer, at random." + open},
		{"tokens", func(r *rules.Rule) { r.Counts, r.Limit = new("tokens"), 50_000 },
			"Each user may spend 50,000 tokens per minute on POST requests to /v1/charges" + denied + open},
		{"money", func(r *rules.Rule) {
			r.WeightField, r.Unit, r.UnitScale, r.Limit = new("cost"), new("$"), new(int64(1_000_000)), 1_234_050_000
		}, "Each user may spend 1,234.05 $ per minute on POST requests to /v1/charges, weighted by the field cost" + denied +
			open},
		{"delay", func(r *rules.Rule) {
			r.Delay, r.TarpitMS = &rules.Delay{After: new(int64(60)), StepMS: 100, MostMS: 2000}, new(int64(1000))
		},
			plain + " Above 60 used, each request is told to wait 100 ms for every unit more, up to 2 seconds." +
				" Denials are held back for 1 second." + open},
		{"warn", func(r *rules.Rule) {
			r.Warn = &rules.Warn{Percent: 90, Set: map[string]string{"model": "s", "effort": "low"}}
		},
			plain + " From 90% of the limit on, answers advise effort and model." + open},
		{"denial", func(r *rules.Rule) { r.Denial, r.Hidden = &rules.Denial{Status: 403, Retry: rules.RetryNever}, true },
			plain + " Denied clients receive the status 403 and no Retry-After. Clients see neither its name nor its figures." +
				open},
		{"notify", func(r *rules.Rule) { r.NotifyPercent = []int64{100, 80} },
			plain + " A key that has used 80% or 100% of its limit is an alert." + open},
		{"reported usage", func(r *rules.Rule) { r.ChargeOn = rules.ChargeOnReport },
			plain + " A check uses up nothing; only reported usage counts." + open},
		{"ban", func(r *rules.Rule) { r.Ban = &rules.Ban{After: 20, WithinMS: 60_000, ForMS: 600_000} },
			plain + " A key that is denied 20 times within 1 minute is banned for 10 minutes." + open},
		{"ban that grows", func(r *rules.Rule) {
			r.Ban = &rules.Ban{After: 1, WithinMS: 1000, ForMS: 600_000, Grow: 2, MostMS: 86_400_000}
		}, plain + " A key that is denied once within 1 second is banned for 10 minutes. A ban that begins within 1 day " +
			"after the last one is 2 times as long, up to 1 day." + open},
		{"leased", func(r *rules.Rule) { r.HotKeys = rules.HotKeysLeased },
			plain + " For very busy keys, each node leases parts of the limit in advance." + open},
		{"sharded", func(r *rules.Rule) { r.HotKeys = rules.HotKeysSharded },
			plain + " Very busy keys are split into shards." + open},
		{"global", func(r *rules.Rule) { r.Span = rules.SpanGlobal },
			plain + " All regions have the limit together; one that is cut off has an equal part of it." + open},
		{"global and alone", func(r *rules.Rule) { r.Span, r.CutOff = rules.SpanGlobal, new(rules.CutOffAlone) },
			plain + " All regions have the limit together; one that is cut off has all of it." + open},
		{"global and closed", func(r *rules.Rule) { r.Span, r.CutOff = rules.SpanGlobal, new(rules.CutOffClosed) },
			plain + " All regions have the limit together; one that is cut off denies." + open},

		{"tiers", func(r *rules.Rule) {
			r.Algorithm = "gcra"
			r.Tiers = map[string]rules.TierLimit{
				"gold": {Unlimited: true}, "free": {Limit: new(int64(10))},
				"paid": {Limit: new(int64(1000)), Burst: new(int64(50))},
			}
		}, " Tier limits: free has 10, gold is unlimited and paid has 1,000 with bursts up to 50." + open},
		{"schedule", func(r *rules.Rule) {
			r.Schedule = &rules.Schedule{Zone: "Europe/Berlin", Windows: []rules.ScheduleWindow{
				{Days: []string{"sat", "sun"}, From: "08:00", To: "20:00", Percent: new(int64(50))},
				{From: "22:00", To: "06:00", Limit: new(int64(5)), Burst: new(int64(2))},
			}}
		}, plain + " Schedule (Europe/Berlin): Sat and Sun from 08:00 to 20:00, 50% of the limit; " +
			"every day from 22:00 to 06:00, a limit of 5 with bursts up to 2." + open},
		{"starts", func(r *rules.Rule) { r.ActiveFrom = &from },
			plain + " The rule is in force from 2026-11-27 00:00 UTC." + open},
		{"ends", func(r *rules.Rule) { r.ActiveUntil = &until },
			plain + " The rule is in force until 2026-11-30 00:00 UTC." + open},
		{"starts and ends", func(r *rules.Rule) { r.ActiveFrom, r.ActiveUntil = &from, &until },
			plain + " The rule is in force from 2026-11-27 00:00 UTC until 2026-11-30 00:00 UTC." + open},
		{"candidate", func(r *rules.Rule) { r.Candidate = &rules.Candidate{Algorithm: "gcra", Limit: new(int64(60))} },
			plain + " A candidate limit of 60 per minute (GCRA) is tested beside it and denies nothing." + open},
		{"candidate with a window", func(r *rules.Rule) {
			r.Candidate = &rules.Candidate{Limit: new(int64(2000)), WindowMS: new(int64(3_600_000))}
		}, plain + " A candidate limit of 2,000 per hour is tested beside it and denies nothing." + open},
		{"disabled", func(r *rules.Rule) { r.IsActive = false }, plain + open + " The rule is disabled."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Summary(rule(tt.edit)); !strings.HasSuffix(got, tt.want) && !strings.Contains(got, tt.want) {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
	if got := Summary(&rules.Rule{}); got == "" {
		t.Error("an empty rule has no summary")
	}
}

// Every combination gives whole sentences: no doubled blanks or marks, and no empty part.
func TestSummary_IsWellFormedForEveryCombination(t *testing.T) {
	algorithms := []string{
		"sliding_window_counter", "sliding_window_log", "sliding_window_buckets", "fixed_window", "token_bucket", "gcra",
		"leaky_bucket", "leaky_queue", "concurrency",
	}
	for _, algorithm := range algorithms {
		for _, scope := range []string{"global", "user", "user+ip", "route", "user+route+method", "attr:tenant"} {
			for _, throttle := range []string{rules.ThrottleHard, rules.ThrottleSoft, rules.ThrottleElastic} {
				for _, mode := range []string{rules.ModeEnforce, rules.ModeShadow} {
					for _, over := range []string{rules.OverLimitDeny, rules.OverLimitDefer} {
						for _, fail := range []string{rules.FailOpen, rules.FailClosed, rules.FailLocal} {
							got := Summary(rule(func(r *rules.Rule) {
								r.Algorithm, r.Scope, r.Throttle, r.Mode, r.OverLimit, r.FailMode = algorithm, scope, throttle, mode, over, fail
								r.SoftPercent, r.ElasticPercent, r.Pool = new(int64(5)), new(int64(5)), new("p")
								r.Burst, r.When, r.WeightField = new(int64(3)), new("weight > 1"), new("bytes")
							}))
							for _, bad := range []string{"  ", " ,", " .", "..", ",,", ";;", " ;"} {
								if strings.Contains(got, bad) {
									t.Fatalf("%q in %s", bad, got)
								}
							}
							if !strings.HasSuffix(got, ".") || !strings.Contains(got, "; ") {
								t.Fatalf("not whole sentences: %s", got)
							}
						}
					}
				}
			}
		}
	}
}

func TestLimit_IsShort(t *testing.T) {
	tests := []struct {
		want string
		edit func(*rules.Rule)
	}{
		{"100 per minute per user", nil},
		{"100 per 90 seconds in total", func(r *rules.Rule) { r.Scope, r.WindowMS = "global", 90_000 }},
		{"2 at a time per API key", func(r *rules.Rule) { r.Scope, r.Algorithm, r.Limit = "apikey", "concurrency", 2 }},
		{"100 per minute per tenant, bursts up to 5", func(r *rules.Rule) {
			r.Scope, r.Algorithm, r.Burst = "attr:tenant", "gcra", new(int64(5))
		}},
		{"100 per minute per user and IP address", func(r *rules.Rule) { r.Scope = "user+ip" }},
		{"100 per calendar week per user", func(r *rules.Rule) {
			r.Algorithm, r.Calendar = "fixed_window", &rules.Calendar{Every: rules.EveryWeek}
		}},
		{"1,000,000 per 1,500 ms per user", func(r *rules.Rule) { r.Limit, r.WindowMS = 1_000_000, 1500 }},
	}
	tests = append(tests, []struct {
		want string
		edit func(*rules.Rule)
	}{
		{"100 per minute per user", descriptor(entries.Element{Key: "path", Value: "/pay"}, entries.Element{Key: "user"})},
		{"100 per minute in total", descriptor(entries.Element{Key: "file", Pattern: "*", Shared: true})},
		{"unlimited, counted per calendar month per user", func(r *rules.Rule) {
			r.Algorithm, r.Limit, r.WindowMS, r.Unlimited = "fixed_window", 0, 0, true
			r.Calendar = &rules.Calendar{Every: "month"}
		}},
		{"unlimited", func(r *rules.Rule) {
			descriptor(entries.Element{Key: "user"})(r)
			r.Unlimited = true
		}},
	}...)
	for _, tt := range tests {
		if got := Limit(rule(tt.edit)); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestMatch_NamesMethodAndRoute(t *testing.T) {
	for want, edit := range map[string]func(*rules.Rule){
		"POST /v1/charges":   nil,
		"/v1/charges":        func(r *rules.Rule) { r.Method = nil },
		"POST on all routes": func(r *rules.Rule) { r.Route = nil },
		"all routes":         func(r *rules.Rule) { r.Route, r.Method = nil, nil },
		"shop: path=/pay, file=/a/*, us%0Aer": descriptor(entries.Element{Key: "path", Value: "/pay"},
			entries.Element{Key: "file", Pattern: "/a/*"}, entries.Element{Key: "us\ner"}),
	} {
		if got := Match(rule(edit)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestSummary_DescribesMetersAndStatements(t *testing.T) {
	const want = "POST requests to /v1/charges are counted per calendar month (UTC) for each user, and none is denied. " +
		"What each key has spent is kept for 13 periods."
	if got := Summary(rule(func(r *rules.Rule) {
		r.Algorithm, r.Limit, r.WindowMS, r.Unlimited, r.KeepPeriods = "fixed_window", 0, 0, true, new(int64(13))
		r.Calendar = &rules.Calendar{Every: "month"}
	})); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
