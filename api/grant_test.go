package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/rules"
	"sluice/rules/match"
)

// leased is a rule that permits grants.
func leased(r rules.Rule) rules.Rule {
	r.HotKeys = rules.HotKeysLeased
	return r
}

// fixedMinute is a leased rule of a fixed window of a minute.
func fixedMinute(name string, limit int64) rules.Rule {
	r := leased(aMinute(name, limit))
	r.Algorithm = "fixed_window"
	return r
}

const grant = `{"user":"42","times":300,"least":8}`

func TestGrant_UpToTimesThenAllThatIsLeft(t *testing.T) {
	wide := fixedMinute("wide", 10_000)
	wide.Scope = "global"
	reserving(t, nil, []rules.Rule{fixedMinute("a", 500), wide}, func(t *testing.T, f *fixture) {
		first, second, third := f.reserve(grant), f.reserve(grant), f.reserve(grant)
		if first.Granted != 300 || *first.Remaining != 200 || first.SpendWithin != 1000 || first.Shrinks {
			t.Errorf("the first: %+v", first)
		}
		if second.Granted != 200 || *second.Remaining != 0 || !second.Allowed {
			t.Errorf("the second: %+v", second)
		}
		if third.Allowed || third.Granted != 0 || third.SpendWithin != 1000 ||
			*third.RetryAfterMS != f.untilEnd(60_000) || *third.Rule != "a" {
			t.Errorf("the third: %+v", third)
		}
		if a, b := f.left("a", `{"user":"42"}`), f.left("wide", `{"user":"42"}`); a != 0 || b != 9500 {
			t.Errorf("left %d and %d, want 0 and 9500", a, b)
		}
		settled := f.settle(second.Reservation, `"weight":20,"decisions":{"allowed":20,"denied":3}`)
		if !settled.Allowed || *settled.Refunded != 180 {
			t.Errorf("settled: %+v", settled)
		}
		if a, b := f.left("a", `{"user":"42"}`), f.left("wide", `{"user":"42"}`); a != 180 || b != 9680 {
			t.Errorf("left %d and %d, want 180 and 9680", a, b)
		}
	})
}

func TestGrant_LessThanLeastIsDeniedAndSpendsNothing(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("a", 20)}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","weight":13}`)
		q := decide.Question{Descriptor: match.Descriptor{User: "42"}, Weight: 1, Times: 300, Least: 8}
		var a decide.Answer
		if err := f.checker.Reserve(t.Context(), &q, 60_000, &a); err != nil || a.Allowed() || a.Limits[0].Weight != 1 ||
			a.Limits[0].Decision.Remaining != 7 {
			t.Errorf("7 left: %v, %+v", err, a)
		}
		if got := f.left("a", `{"user":"42"}`); got != 7 {
			t.Errorf("%d left, want 7", got)
		}
	})
}

func TestGrant_WeighsAndIsMatchedAsOneRequest(t *testing.T) {
	bytes := fixedMinute("bytes", 10_000)
	bytes.WeightField, bytes.When = new("bytes"), new(`fields.bytes <= 100 && weight <= 100`)
	reserving(t, nil, []rules.Rule{bytes, fixedMinute("units", 10_000)}, func(t *testing.T, f *fixture) {
		got := f.reserve(`{"user":"42","weight":2,"fields":{"bytes":100},"times":50}`)
		if got.Granted != 50 || len(got.Limits) != 2 || *got.Limits[0].Used != 5000 || *got.Limits[1].Used != 100 {
			t.Errorf("granted: %+v", got)
		}
		got = f.settle(got.Reservation, `"weight":20,"fields":{"bytes":1000}`)
		if *got.Limits[0].Used != 1000 || *got.Limits[1].Used != 20 {
			t.Errorf("settled for ten: %+v", got)
		}
	})
}

