package api

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// oneSecret is a Secrets with one, which may be away.
type oneSecret struct{ err error }

func (s *oneSecret) Secrets(context.Context, bool) ([][]byte, error) {
	return [][]byte{bytes.Repeat([]byte("s"), 32)}, s.err
}

func sealing(o *decide.CheckerOptions, _ *Deps) { o.Secrets = &oneSecret{} }

// reserving runs a test on both stores.
func reserving(t *testing.T, pools []rules.Pool, rs []rules.Rule, test func(t *testing.T, f *fixture)) {
	t.Helper()
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) { test(t, pooled(t, kind, pools, rs, sealing)) })
	}
}

func (f *fixture) reserve(body string) checkReply {
	f.t.Helper()
	r := f.post("/ratelimit/reserve", body).reply()
	if leases := r.Allowed || r.SpendWithin > 0; leases != (r.Reservation != "") || leases != (r.ExpiresInMS > 0) {
		f.t.Fatalf("got %+v", r)
	}
	return r
}

func settleBody(token, rest string) string { return `{"reservation":"` + token + `",` + rest + `}` }

func (f *fixture) settle(token, rest string) checkReply {
	f.t.Helper()
	return f.post("/ratelimit/settle", settleBody(token, rest)).reply()
}

// left is what remains for a user by a rule.
func (f *fixture) left(rule, body string) int64 {
	f.t.Helper()
	for _, l := range f.check(strings.TrimSuffix(body, "}") + `,"weight":0}`).Limits {
		if l.Rule != nil && *l.Rule == rule {
			return *l.Remaining
		}
	}
	f.t.Fatalf("no rule %s", rule)
	return 0
}

func TestReserve_SettlesTheDifferenceUpAndDown(t *testing.T) {
	reserving(t, nil, []rules.Rule{aMinute("a", 100), aMinute("b", 1000)}, func(t *testing.T, f *fixture) {
		down := f.reserve(`{"user":"42","weight":40}`)
		if *down.Remaining != 60 || down.ExpiresInMS != 60_000 {
			t.Errorf("reserved: %+v", down)
		}
		got := f.settle(down.Reservation, `"weight":15`)
		if !got.Allowed || got.Status != 200 || *got.Refunded != 25 || *got.Remaining != 85 || *got.Rule != "a" ||
			len(got.Limits) != 2 {
			t.Errorf("settled down: %+v", got)
		}
		up := f.reserve(`{"user":"42","weight":10}`)
		if got := f.settle(up.Reservation, `"weight":200`); got.Allowed || *got.Remaining != 0 ||
			*got.Used != 215 || *got.Rule != "a" || !got.Limits[1].Allowed || *got.Limits[1].Used != 215 {
			t.Errorf("settled up, over the limit: %+v", got)
		}
		if a, b := f.left("a", `{"user":"42"}`), f.left("b", `{"user":"42"}`); a != 0 || b != 1000-215 {
			t.Errorf("left %d and %d, want 0 and 785", a, b)
		}
		if r := f.post("/ratelimit/reserve", `{"user":"42","weight":1}`).reply(); r.Allowed || r.Reservation != "" ||
			r.Body == nil {
			t.Errorf("denied: %+v", r)
		}
	})
}

func TestReserve_AsIfTheActualWeightHadBeenChargedAtFirst(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "sliding_window_buckets",
		"sliding_window_log", "token_bucket", "gcra", "leaky_bucket"} {
		r := aMinute("r", 100)
		r.Algorithm = algorithm
		t.Run(algorithm, func(t *testing.T) {
			reserving(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
				for i, actual := range []int64{0, 7, 30, 55} {
					user := fmt.Sprintf(`{"user":"u%d"}`, i)
					reserved := f.reserve(fmt.Sprintf(`{"user":"u%d","weight":30}`, i))
					f.now.Add(500)
					if got := f.settle(reserved.Reservation, fmt.Sprintf(`"weight":%d`, actual)); !got.Allowed {
						t.Fatalf("settle: %+v", got)
					}
					f.now.Add(-500)
					f.post("/ratelimit/charge", fmt.Sprintf(`{"user":"plain%d","weight":%d}`, i, actual))
					f.now.Add(500)
					plain := f.left("r", fmt.Sprintf(`{"user":"plain%d"}`, i))
					if got := f.left("r", user); got > plain || got < plain-1 && actual <= 30 {
						t.Errorf("actual %d: %d left, %d if it had been charged at first", actual, got, plain)
					}
				}
			})
		})
	}
}

