package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// Two limits of a login: five a minute per address, three per account.
const (
	perAddress = `{"name":"per-ip","key":"login:ip:203.0.113.7","limit":5,"window_ms":60000}`
	perAccount = `{"key":"login:user:42","limit":3,"window_ms":60000,"algorithm":"fixed_window"}`
	login      = `{"limits":[` + perAddress + `,` + perAccount + `]}`
)

// leftOf is what remains of each limit of a check.
func (f *fixture) leftOf(check string) (left []int64) {
	f.t.Helper()
	for _, l := range f.check(with(check, `"weight":0`)).Limits {
		left = append(left, *l.Remaining)
	}
	return left
}

func TestSeveral_AreTakenTogetherOrNotAtAll(t *testing.T) {
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		for i := range 3 {
			a := f.check(login)
			if !a.Allowed || *a.Rule != "default-2" || *a.Remaining != int64(2-i) || len(a.Limits) != 2 ||
				*a.Limits[0].Rule != "per-ip" || a.Limits[0].Key != "login:ip:203.0.113.7" || *a.Limits[0].Remaining != int64(4-i) {
				t.Fatalf("check %d: %+v", i+1, a)
			}
		}
		a := f.check(login)
		if a.Allowed || a.Status != 429 || *a.Rule != "default-2" || !a.Limits[0].Allowed || a.Limits[1].Allowed {
			t.Errorf("the fourth: %+v", a)
		}
		if policy := a.Headers["RateLimit-Policy"]; policy != `"per-ip";q=5;w=60, "default-2";q=3;w=60` {
			t.Errorf("RateLimit-Policy: %s", policy)
		}
		if left := fmt.Sprint(f.leftOf(login)); left != "[2 0]" {
			t.Errorf("left after a denial: %s", left)
		}
		if a := f.check(`{"key":"login:ip:203.0.113.7","limit":5,"window_ms":60000}`); *a.Remaining != 1 {
			t.Errorf("the same key alone has another bucket: %+v", a)
		}
	})
}

func TestSeveral_InEveryOperation(t *testing.T) {
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		f.check(with(login, `"request_id":"a"`))
		if a := f.check(with(login, `"request_id":"a"`)); !a.Replayed || fmt.Sprint(f.leftOf(login)) != "[4 2]" {
			t.Errorf("a repeat: %+v", a)
		}
		if a := f.post("/ratelimit/charge", with(login, `"weight":4`)).reply(); *a.Limits[1].Remaining != 0 {
			t.Errorf("a charge: %+v", a)
		}
		if a := f.post("/ratelimit/refund", with(login, `"request_id":"a"`)).reply(); *a.Refunded != 1 {
			t.Errorf("a refund: %+v", a)
		}
		if a := f.post("/ratelimit/reset", login).reply(); *a.Limits[0].Remaining != 5 || *a.Limits[1].Remaining != 3 {
			t.Errorf("a reset: %+v", a)
		}
		batch := f.post("/ratelimit/check/batch", `{"checks":[`+login+`,`+with(login, `"weight":3`)+`,{"key":"k","limit":1,"window_ms":9}]}`)
		var answers struct {
			Results []checkReply `json:"results"`
		}
		batch.decode(&answers)
		if r := answers.Results; len(r) != 3 || !r[0].Allowed || r[1].Allowed || !r[2].Allowed || r[2].Rule != nil {
			t.Errorf("a batch: %+v", r)
		}
		if a := f.post("/ratelimit/explain", login); a.status != 200 || !strings.Contains(a.body, `"rule":"per-ip"`) {
			t.Errorf("explained: %d %s", a.status, a.body)
		}
	})
}

func TestSeveral_AreReservedAndSettled(t *testing.T) {
	reserving(t, nil, nil, func(t *testing.T, f *fixture) {
		r := f.reserve(with(login, `"weight":3`))
		got := f.settle(r.Reservation, `"weight":1,"fields":{"per-ip":5}`)
		if !got.Allowed || *got.Limits[0].Rule != "per-ip" || *got.Limits[1].Rule != "default-2" || *got.Refunded != 2 ||
			fmt.Sprint(f.leftOf(login)) != "[4 2]" {
			t.Errorf("settled: %+v", got)
		}
	})
}

func TestSeveral_WithConcurrency(t *testing.T) {
	const jobs = `{"limits":[{"name":"a-minute","key":"jobs","limit":9,"window_ms":60000},` +
		`{"name":"at-once","key":"jobs","limit":1,"window_ms":60000,"algorithm":"concurrency"}]}`
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		first := f.check(jobs)
		if !first.Allowed || first.Lease == "" || f.check(jobs).Allowed || fmt.Sprint(f.leftOf(jobs)) != "[8 0]" {
			t.Fatalf("got %+v", first)
		}
		if a := f.post("/ratelimit/release", `{"lease":"`+first.Lease+`"}`); a.status != 200 || !f.check(jobs).Allowed {
			t.Errorf("released: %d %s", a.status, a.body)
		}
	})
}