// The life of a grant is that of a lease of a hot key.
func TestGrant_LivesAsLongAsItsUnitsCountTheSame(t *testing.T) {
	for _, tt := range []struct {
		algorithm string
		window    int64
		before    int64 // the time to the end of the window or sub-window
		want      int64
		shrinks   bool
	}{
		{"fixed_window", 60_000, 5000, 1000, false},
		{"fixed_window", 60_000, 300, 300, false},
		{"sliding_window_counter", 60_000, 300, 300, false},
		{"sliding_window_buckets", 60_000, 300, 300, false},
		{"token_bucket", 1000, 300, 110, true},
		{"gcra", 1000, 300, 110, true},
		{"leaky_bucket", 1000, 300, 110, true},
	} {
		r := leased(aMinute("r", 10_000))
		r.Algorithm, r.WindowMS = tt.algorithm, tt.window
		t.Run(fmt.Sprint(tt.algorithm, tt.before), func(t *testing.T) {
			reserving(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
				f.now.Add(f.untilEnd(60_000) - tt.before)
				got := f.reserve(`{"user":"42","times":100}`)
				if got.SpendWithin != tt.want || got.Shrinks != tt.shrinks {
					t.Errorf("for %d ms, shrinks %v; want %d, %v", got.SpendWithin, got.Shrinks, tt.want, tt.shrinks)
				}
				if want := int64(100); got.Granted != want && !tt.shrinks {
					t.Errorf("%d granted, want %d", got.Granted, want)
				}
			})
		})
	}
}

// A draining bucket stands at a level that lasts for 100 ms, and no higher: the next grant is as asked.
func TestGrant_OfADrainingBucketIsSized(t *testing.T) {
	r := leased(perUser("r", 10_000))
	r.Algorithm = "token_bucket"
	reserving(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
		first := f.reserve(`{"user":"42","times":100}`)
		second := f.reserve(`{"user":"42","times":100}`)
		if first.Granted < 2200 || first.Granted > 2201 || second.Granted != 100 || second.SpendWithin < first.SpendWithin {
			t.Errorf("%d for %d ms, then %d for %d ms", first.Granted, first.SpendWithin, second.Granted, second.SpendWithin)
		}
		settled := f.settle(first.Reservation, `"weight":0,"decisions":{"allowed":7,"denied":0}`)
		if !settled.Allowed || *settled.Refunded != 0 {
			t.Errorf("a grant that drains was given back: %+v", settled)
		}
	})
}

// A bucket that drains next to another limit would burn what it loses there too, and a slow or small one would lose too
// large a part of itself. Each request is asked then.
func TestGrant_DrainsOnlyAloneAndFastEnough(t *testing.T) {
	draining := func(limit, window int64) rules.Rule {
		r := leased(perUser("r", limit))
		r.Algorithm, r.WindowMS = "token_bucket", window
		return r
	}
	small := draining(10_000, 1000)
	small.Burst = new(int64(15))
	slow := draining(100_000, 3_600_000)
	slow.Name = "slow"
	for name, rs := range map[string][]rules.Rule{
		"beside a window":         {draining(10_000, 1000), fixedMinute("w", 1_000_000)},
		"beside one that is slow": {draining(10_000, 1000), slow},
		"slow":                    {draining(60, 1000)},
		"small":                   {small},
	} {
		t.Run(name, func(t *testing.T) {
			reserving(t, nil, rs, func(t *testing.T, f *fixture) {
				got := f.reserve(`{"user":"42","times":100}`)
				if !got.Allowed || got.Granted != 1 || got.SpendWithin != 0 {
					t.Errorf("%d granted for %d ms, want one that is decided here", got.Granted, got.SpendWithin)
				}
				for _, l := range got.Limits {
					if *l.Used != 1 {
						t.Errorf("%s: %d used, want 1", *l.Rule, *l.Used)
					}
				}
			})
		})
	}
}

// A limit that is smaller than the least number of requests grants what it has, and says when one request passes.
func TestGrant_OfALimitBelowTheLeastGrantsWhatThereIs(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("r", 5)}, func(t *testing.T, f *fixture) {
		f.now.Add(f.untilEnd(60_000) - 30_000)
		if got := f.reserve(`{"user":"42","times":100,"least":8}`); got.Granted != 5 {
			t.Errorf("%d granted, want 5", got.Granted)
		}
		got := f.reserve(`{"user":"42","times":100,"least":8}`)
		if got.Allowed || *got.RetryAfterMS != 30_000 {
			t.Errorf("allowed %v, retry after %v; want 30,000 ms", got.Allowed, *got.RetryAfterMS)
		}
	})
}

