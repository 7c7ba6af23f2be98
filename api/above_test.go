package api

import (
	"fmt"
	"testing"

	"sluice/limiter"
	"sluice/rules"
)

func TestSoft_AHundredAMinuteWithTenPercentLetsExactly110Pass(t *testing.T) {
	for _, algorithm := range []string{"fixed_window", "sliding_window_counter", "sliding_window_buckets",
		"sliding_window_log", "token_bucket", "gcra", "leaky_bucket"} {
		r := soft(aMinute("soft", 100), 10)
		r.Algorithm = algorithm
		t.Run(algorithm, func(t *testing.T) {
			onBothStores(t, nil, []rules.Rule{r}, func(t *testing.T, f *fixture) {
				for n := 1; n <= 110; n++ {
					got := f.check(`{"user":"42"}`)
					if !got.Allowed || *got.Limit != 100 || *got.Remaining != max(0, int64(100-n)) || got.Soft != (n > 100) ||
						got.Limits[0].Soft != (n > 100) || got.Elastic {
						t.Fatalf("request %d: %+v", n, got)
					}
				}
				if n := countOf(f.seen.above, "soft soft"); n != 10 || len(f.seen.above) != 10 {
					t.Errorf("observed %v, want the ten above the limit", f.seen.above)
				}
				got := f.check(`{"user":"42"}`)
				if got.Allowed || got.Soft || got.Limits[0].Soft || got.Status != 429 || *got.Limit != 100 || *got.Remaining != 0 ||
					got.Headers["X-RateLimit-Limit"] != "100" {
					t.Fatalf("the 111th: %+v", got)
				}
				f.now.Add(*got.RetryAfterMS - 1)
				if f.check(`{"user":"42"}`).Allowed {
					t.Error("allowed a millisecond before retry_after_ms")
				}
				f.now.Add(1)
				if got := f.check(`{"user":"42"}`); !got.Allowed {
					t.Errorf("denied after exactly retry_after_ms: %+v", got)
				}
			})
		})
	}
}

func TestSoft_AWeightThatReachesAcrossTheLimitIsMarked(t *testing.T) {
	onBothStores(t, nil, []rules.Rule{soft(aMinute("soft", 100), 10)}, func(t *testing.T, f *fixture) {
		if got := f.check(`{"user":"42","weight":100}`); got.Soft || *got.Remaining != 0 {
			t.Errorf("the limit itself: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":0}`); got.Soft {
			t.Errorf("a look at the limit itself: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":11}`); got.Allowed || got.Soft {
			t.Errorf("beyond the soft part: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":3,"request_id":"a"}`); !got.Allowed || !got.Soft {
			t.Errorf("into the soft part: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":3,"request_id":"a"}`); !got.Replayed || !got.Soft || *got.Limit != 100 ||
			*got.Remaining != 0 {
			t.Errorf("repeated: %+v", got)
		}
		if got := f.check(`{"user":"42","weight":0}`); !got.Soft {
			t.Errorf("a look above the limit: %+v", got)
		}
		if got := f.post("/ratelimit/charge", `{"user":"42","weight":1}`).reply(); !got.Allowed || !got.Soft ||
			*got.Limit != 100 {
			t.Errorf("a charge: %+v", got)
		}
		if got := f.post("/ratelimit/refund", `{"user":"42","request_id":"a"}`).reply(); *got.Refunded != 3 || got.Soft ||
			*got.Limit != 100 || *got.Remaining != 0 {
			t.Errorf("a refund: %+v", got)
		}
		if got := f.explain(`{"user":"42","weight":1}`).Decision; !got.Soft {
			t.Errorf("explain: %+v", got)
		}
	})
}