func TestSeveral_OneKeyHasABucketForEachKindAndWindow(t *testing.T) {
	const both = `{"limits":[{"name":"s","key":"u","limit":10,"window_ms":1000},` +
		`{"name":"d","key":"u","limit":1000,"window_ms":86400000}]}`
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		left := func(check string) int64 {
			t.Helper()
			return *f.check(with(check, `"weight":0`)).Remaining
		}
		if a := f.check(with(both, `"weight":4`)); !a.Allowed || fmt.Sprint(f.leftOf(both)) != "[6 996]" {
			t.Errorf("two windows: %+v, left %v", a, f.leftOf(both))
		}
		f.check(`{"key":"u","limit":10,"window_ms":1000,"weight":6}`)
		if a := f.check(both); a.Allowed || fmt.Sprint(f.leftOf(both)) != "[0 996]" {
			t.Errorf("the second is full: %+v, left %v", a, f.leftOf(both))
		}
		f.post("/ratelimit/reset", `{"key":"u","limit":10,"window_ms":1000}`).want(http.StatusOK)
		if got := fmt.Sprint(f.leftOf(both)); got != "[10 996]" {
			t.Errorf("left after a reset of one: %s", got)
		}
		for _, a := range []string{"token_bucket", "gcra", "fixed_window", "sliding_window_log", "sliding_window_buckets"} {
			if got := left(`{"key":"u","limit":1000,"window_ms":86400000,"algorithm":"` + a + `"}`); got != 1000 {
				t.Errorf("%s: %d left, want its own bucket", a, got)
			}
		}
		// What does not name the bucket keeps what was spent.
		const bucket = `{"key":"v","window_ms":60000,"algorithm":"token_bucket","limit":`
		f.check(bucket + `60,"weight":9}`)
		if got := left(bucket + `60,"burst":20}`); got != 11 {
			t.Errorf("another burst: %d left, want 11", got)
		}
		if got := left(bucket + `90}`); got != 81 {
			t.Errorf("another limit: %d left, want 81", got)
		}
		same := `{"limits":[{"key":"u","limit":10,"window_ms":1000},{"key":"u","limit":9,"window_ms":1000,"algorithm":` +
			`"sliding_window_counter"}]}`
		if a := f.do(http.MethodPost, "/ratelimit/check", same); a.status != 422 {
			t.Errorf("all three equal: %d, want 422", a.status)
		}
	})
}

func TestSeveral_TheStrictestFailModeDecidesForAll(t *testing.T) {
	for want, modes := range map[string][2]string{"closed": {"open", "closed"}, "local": {"local", "open"},
		"open": {"open", "open"}} {
		f := newFixture(t, nil)
		f.store.fail(errAway)
		a := f.check(fmt.Sprintf(`{"limits":[{"key":"a","limit":1,"window_ms":1000,"fail_mode":%q},`+
			`{"key":"b","limit":1,"window_ms":1000,"fail_mode":%q}]}`, modes[0], modes[1]))
		if a.Degraded == nil || *a.Degraded != want || a.Allowed != (want != "closed") {
			t.Errorf("%v: got %+v", modes, a)
		}
	}
}

func TestSeveral_OverSlotsOfACluster(t *testing.T) {
	f := newFixture(t, nil)
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	var limits []string
	for i := range 16 {
		limits = append(limits, fmt.Sprintf(`{"key":"cluster-%d","limit":%d,"window_ms":60000}`, i, 5+i%2))
	}
	check := `{"limits":[` + strings.Join(limits, ",") + `]}`
	for i := range 6 {
		if a := f.check(check); a.Allowed != (i < 5) || len(a.Limits) != 16 {
			t.Fatalf("check %d: %+v", i+1, a)
		}
	}
	if left := fmt.Sprint(f.leftOf(check)); left != "[0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1]" {
		t.Errorf("left after a denial: %s", left)
	}
}

// The other operations over slots of a cluster, where parts of a request are charged and given back apart.
func TestSeveral_InEveryOperationOverSlots(t *testing.T) {
	f := newFixture(t, nil, sealing)
	f.store.Store = at(t, testenv.SharedCluster(t).URL(), f.now.Load)
	const check = `{"limits":[{"name":"a","key":"slots-1","limit":9,"window_ms":60000},` +
		`{"name":"b","key":"slots-2","limit":7,"window_ms":60000},{"name":"c","key":"slots-3","limit":5,"window_ms":60000}]}`
	left := func(what, want string) {
		t.Helper()
		if got := fmt.Sprint(f.leftOf(check)); got != want {
			t.Errorf("after %s: %s left, want %s", what, got, want)
		}
	}
	f.check(with(check, `"weight":2,"request_id":"a"`))
	if a := f.check(with(check, `"weight":2,"request_id":"a"`)); !a.Replayed {
		t.Errorf("a repeat: %+v", a)
	}
	left("a check", "[7 5 3]")
	f.post("/ratelimit/charge", with(check, `"weight":4`)).want(200)
	left("a charge above the limit", "[3 1 0]")
	f.post("/ratelimit/refund", with(check, `"weight":2,"request_id":"a"`)).want(200)
	left("a refund", "[5 3 1]")
	a := f.reserve(with(check, `"weight":1`))
	left("a reserve", "[4 2 0]")
	f.settle(a.Reservation, `"weight":0`)
	left("a settlement", "[5 3 1]")
	f.post("/ratelimit/check/batch", `{"checks":[`+check+`,`+check+`]}`).want(200)
	left("a batch, whose second check is denied", "[4 2 0]")
	f.post("/ratelimit/reset", check).want(200)
	left("a reset", "[9 7 5]")
}