func TestGrant_NeverBeyondAnEdgeOfTheRules(t *testing.T) {
	in := func(f *fixture, ms int64) *time.Time {
		at := time.UnixMilli(f.now.Load() + ms).UTC()
		return &at
	}
	for name, change := range map[string]func(*fixture){
		"its rule ends": func(f *fixture) { f.book.stored[0].ActiveUntil = in(f, 400) },
		"another begins": func(f *fixture) {
			f.book.stored[1].ActiveFrom, f.book.stored[1].IsActive = in(f, 400), true
		},
		"another begins and ends": func(f *fixture) {
			f.book.stored[1].ActiveFrom, f.book.stored[1].ActiveUntil, f.book.stored[1].IsActive = in(f, 400), in(f, 401), true
		},
		"an override ends": func(f *fixture) {
			f.override(`{"key":"42","limit":7000,"expires_at":"` + in(f, 400).Format(time.RFC3339Nano) + `"}`)
		},
		"a window of its schedule begins": func(f *fixture) {
			f.now.Add(f.untilEnd(60_000) - 400)
			at := in(f, 400)
			f.book.stored[0].WindowMS = 3_600_000
			f.book.stored[0].Schedule = &rules.Schedule{Zone: "UTC", Windows: []rules.ScheduleWindow{
				{From: at.Format("15:04"), To: "24:00", Limit: new(int64(500))}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			later := fixedMinute("later", 10)
			later.IsActive = false
			f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("a", 10_000), later}, sealing)
			change(f)
			f.reload()
			got := f.reserve(grant)
			if got.SpendWithin < 100 || got.SpendWithin > 400 {
				t.Errorf("for %d ms, want at most 400", got.SpendWithin)
			}
			if f.now.Add(395); f.reserve(grant).SpendWithin > 5 {
				t.Errorf("5 ms before the edge: %+v", got)
			}
		})
	}
}

// A caller may not deny beyond the end of the rule that denies.
func TestGrant_NoDenialBeyondTheEndOfItsRule(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("a", 10)}, sealing)
	at := time.UnixMilli(f.now.Load() + 400).UTC()
	f.book.stored[0].ActiveUntil = &at
	f.reload()
	f.reserve(`{"user":"42","times":10}`)
	if got := f.reserve(`{"user":"42","times":10}`); got.Allowed || got.SpendWithin < 100 || got.SpendWithin > 400 {
		t.Errorf("for %d ms, want at most 400: %+v", got.SpendWithin, got)
	}
}

// Where a limit has to see each request, one is decided, as if times were absent.
func TestGrant_OnlyWhereEveryLimitPermits(t *testing.T) {
	with := func(change func(*rules.Rule)) rules.Rule {
		r := fixedMinute("r", 1000)
		change(&r)
		return r
	}
	for name, r := range map[string]rules.Rule{
		"exact":       with(func(r *rules.Rule) { r.HotKeys = "" }),
		"sharded":     with(func(r *rules.Rule) { r.HotKeys = rules.HotKeysSharded }),
		"concurrency": with(func(r *rules.Rule) { r.Algorithm, r.HotKeys = "concurrency", "" }),
		"queue":       with(func(r *rules.Rule) { r.Algorithm, r.HotKeys = "leaky_queue", "" }),
		"log":         with(func(r *rules.Rule) { r.Algorithm, r.HotKeys = "sliding_window_log", "" }),
		"shadow":      with(func(r *rules.Rule) { r.Mode = rules.ModeShadow }),
		"soft":        soft(fixedMinute("r", 1000), 50),
		"elastic":     elastic(fixedMinute("r", 1000), 200, "shop", "critical"),
		"ban": with(func(r *rules.Rule) {
			r.HotKeys, r.Ban = "", &rules.Ban{After: 3, WithinMS: 60_000, ForMS: 60_000, Grow: 1, MostMS: 60_000}
		}),
		"candidate": with(func(r *rules.Rule) { r.Candidate = &rules.Candidate{Limit: new(int64(10))} }),
		"by report": with(func(r *rules.Rule) { r.ChargeOn = rules.ChargeOnReport }),
	} {
		t.Run(name, func(t *testing.T) {
			reserving(t, shop(1000), []rules.Rule{fixedMinute("a", 1000), r}, func(t *testing.T, f *fixture) {
				got := f.reserve(grant)
				if got.Granted != 1 || got.SpendWithin != 0 {
					t.Errorf("granted: %+v", got)
				}
				if left := f.left("a", `{"user":"42"}`); left != 999 {
					t.Errorf("%d left, want 999", left)
				}
				f.do(http.MethodPost, "/ratelimit/settle",
					settleBody(got.Reservation, `"decisions":{"allowed":1,"denied":0}`)).want(http.StatusUnprocessableEntity)
			})
		})
	}
}