func TestSettle_CountsOnceHoweverOftenItIsSaid(t *testing.T) {
	reserving(t, nil, []rules.Rule{aMinute("a", 1000)}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":100}`).Reservation
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				var a decide.Answer
				if err := f.checker.SettleReservation(t.Context(), &decide.Settlement{Reservation: token, Weight: 10},
					&a); err != nil || !a.Allowed() {
					t.Errorf("settle %d: %v, %+v", i, err, a)
				}
			})
		}
		wg.Wait()
		if got := f.left("a", `{"user":"42"}`); got != 990 {
			t.Errorf("%d left, want 990", got)
		}
		f.now.Add(30_000)
		if got := f.settle(token, `"weight":500`); !got.Replayed || *got.Refunded != 90 {
			t.Errorf("said again, differently: %+v", got)
		}
		if got := f.left("a", `{"user":"42"}`); got != 990 {
			t.Errorf("%d left afterwards, want 990", got)
		}
	})
}

func TestSettle_AfterItsTimeTheEstimateStays(t *testing.T) {
	day := aMinute("a", 1000)
	day.WindowMS = 86_400_000
	reserving(t, nil, []rules.Rule{day}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":100,"ttl_ms":5000}`).Reservation
		f.now.Add(4999)
		other := f.reserve(`{"user":"42","weight":100,"ttl_ms":5000}`).Reservation
		f.now.Add(1)
		a := f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"weight":1`)).want(http.StatusGone)
		if !strings.Contains(a.body, "/problems/reservation-ended") {
			t.Errorf("got %s", a.body)
		}
		if got := f.settle(other, `"weight":1`); !got.Allowed {
			t.Errorf("in time: %+v", got)
		}
		if got := f.left("a", `{"user":"42"}`); got != 1000-101 {
			t.Errorf("%d left, want 899", got)
		}
	})
}

func TestSettle_LaterThanAWindowAndAReplayWindow(t *testing.T) {
	reserving(t, nil, []rules.Rule{perUser("second", 100), aMinute("minute", 100)}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":50,"ttl_ms":3600000}`).Reservation
		f.now.Add(3_599_999)
		if got := f.settle(token, `"weight":1`); !got.Allowed {
			t.Errorf("got %+v", got)
		}
		if a, b := f.left("second", `{"user":"42"}`), f.left("minute", `{"user":"42"}`); a != 100 || b != 100 {
			t.Errorf("left %d and %d: what had run out was given back again", a, b)
		}
	})
}