func TestSeveral_BadInputIsNamed(t *testing.T) {
	f := newFixture(t, nil)
	one := func(members string) string { return `{"limits":[` + members + `]}` }
	var many []string
	for i := range 17 {
		many = append(many, fmt.Sprintf(`{"key":"k%d","limit":5,"window_ms":1000}`, i))
	}
	for body, field := range map[string]string{
		`{"limits":[]}`:                                            "limits",
		`{"limits":{}}`:                                            "limits",
		`{"limits":null}`:                                          "limits",
		one(strings.Join(many, ",")):                               "limits",
		one(`1`):                                                   "limits[0]",
		one(perAddress + `,"x"`):                                   "limits[1]",
		one(`{"limit":5,"window_ms":1}`):                           "limits[0].key",
		one(`{"key":"k","window_ms":1}`):                           "limits[0].limit",
		one(`{"key":"k","limit":1}`):                               "limits[0].window_ms",
		one(`{"key":"k","limit":-1,"window_ms":1}`):                "limits[0].limit",
		one(`{"key":"k","limit":1,"window_ms":1,"name":"A"}`):      "limits[0].name",
		one(`{"key":"k","limit":1,"window_ms":1,"name":""}`):       "limits[0].name",
		one(`{"key":"k","limit":1,"window_ms":1,"name":7}`):        "limits[0].name",
		one(`{"key":"k","limit":1,"window_ms":1,"burst":7}`):       "limits[0].burst",
		one(`{"key":"k","limit":1,"window_ms":1,"fail_mode":"x"}`): "limits[0].fail_mode",
		one(perAddress + `,` + perAddress):                         "limits[1].name",
		one(perAccount + `,` + perAccount):                         "limits[1].key",
		one(`{"key":"k","limit":1,"window_ms":1,"algorithm":"token_bucket"},` +
			`{"key":"k","limit":2,"window_ms":1,"algorithm":"leaky_bucket"}`): "limits[1].key",
		one(`{"key":"k","limit":1,"window_ms":1,"name":"default-2"},` + perAccount): "limits[1].name",
		with(login, `"key":"k"`):          "key",
		with(login, `"limit":5`):          "limit",
		with(login, `"user":"42"`):        "user",
		with(login, `"fields":{}`):        "fields",
		with(login, `"fail_mode":"open"`): "fail_mode",
		with(login, `"payload":"p"`):      "payload",
		with(login, `"weight":-1`):        "weight",
	} {
		a := f.do(http.MethodPost, "/ratelimit/check", body)
		if a.status != 422 || !strings.Contains(a.body, `"field":"`+field+`"`) {
			t.Errorf("%.90s: %d, want 422 for %s: %s", body, a.status, field, a.body)
		}
	}
	batch := f.do(http.MethodPost, "/ratelimit/check/batch", `{"checks":[{"user":"42"},`+one(`{"key":"","limit":1,"window_ms":1}`)+`]}`)
	if !strings.Contains(batch.body, `"field":"checks[1].limits[0].key"`) {
		t.Errorf("in a batch: %d %s", batch.status, batch.body)
	}
	for _, body := range []string{`{"name":"a","key":"k","limit":1,"window_ms":1}`, one(`{"key":"k","limits":[]}`),
		one(`{"key":"k","weight":1}`), `{"limits":[{}],"limits":[{}]}`, one(`{"key":"k","key":"k"}`), `{"limits":[`, one(`{`)} {
		if a := f.do(http.MethodPost, "/ratelimit/check", body); a.status != 400 {
			t.Errorf("%s: %d, want 400: %s", body, a.status, a.body)
		}
	}
	slots := one(`{"key":"k","limit":1,"window_ms":1000,"algorithm":"concurrency"},` + perAddress)
	for path, field := range map[string]string{"charge": "limits[0].algorithm", "refund": "limits[0].request_id",
		"release": "limits[1].algorithm", "renew": "request_id"} {
		if a := f.do(http.MethodPost, "/ratelimit/"+path, slots); a.status != 422 || !strings.Contains(a.body, `"field":"`+field+`"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if n := len(f.store.asks); n != 0 {
		t.Errorf("bad input reached the store %d times", n)
	}
}