func TestGrant_DirectLimitsPermitIt(t *testing.T) {
	f := pooled(t, "redis", nil, nil, sealing)
	fixed := `"window_ms":60000,"algorithm":"fixed_window"}`
	one := f.reserve(`{"key":"k","limit":10,"times":8,` + fixed)
	both := f.reserve(`{"limits":[{"key":"k","limit":10,` + fixed + `,{"key":"l","limit":100,` + fixed + `],"times":8}`)
	if one.Granted != 8 || both.Granted != 2 || *both.Limits[1].Used != 2 || both.SpendWithin == 0 {
		t.Errorf("%+v, then %+v", one, both)
	}
}

// A repeat is not granted a second time, and a refund by the id gives all of it back.
func TestGrant_RepeatsAndRefundsByItsID(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("a", 500)}, func(t *testing.T, f *fixture) {
		named := `{"user":"42","request_id":"r1","times":300}`
		f.reserve(named)
		if got := f.post("/ratelimit/reserve", named).reply(); !got.Replayed || got.Granted != 0 || got.SpendWithin != 0 {
			t.Errorf("the repeat: %+v", got)
		}
		if got := f.post("/ratelimit/refund", `{"user":"42","request_id":"r1"}`).reply(); *got.Refunded != 300 {
			t.Errorf("the refund: %+v", got)
		}
	})
}

func TestGrant_AFailModeDecidesOneRequest(t *testing.T) {
	r := fixedMinute("a", 100)
	r.FailMode = "local"
	f := pooled(t, "memory", nil, []rules.Rule{r}, sealing)
	f.store.fail(errAway)
	got := f.post("/ratelimit/reserve", `{"user":"42","times":50}`).reply()
	if !got.Allowed || got.Granted != 1 || got.SpendWithin != 0 || got.Reservation != "" || *got.Remaining != 99 {
		t.Errorf("got %+v", got)
	}
}

// What was reset is not given back, and what is settled twice comes back once.
func TestGrant_GivesBackOnlyWhatItsRecordHolds(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("a", 500)}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","times":300}`).Reservation
		f.post("/ratelimit/reset", `{"user":"42"}`)
		f.check(`{"user":"42","weight":250}`)
		f.settle(token, `"weight":0`)
		if left := f.left("a", `{"user":"42"}`); left != 250 {
			t.Errorf("%d left, want 250", left)
		}
		token = f.reserve(`{"user":"42","times":200}`).Reservation
		for range 3 {
			f.settle(token, `"weight":50,"decisions":{"allowed":50,"denied":0}`)
		}
		if left := f.left("a", `{"user":"42"}`); left != 200 {
			t.Errorf("%d left, want 200", left)
		}
	})
}