func TestSettle_LostCountersAreSaidToBeLost(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("a", 100)}, sealing)
	token := f.reserve(`{"user":"42","weight":50}`).Reservation
	f.store.Store = f.newStore()
	f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"weight":80`)).want(http.StatusGone)
	if got := f.left("a", `{"user":"42"}`); got != 100 {
		t.Errorf("%d left: a settlement without its reserve was charged", got)
	}
}

func TestSettle_WhileTheStoreIsAwayCanBeRepeated(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("a", 100)}, sealing)
	token := f.reserve(`{"user":"42","weight":50}`).Reservation
	f.store.fail(errAway)
	a := f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"weight":10`)).want(http.StatusServiceUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	f.store.fail(nil)
	f.store.loseAnswers(true) // carried out, but nobody knows
	f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"weight":10`)).want(http.StatusServiceUnavailable)
	f.store.loseAnswers(false)
	if got := f.settle(token, `"weight":10`); !got.Allowed || !got.Replayed {
		t.Errorf("got %+v", got)
	}
	if got := f.left("a", `{"user":"42"}`); got != 90 {
		t.Errorf("%d left, want 90", got)
	}
}

func TestReserve_AFailModeGivesNone(t *testing.T) {
	for _, mode := range []string{"open", "closed", "local"} {
		r := aMinute("a", 100)
		r.FailMode = mode
		f := pooled(t, "memory", nil, []rules.Rule{r}, sealing)
		f.store.fail(errAway)
		got := f.post("/ratelimit/reserve", `{"user":"42","weight":5}`).reply()
		if got.Allowed == (mode == "closed") || got.Reservation != "" || got.Degraded == nil || *got.Degraded != mode {
			t.Errorf("%s: %+v", mode, got)
		}
	}
}

func TestReserve_WithoutTheSecretTheDecisionStands(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("a", 100)},
		func(o *decide.CheckerOptions, _ *Deps) { o.Secrets = &oneSecret{err: errors.New("away")} })
	if got := f.post("/ratelimit/reserve", `{"user":"42","weight":5}`).reply(); !got.Allowed || got.Reservation != "" {
		t.Errorf("got %+v", got)
	}
	f.do(http.MethodPost, "/ratelimit/settle", `{"reservation":"abc","weight":1}`).want(http.StatusServiceUnavailable)
}

func TestReserve_TakesTheWholeRequestOrNothing(t *testing.T) {
	reserving(t, nil, []rules.Rule{aMinute("wide", 1000), aMinute("narrow", 10)}, func(t *testing.T, f *fixture) {
		if got := f.reserve(`{"user":"42","weight":11}`); got.Allowed {
			t.Fatalf("got %+v", got)
		}
		if got := f.left("wide", `{"user":"42"}`); got != 1000 {
			t.Errorf("%d left, want 1000", got)
		}
	})
}

func TestReserve_HoldsToTheLimitsOfItsMoment(t *testing.T) {
	reserving(t, shop(1000), []rules.Rule{soft(aMinute("soft", 10), 50),
		elastic(aMinute("elastic", 10), 200, "shop", "critical")}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":14}`).Reservation
		for i := range f.book.stored { // the limits are halved, and harder
			f.book.stored[i].Limit, f.book.stored[i].Throttle = 5, "hard"
			f.book.stored[i].SoftPercent, f.book.stored[i].ElasticPercent = nil, nil
		}
		f.reload()
		got := f.settle(token, `"weight":3`)
		if !got.Allowed || *got.Refunded != 11 || got.Limits[0].Limit != 10 || *got.Limits[0].Remaining != 7 {
			t.Errorf("got %+v", got)
		}
		if soft, elastic := f.left("soft", `{"user":"42"}`), f.left("elastic", `{"user":"42"}`); soft != 2 || elastic != 2 {
			t.Errorf("left %d and %d, want 2 of 5", soft, elastic)
		}
		pool := f.sets.Load().Pool("shop")
		var res limiter.Result
		err := f.store.Store.Do(t.Context(),
			&limiter.Request{Op: limiter.OpPeek, Asks: []limiter.Ask{{Key: pool.Key, Limit: pool.Limit}}}, &res)
		if err != nil || res.Limits[0].Remaining != 997 {
			t.Errorf("the pool has %+v left, %v, want 997", res.Limits, err)
		}
	})
}

func TestSettle_ShowsTheKeysOfARuleThatIsGone(t *testing.T) {
	users, keys := aMinute("users", 10), aMinute("keys", 10)
	keys.Scope = "apikey"
	reserving(t, nil, []rules.Rule{users, keys}, func(t *testing.T, f *fixture) {
		reserved := f.reserve(`{"user":"a{b}","api_key":"sk_live_0123456789abcdef","weight":2}`)
		f.book.stored = nil
		f.reload()
		got := f.settle(reserved.Reservation, `"weight":1`)
		for i, l := range got.Limits {
			if l.Key != reserved.Limits[i].Key || l.Rule != nil {
				t.Errorf("got %+v, want the key %s", l, reserved.Limits[i].Key)
			}
		}
	})
}

func TestReserve_ShadowAndCandidateAreSettledToo(t *testing.T) {
	shadow := aMinute("shadow", 100)
	shadow.Mode = "shadow"
	tried := aMinute("tried", 100)
	tried.Candidate = &rules.Candidate{Limit: ptr(int64(50))}
	reserving(t, nil, []rules.Rule{shadow, tried}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":40}`).Reservation
		if got := f.settle(token, `"weight":10`); len(got.Limits) != 1 || *got.Rule != "tried" {
			t.Errorf("got %+v", got)
		}
		for _, l := range f.check(`{"user":"42","weight":0}`).Limits {
			if want := l.Limit - 10; *l.Remaining != want {
				t.Errorf("%s %s: %d left, want %d", *l.Rule, l.Mode, *l.Remaining, want)
			}
		}
	})
}