func TestElastic_GoesAboveItsLimitWhileThePoolHasRoom(t *testing.T) {
	// Normal priority may find 80 of 100 in use.
	onBothStores(t, shop(100), []rules.Rule{elastic(aMinute("elastic", 10), 200, "shop", "normal")},
		func(t *testing.T, f *fixture) {
			passed := map[string]int{}
			for _, user := range []string{"a", "b", "c"} {
				for n := 1; n <= 31; n++ {
					got := f.check(fmt.Sprintf(`{"user":%q}`, user))
					if got.Allowed {
						passed[user]++
					}
					if got.Elastic != (got.Allowed && n > 10) || got.Limits[0].Elastic != got.Elastic || got.Soft ||
						*got.Limit != 10 ||
						len(got.Limits) != 1 {
						t.Fatalf("%s %d: %+v", user, n, got)
					}
				}
			}
			// a and b reach 10 + 200 %; c has its own 10 and what is left up to 80.
			if want := (map[string]int{"a": 30, "b": 30, "c": 20}); fmt.Sprint(passed) != fmt.Sprint(want) {
				t.Errorf("got %v, want %v", passed, want)
			}
			// Its own limit stands whatever the pool says.
			for n := 1; n <= 10; n++ {
				if got := f.check(`{"user":"d"}`); !got.Allowed || got.Elastic {
					t.Fatalf("d %d: %+v", n, got)
				}
			}
			if got := f.check(`{"user":"d"}`); got.Allowed || *got.RetryAfterMS != 60_000 || *got.Remaining != 0 {
				t.Errorf("the 11th of d: %+v", got)
			}
		})
}

func TestElastic_LowStarvesFirstAndCriticalNever(t *testing.T) {
	rs := []rules.Rule{}
	for _, priority := range []string{"critical", "normal", "low"} {
		r := elastic(aMinute(priority, 1), 10_000, "shop", priority)
		r.Route = ptr("/" + priority)
		rs = append(rs, r)
	}
	onBothStores(t, shop(100), rs, func(t *testing.T, f *fixture) {
		passed := map[string]int{}
		for _, priority := range []string{"low", "normal", "low", "critical", "normal", "low"} {
			for range 110 {
				if f.check(fmt.Sprintf(`{"user":"42","route":"/%s"}`, priority)).Allowed {
					passed[priority]++
				}
			}
		}
		// 50 for low; normal goes on to 80; critical to 100.
		if want := (map[string]int{"low": 50, "normal": 30, "critical": 20}); fmt.Sprint(passed) != fmt.Sprint(want) {
			t.Errorf("got %v, want %v", passed, want)
		}
	})
}

func TestElastic_WaitsForItsLimitOrThePoolWhicheverIsSooner(t *testing.T) {
	r := elastic(aMinute("elastic", 10), 100, "shop", "critical")
	r.WindowMS = 600_000
	onBothStores(t, shop(16), []rules.Rule{r}, func(t *testing.T, f *fixture) {
		for range 16 {
			f.check(`{"user":"42"}`)
		}
		got := f.check(`{"user":"42"}`)
		if got.Allowed || *got.RetryAfterMS >= 600_000 || got.Headers["Retry-After"] != fmt.Sprint(*got.RetryAfterS) {
			t.Fatalf("got %+v, want the pool's wait", got)
		}
		f.now.Add(*got.RetryAfterMS - 1)
		if f.check(`{"user":"42"}`).Allowed {
			t.Error("allowed a millisecond early")
		}
		f.now.Add(1)
		if got := f.check(`{"user":"42"}`); !got.Allowed || !got.Elastic {
			t.Errorf("denied after exactly retry_after_ms: %+v", got)
		}
		f.now.Add(120_000)
		for range 3 { // 18 to 20 of 20
			f.check(`{"user":"42"}`)
		}
		if got := f.check(`{"user":"42"}`); got.Allowed || *got.RetryAfterMS != f.untilEnd(600_000) {
			t.Errorf("got %+v, want the end of the window: nothing goes above 20", got)
		}
	})
}

// untilEnd is the time left of the window of so many ms that contains now.
func (f *fixture) untilEnd(window int64) int64 { return window - f.now.Load()%window }