func TestGrant_RefusesWhatItCannotMean(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("a", 500)}, sealing)
	token := f.reserve(`{"user":"42","times":30}`).Reservation
	for _, tt := range []struct{ path, body, field string }{
		{"reserve", `{"user":"42","times":0}`, "times"},
		{"reserve", `{"user":"42","times":1000001}`, "times"},
		{"reserve", `{"user":"42","times":"9"}`, "times"},
		{"reserve", `{"user":"42","least":3}`, "least"},
		{"reserve", `{"user":"42","times":5,"least":6}`, "least"},
		{"reserve", `{"user":"42","times":5,"least":0}`, "least"},
		{"reserve", `{"user":"42","times":1000,"weight":9007199254740991}`, "times"},
		{"reserve", `{"user":"42","times":1000,"fields":{"n":9007199254740991}}`, "times"},
		{"check", `{"user":"42","times":5}`, "times"},
		{"check", `{"user":"42","least":5}`, "least"},
		{"settle", settleBody(token, `"decisions":7`), "decisions"},
		{"settle", settleBody(token, `"decisions":{"allowed":31,"denied":0}`), "decisions.allowed"},
		{"settle", settleBody(token, `"decisions":{"allowed":-1,"denied":0}`), "decisions.allowed"},
		{"settle", settleBody(token, `"decisions":{"allowed":1,"denied":1000001}`), "decisions.denied"},
		{"settle", settleBody(token, `"decisions":{"allowed":1.5}`), "decisions.allowed"},
	} {
		a := f.do(http.MethodPost, "/ratelimit/"+tt.path, tt.body).want(http.StatusUnprocessableEntity)
		if !strings.Contains(a.body, `"field":"`+tt.field+`"`) {
			t.Errorf("%s: %s", tt.body, a.body)
		}
	}
	f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"decisions":{"allow":1}`)).want(http.StatusBadRequest)
	if left := f.left("a", `{"user":"42"}`); left != 470 {
		t.Errorf("%d left, want 470", left)
	}
	var a decide.Answer
	s := decide.Settlement{Reservation: token, Weight: 30,
		Decisions: &decide.Decisions{Allowed: 30, Denied: decide.MaxDenied}}
	if err := f.checker.SettleReservation(t.Context(), &s, &a); err != nil || s.Decisions == nil {
		t.Errorf("all of them: %v", err)
	}
}

// The token of a denied grant reports denials, and nothing else.
func TestGrant_TheTokenOfADenialChargesNothing(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("a", 10)}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","weight":6}`)
		token := f.reserve(grant).Reservation
		for _, tt := range []struct {
			path, body string
			status     int
			field      string
		}{
			{"settle", settleBody(token, `"weight":1`), http.StatusUnprocessableEntity, "reservation"},
			{"settle", settleBody(token, `"weight":1,"decisions":{"denied":2}`), http.StatusUnprocessableEntity, "reservation"},
			{"settle", settleBody(token, `"fields":{"n":1}`), http.StatusUnprocessableEntity, "reservation"},
			{"settle", settleBody(token, `"decisions":{"allowed":1}`), http.StatusUnprocessableEntity, "decisions.allowed"},
			{"renew", `{"reservation":"` + token + `"}`, http.StatusUnprocessableEntity, "reservation"},
			{"renew", `{"reservation":"` + token + `","more":{"weight":1}}`, http.StatusUnprocessableEntity, "reservation"},
			{"renew", `{"lease":"` + token + `"}`, http.StatusUnprocessableEntity, "lease"},
			{"release", `{"lease":"` + token + `"}`, http.StatusUnprocessableEntity, "lease"},
			{"release", `{"reservation":"` + token + `"}`, http.StatusBadRequest, ""},
			{"settle", settleBody(token, `"weight":0,"decisions":{"denied":2}`), http.StatusOK, ""},
		} {
			a := f.do(http.MethodPost, "/ratelimit/"+tt.path, tt.body).want(tt.status)
			if tt.field != "" && !strings.Contains(a.body, `"field":"`+tt.field+`"`) {
				t.Errorf("%s %s: %s", tt.path, strings.ReplaceAll(tt.body, token, "…"), a.body)
			}
		}
		if left := f.left("a", `{"user":"42"}`); left != 4 {
			t.Errorf("%d left, want 4", left)
		}
	})
}

// A grant that its caller could not settle would lose what is left of it. One request is charged then.
func TestGrant_OfMoreLimitsThanATokenHolds(t *testing.T) {
	var rs []rules.Rule
	for i := range 390 {
		r := fixedMinute(fmt.Sprintf("r%d", i), 1<<53-1)
		r.Scope, r.WindowMS, r.AnchorMS = "global", 86_400_000, new(int64(80_000_001))
		r.WeightField = new(fmt.Sprintf("%063d", i%60))
		rs = append(rs, r)
	}
	f := pooled(t, "memory", nil, rs, sealing)
	fields := make([]string, 60)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"%063d":10000000000000`, i)
	}
	ask := `{"user":"u","fields":{` + strings.Join(fields, ",") + `}`
	got := f.post("/ratelimit/reserve", ask+`,"times":500}`).reply()
	if !got.Allowed || got.Granted != 1 || got.SpendWithin != 0 || *got.Used != 10_000_000_000_000 {
		t.Errorf("%d granted for %d ms, want one that is decided here", got.Granted, got.SpendWithin)
	}
}