func TestReserve_WeightFieldsAreSettledByField(t *testing.T) {
	tokens := aMinute("tokens", 100_000)
	tokens.WeightField = ptr("tokens")
	// The limits of an LLM gateway: tokens and requests a minute, and how many at once.
	reserving(t, nil, []rules.Rule{tokens, aMinute("requests", 60), slots("at-once", 2)}, func(t *testing.T, f *fixture) {
		const ask, look = `{"user":"42","fields":{"tokens":4000}}`, `{"user":"42","fields":{"tokens":0}}`
		first := f.reserve(ask)
		if first.Lease == "" || f.left("tokens", look) != 96_000 {
			t.Fatalf("got %+v", first)
		}
		f.reserve(ask)
		if got := f.reserve(ask); got.Allowed || *got.Rule != "at-once" {
			t.Fatalf("a third at once: %+v", got)
		}
		f.now.Add(800)
		if got := f.settle(first.Reservation, `"fields":{"tokens":1234}`); !got.Allowed || *got.Refunded != 4000-1234 {
			t.Errorf("got %+v", got)
		}
		if got := f.left("tokens", look); got != 100_000-4000-1234 {
			t.Errorf("%d tokens left", got)
		}
		if got := f.left("requests", look); got != 58 {
			t.Errorf("%d requests left, want 58: they weigh 1 as before", got)
		}
		if got := f.reserve(ask); !got.Allowed {
			t.Errorf("the settled request still holds its lease: %+v", got)
		}
	})
}

