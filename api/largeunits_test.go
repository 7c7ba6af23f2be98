package api

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"sluice/limiter"
	"sluice/rules"
)

// aDay returns a pool of so many units a day, and a deferring rule of 10 units a minute that counts into it.
func aDay(units int64) (rules.Pool, rules.Rule) {
	p := rules.NewPool()
	p.Name, p.Limit, p.WindowMS = "shop", units, 86_400_000
	r := inPool(aMinute("bytes", 10), "shop", "normal")
	r.OverLimit, r.Defer = "defer", &rules.Defer{MaxItems: 100, MaxAgeMS: 60_000}
	return p, r
}

// TestPools_OneThatCountsNoFurtherDeniesNobody charges 105 MB to a pool whose day cannot hold more, and then checks
// another user, whose own limit has room, with and without a payload that would wait in the rule's queue.
func TestPools_OneThatCountsNoFurtherDeniesNobody(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			pool, rule := aDay(1000)
			f := pooled(t, kind, []rules.Pool{pool}, []rules.Rule{rule}, withQueue(t, nil))
			for range 105 {
				f.post("/ratelimit/charge", `{"user":"ada","weight":1048576}`)
			}
			most := limiter.MaxExact / pool.WindowMS
			if used := f.checker.PoolState(t.Context(), f.sets.Load().Pool("shop")).Used; used == nil || *used != most {
				t.Errorf("the pool holds %v, want %d", used, most)
			}
			for i, payload := range []string{``, `,"payload":"later"`, `,"request_id":"a"`} {
				if r := f.check(`{"user":"bob","weight":1` + payload + `}`); !r.Allowed || *r.Remaining != int64(9-i) {
					t.Errorf("check%s: %+v", payload, r)
				}
			}
			f.post("/ratelimit/refund", `{"user":"bob","request_id":"a"}`)
			if r := f.check(`{"user":"bob","weight":9,"payload":"later"}`); r.Allowed {
				t.Errorf("above its own limit: %+v", r)
			}
		})
	}
}

// Random requests of all operations with large units go to rules with pools. No request fails, and a check is denied
// only if one of its limits denies.
func TestModel_LargeUnits(t *testing.T) {
	weights := []int64{0, 1, 9, 1 << 20, limiter.MaxExact / 86_400_000, limiter.MaxExact/86_400_000 + 1, 1 << 40,
		limiter.MaxExact - 1, limiter.MaxExact}
	algorithms := []string{"fixed_window", "sliding_window_log", "sliding_window_counter", "sliding_window_buckets",
		"token_bucket", "leaky_bucket", "gcra"}
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				pool, rule := aDay(rapid.SampledFrom([]int64{0, 1000, limiter.MaxExact / 86_400_000}).Draw(rt, "pool"))
				rule.Algorithm = rapid.SampledFrom(algorithms).Draw(rt, "algorithm")
				if most := limiter.MaxExact / rule.WindowMS; rule.Algorithm != "sliding_window_log" {
					rule.Limit = rapid.SampledFrom([]int64{10, 1 << 20, most}).Draw(rt, "limit")
				}
				rs := []rules.Rule{rule}
				if rapid.Bool().Draw(rt, "elastic") && rule.Algorithm != "gcra" {
					rs = append(rs, elastic(aMinute("elastic", 10), 100, "shop", "low"))
				}
				f := pooled(t, kind, []rules.Pool{pool}, rs, withQueue(t, nil), sealing)
				var held []string
				for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
					w := rapid.SampledFrom(weights).Draw(rt, "weight")
					body := fmt.Sprintf(`{"user":"%s","weight":%d`, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "user"), w)
					if rapid.Bool().Draw(rt, "named") {
						body += fmt.Sprintf(`,"request_id":"%d"`, rapid.IntRange(max(0, i-3), i).Draw(rt, "id"))
					}
					f.now.Add(rapid.SampledFrom([]int64{0, 1, 1000, 60_000, 86_400_000}).Draw(rt, "later"))
					op := rapid.SampledFrom([]string{"check", "check", "check", "charge", "charge", "refund", "reset", "reserve",
						"settle"}).Draw(rt, "op")
					path := "/ratelimit/" + op
					switch op {
					case "check":
						if rapid.Bool().Draw(rt, "payload") {
							body += `,"payload":"p"`
						}
					case "reset":
						body = `{"user":"a"`
					case "settle":
						if len(held) == 0 {
							continue
						}
						body = fmt.Sprintf(`{"reservation":"%s","weight":%d`, held[len(held)-1], w)
					}
					a := f.do(http.MethodPost, path, body+"}")
					if a.status >= http.StatusInternalServerError {
						rt.Fatalf("%s %s}: %d %s", path, body, a.status, a.body)
					}
					if a.status != http.StatusOK && a.status != http.StatusTooManyRequests {
						continue
					}
					reply := a.reply()
					if reply.Reservation != "" {
						held = append(held, reply.Reservation)
					}
					if op == "check" && !reply.Allowed &&
						!slices.ContainsFunc(reply.Limits, func(l replyLimit) bool { return !l.Allowed }) {
						rt.Fatalf("%s %s}: denied by none of its limits: %s", path, body, a.body)
					}
				}
			})
		})
	}
}

// TestElastic_ALogAboveItsLimitIsExactWithItsElasticPart charges a limit of 3 and 3 elastic units at 0, 1, 2, 3 and
// 30 s.
func TestElastic_ALogAboveItsLimitIsExactWithItsElasticPart(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			pool, _ := aDay(1000)
			rule := elastic(aMinute("calls", 3), 100, "shop", "normal")
			rule.Algorithm = "sliding_window_log"
			f := pooled(t, kind, []rules.Pool{pool}, []rules.Rule{rule})
			start := f.now.Load()
			for _, at := range []int64{0, 1000, 2000, 3000, 30_000} {
				f.now.Store(start + at)
				f.post("/ratelimit/charge", `{"user":"ada"}`)
			}
			f.now.Store(start + 60_500) // four count
			for i, want := range []bool{true, true, false} {
				if r := f.do(http.MethodPost, "/ratelimit/check", `{"user":"ada"}`).reply(); r.Allowed != want {
					t.Errorf("check %d: %+v", i, r)
				}
			}
		})
	}
}