func TestElastic_ARepeatIsAnsweredFromTheRecord(t *testing.T) {
	onBothStores(t, shop(100), []rules.Rule{elastic(aMinute("elastic", 1), 200, "shop", "normal")},
		func(t *testing.T, f *fixture) {
			f.check(`{"user":"42"}`)
			first := f.check(`{"user":"42","request_id":"a"}`)
			again := f.check(`{"user":"42","request_id":"a"}`)
			if !first.Elastic || first.Replayed || !again.Elastic || !again.Replayed || *again.Limit != 1 ||
				*again.Remaining != 0 {
				t.Fatalf("got %+v then %+v", first, again)
			}
			if got := f.post("/ratelimit/refund", `{"user":"42","request_id":"a"}`).reply(); *got.Refunded != 1 {
				t.Errorf("refund: %+v", got)
			}
			f.wantPool(1)
			for range 2 {
				if got := f.check(`{"user":"42"}`); !got.Elastic {
					t.Errorf("after the refund: %+v", got)
				}
			}
			if f.check(`{"user":"42"}`).Allowed {
				t.Error("above 200 %")
			}
			f.wantPool(3)
		})
}

// wantPool checks how many units the pool shop holds.
func (f *fixture) wantPool(want int64) {
	f.t.Helper()
	if got := f.poolHolds(); got != want {
		f.t.Errorf("the pool holds %d, want %d", got, want)
	}
}

func (f *fixture) poolHolds() int64 {
	f.t.Helper()
	pool := f.sets.Load().Pool("shop")
	used := f.checker.PoolState(f.t.Context(), pool).Used
	if used == nil {
		f.t.Fatal("the store does not say what the pool holds")
	}
	return *used
}

func TestPool_CountsEachRequestOnce(t *testing.T) {
	hard := inPool(aMinute("hard", 5), "shop", "low")
	other := inPool(aMinute("other", 50), "shop", "normal")
	other.WeightField = ptr("bytes")
	outside := aMinute("outside", 50)
	onBothStores(t, shop(100), []rules.Rule{hard, other, outside}, func(t *testing.T, f *fixture) {
		f.check(`{"user":"42","weight":2,"fields":{"bytes":7}}`)
		f.wantPool(7) // the largest weight
		f.check(`{"user":"42","weight":2}`)
		f.wantPool(9)
		if f.check(`{"user":"42","weight":2}`).Allowed {
			t.Fatal("hard is hard")
		}
		f.wantPool(9)
		f.post("/ratelimit/charge", `{"user":"42","weight":3,"request_id":"a"}`)
		f.wantPool(12)
		f.post("/ratelimit/refund", `{"user":"42","weight":3,"request_id":"a"}`)
		f.wantPool(9)
		f.post("/ratelimit/reset", `{"user":"42"}`)
		f.wantPool(9) // others' traffic is in there
		f.post("/ratelimit/explain", `{"user":"42"}`)
		f.wantPool(9)
	})
}

func TestPool_ThatCannotCountFurtherDeniesNobody(t *testing.T) {
	p := shop(100)
	p[0].WindowMS = limiter.MaxWindow // about 28,000 units can be counted
	r := inPool(aMinute("hard", 1_000_000), "shop", "low")
	onBothStores(t, p, []rules.Rule{r, elastic(aMinute("elastic", 30_000), 100, "shop", "critical")},
		func(t *testing.T, f *fixture) {
			for range 2 {
				if got := f.check(`{"user":"42","weight":15000,"request_id":"a"}`); !got.Allowed {
					t.Fatalf("%+v", got)
				}
			}
			if got := f.check(`{"user":"42","weight":15000,"request_id":"b"}`); !got.Allowed || got.Elastic {
				t.Fatalf("%+v", got)
			}
			if got := f.check(`{"user":"42","weight":15000,"request_id":"b"}`); !got.Replayed {
				t.Fatalf("%+v", got)
			}
			if got := f.check(`{"user":"42","weight":1}`); got.Allowed {
				t.Fatalf("above its limit although the pool is full: %+v", got)
			}
		})
}