func TestReserve_AnEstimateOfNothingIsChargedWhenItIsSettled(t *testing.T) {
	reserving(t, nil, []rules.Rule{aMinute("a", 100)}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"user":"42","weight":0}`).Reservation
		for range 3 {
			if got := f.settle(token, `"weight":7`); !got.Allowed {
				t.Fatalf("got %+v", got)
			}
			f.now.Add(1)
		}
		if got := f.left("a", `{"user":"42"}`); got != 93 {
			t.Errorf("%d left, want 93", got)
		}
		if got := f.settle(f.reserve(`{"user":"42"}`).Reservation, `"weight":0`); !got.Allowed ||
			f.left("a", `{"user":"42"}`) != 93 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReserve_WhereNoLimitAppliesThereIsNothingToSettle(t *testing.T) {
	reserving(t, nil, []rules.Rule{aMinute("a", 100)}, func(t *testing.T, f *fixture) {
		token := f.reserve(`{"ip":"203.0.113.7"}`).Reservation
		if got := f.settle(token, `"weight":5`); !got.Allowed || len(got.Limits) != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestReserve_DirectAndRepeated(t *testing.T) {
	reserving(t, nil, nil, func(t *testing.T, f *fixture) {
		const body = `{"key":"k","limit":100,"window_ms":60000,"weight":30,"request_id":"r"}`
		first, again := f.reserve(body), f.reserve(body)
		if !again.Replayed {
			t.Errorf("got %+v", again)
		}
		f.settle(first.Reservation, `"weight":10`)
		if got := f.settle(again.Reservation, `"weight":10`); !got.Replayed {
			t.Errorf("got %+v", got)
		}
		if got := f.check(`{"key":"k","limit":100,"window_ms":60000,"weight":0}`); *got.Remaining != 90 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestSettle_RefusesATokenThatWasNotGiven(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("a", 100)}, sealing)
	token := f.reserve(`{"user":"42","weight":50}`).Reservation
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	bad := []string{"x", token[:len(token)-4], token + "AAAA", base64.RawURLEncoding.EncodeToString(make([]byte, 40)),
		f.check(`{"user":"42"}`).Lease + "abc"}
	for i := range raw {
		forged := slices.Clone(raw)
		forged[i] ^= 1
		bad = append(bad, base64.RawURLEncoding.EncodeToString(forged))
	}
	for _, b := range bad {
		if got := f.do(http.MethodPost, "/ratelimit/settle",
			settleBody(b, `"weight":0`)).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got,
			[]string{"reservation"}) {
			t.Fatalf("%q: complained about %v", b, got)
		}
	}
	if got := f.left("a", `{"user":"42"}`); got != 49 {
		t.Errorf("%d left, want 49", got)
	}
}

func TestReserve_RefusesWhatMakesNoSense(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{aMinute("a", 100)}, sealing)
	token := f.reserve(`{"user":"42"}`).Reservation
	for body, field := range map[string]string{
		`{"user":"42","ttl_ms":999}`:      "ttl_ms",
		`{"user":"42","ttl_ms":3600001}`:  "ttl_ms",
		`{"user":"42","ttl_ms":"x"}`:      "ttl_ms",
		`{"user":"42","payload":"x"}`:     "payload",
		`{"user":"42","weight":-1}`:       "weight",
		`{"key":"k","limit":1}`:           "window_ms",
		`{"user":"42","ttl_ms":99999999}`: "ttl_ms",
	} {
		if got := f.do(http.MethodPost, "/ratelimit/reserve",
			body).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: complained about %v", body, got)
		}
	}
	if got := f.do(http.MethodPost, "/ratelimit/check",
		`{"user":"42","ttl_ms":5000}`).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{"ttl_ms"}) {
		t.Errorf("a check with ttl_ms: complained about %v", got)
	}
	for rest, field := range map[string]string{
		`"weight":-1`: "weight", `"weight":1.5`: "weight", `"weight":"1"`: "weight", `"weight":9007199254740992`: "weight",
		`"fields":{"a":-1}`: "fields.a", `"fields":[]`: "fields",
	} {
		if got := f.do(http.MethodPost, "/ratelimit/settle",
			settleBody(token, rest)).want(http.StatusUnprocessableEntity).fields(); !slices.Equal(got, []string{field}) {
			t.Errorf("%s: complained about %v", rest, got)
		}
	}
	f.do(http.MethodPost, "/ratelimit/settle", `{"reservation":"`+token+`"}`).want(http.StatusUnprocessableEntity)
	f.do(http.MethodPost, "/ratelimit/settle", `{"weight":1}`).want(http.StatusUnprocessableEntity)
	f.do(http.MethodPost, "/ratelimit/settle", settleBody(token, `"weight":1,"other":2`)).want(http.StatusBadRequest)
	var many []rules.Rule
	for i := range 600 {
		many = append(many, aMinute(fmt.Sprintf("r%d", i), 100))
	}
	g := pooled(t, "memory", nil, many, sealing)
	g.do(http.MethodPost, "/ratelimit/reserve", `{"user":"42"}`).want(http.StatusUnprocessableEntity)
	if got := g.left("r7", `{"user":"42"}`); got != 100 {
		t.Errorf("%d left: a refused reserve was charged", got)
	}
}

// What a settlement leaves is in its answer, in later ones and in explain, and asks for the alerts of the rule.
func TestSettle_AboveTheLimitIsSeen(t *testing.T) {
	r := aMinute("r", 100)
	r.NotifyPercent = []int64{80}
	reserving(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
		reserved := f.reserve(`{"user":"42","weight":20}`)
		var a decide.Answer
		s := decide.Settlement{Reservation: reserved.Reservation, Weight: 125}
		if err := f.checker.SettleReservation(t.Context(), &s, &a); err != nil {
			t.Fatal(err)
		}
		if la := &a.Limits[0]; a.Allowed() || la.Decision.Allowed || la.Decision.Used != 125 ||
			!slices.Equal(la.Notify, []int64{80}) {
			t.Errorf("settled: %+v", a)
		}
		if got := f.settle(reserved.Reservation, `"weight":125`); got.Allowed || got.Status != 429 || *got.Used != 125 {
			t.Errorf("settled again: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":0}`); *got.Used != 125 || *got.Limit != 100 {
			t.Errorf("a look: %+v", got)
		}
		explained := f.post("/ratelimit/explain", `{"user":"42"}`)
		if n := strings.Count(string(explained.body), `"used":125`); n != 3 { // at the top, of the limit, and of the bucket
			t.Errorf("explained: %s", explained.body)
		}
	})
}
