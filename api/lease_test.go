package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// slots is a rule of n leases per user.
func slots(name string, n int64) rules.Rule {
	r := perUser(name, n)
	r.Algorithm, r.WindowMS = "concurrency", 60_000
	return r
}

func TestLease_ReleaseFreesTheSlotOnce(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1), perUser("rate", 100)})
	first := f.check(`{"user":"42"}`)
	if !first.Allowed || first.Lease == "" {
		t.Fatalf("got %+v, want a lease", first)
	}
	if r := f.check(`{"user":"42"}`); r.Allowed || r.Lease != "" || *r.Rule != "slots" {
		t.Fatalf("got %+v, want a denial without lease", r)
	}
	body := `{"lease":"` + first.Lease + `"}`
	if r := f.post("/ratelimit/release", body).reply(); *r.Refunded != 1 || *r.Rule != "slots" {
		t.Errorf("release: %+v", r)
	}
	if r := f.post("/ratelimit/release", body).reply(); *r.Refunded != 0 || !r.Allowed {
		t.Errorf("second release: %+v", r)
	}
	if !f.check(`{"user":"42"}`).Allowed {
		t.Error("the slot is not free")
	}
}

func TestLease_RenewProlongsUntilItHasEnded(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1)})
	body := `{"lease":"` + f.check(`{"user":"42"}`).Lease + `"}`
	for range 3 {
		f.now.Add(50_000)
		if r := f.post("/ratelimit/renew", body).reply(); !r.Allowed {
			t.Fatalf("renew: %+v", r)
		}
	}
	if f.check(`{"user":"42"}`).Allowed {
		t.Error("a renewed lease gave way")
	}
	f.now.Add(60_001)
	if r := f.post("/ratelimit/renew", body).reply(); r.Allowed {
		t.Errorf("renewed after its end: %+v", r)
	}
}

func TestLease_AShadowRuleNeverSaysThatALeaseHasEnded(t *testing.T) {
	trial := slots("trial", 1)
	trial.Mode, trial.WindowMS = "shadow", 1000
	f := newFixture(t, []rules.Rule{slots("slots", 1), trial})
	body := `{"lease":"` + f.check(`{"user":"42"}`).Lease + `"}`
	f.now.Add(1001)
	r := f.post("/ratelimit/renew", body).reply()
	if !r.Allowed || r.Status != 200 || len(r.Limits) != 2 || *r.Rule != "slots" {
		t.Errorf("got %+v, want both leases named and only the enforced one heard", r)
	}
}

func TestLease_ByRequestShapeAndID(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1), perUser("rate", 100)})
	const body = `{"user":"42","request_id":"job-7"}`
	f.check(body)
	if r := f.post("/ratelimit/renew", body).reply(); !r.Allowed || len(r.Limits) != 1 {
		t.Errorf("renew: %+v", r)
	}
	if r := f.post("/ratelimit/release", body).reply(); *r.Refunded != 1 {
		t.Errorf("release: %+v", r)
	}
	const direct = `{"key":"k","limit":1,"window_ms":60000,"algorithm":"concurrency","request_id":"job-7"}`
	f.check(direct)
	if r := f.post("/ratelimit/release", direct).reply(); *r.Refunded != 1 {
		t.Errorf("direct release: %+v", r)
	}
}

func TestLease_ARepeatOfTheSameRequestKeepsOneSlot(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 2)})
	for range 3 {
		f.check(`{"user":"42","request_id":"job-7"}`)
	}
	if r := f.check(`{"user":"42","weight":0}`); *r.Remaining != 1 {
		t.Errorf("remaining %d, want 1", *r.Remaining)
	}
}

func TestLease_ReleasesShadowSlotsToo(t *testing.T) {
	shadow := slots("trial", 1)
	shadow.Mode = "shadow"
	f := newFixture(t, []rules.Rule{slots("slots", 5), shadow})
	f.post("/ratelimit/release", `{"lease":"`+f.check(`{"user":"42"}`).Lease+`"}`)
	if r := f.check(`{"user":"42"}`); !r.Limits[1].Allowed {
		t.Errorf("the shadow slot stayed taken: %+v", r.Limits)
	}
}

func TestLease_TakenLocallyIsReleasedLocally(t *testing.T) {
	r := slots("slots", 1)
	r.FailMode = "local"
	f := newFixture(t, []rules.Rule{r})
	f.store.fail(errAway)
	lease := f.check(`{"user":"42"}`).Lease
	if got := f.post("/ratelimit/release", `{"lease":"`+lease+`"}`).reply(); *got.Refunded != 1 {
		t.Errorf("got %+v", got)
	}
	if !f.check(`{"user":"42"}`).Allowed {
		t.Error("the local slot is not free")
	}
}

// partly is a store that cannot decide some of the calls of a request.
type partly struct {
	limiter.Store
	away func(*limiter.Request) bool
}

func (s partly) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		if calls[i].Err = errAway; !s.away(&calls[i].Request) {
			calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
		}
	}
}

// The enforced lease falls to this node while the shadow one is taken in the
// shared store: each is renewed and released where it was taken.
func TestLease_EachCallOfATokenGoesToTheStoreThatTookIt(t *testing.T) {
	enforced, trial := slots("slots", 1), slots("trial", 1)
	enforced.FailMode, trial.Mode = "local", "shadow"
	var shared *faultStore
	f := newFixture(t, []rules.Rule{enforced, trial}, func(opt *decide.CheckerOptions, _ *Deps) {
		shared = &faultStore{Store: opt.Store}
		opt.Store = partly{Store: shared, away: func(req *limiter.Request) bool {
			return strings.Contains(string(req.Asks[0].Key), "|1|")
		}}
	})
	held := func() (units int64) {
		for _, req := range shared.asks {
			if req.Op != limiter.OpTake {
				continue
			}
			req.Op = limiter.OpPeek
			var res limiter.Result
			if err := shared.Store.Do(t.Context(), &req, &res); err != nil {
				t.Fatal(err)
			}
			units += 1 - res.Limits[0].Remaining
		}
		return units
	}
	body := `{"lease":"` + f.check(`{"user":"42"}`).Lease + `"}`
	if held() != 1 {
		t.Fatal("the shadow lease was not taken in the shared store")
	}
	f.now.Add(50_000)
	if r := f.post("/ratelimit/renew", body).reply(); !r.Allowed || len(r.Limits) != 2 {
		t.Errorf("renew: %+v", r)
	}
	f.now.Add(50_000)
	if held() != 1 {
		t.Error("the shadow lease was not renewed in the shared store")
	}
	if r := f.post("/ratelimit/release", body).reply(); *r.Refunded != 1 || len(r.Limits) != 2 {
		t.Errorf("release: %+v", r)
	}
	if held() != 0 {
		t.Error("the shadow lease is still held in the shared store")
	}
	if !f.check(`{"user":"42"}`).Allowed {
		t.Error("the local slot is not free")
	}
}

func TestLease_OpenAnswersCarryNone(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1)})
	f.store.fail(errAway)
	if r := f.check(`{"user":"42"}`); r.Lease != "" || !r.Allowed {
		t.Errorf("got %+v", r)
	}
}

func TestLease_MadeUpTokensAreRefused(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1), perUser("rate", 5)})
	good := f.check(`{"user":"42"}`).Lease
	raw, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	tokens := []string{"", "x", "%%%", good + "AA", strings.Repeat("A", 64<<10)}
	for n := range raw {
		tokens = append(tokens, base64.RawURLEncoding.EncodeToString(raw[:n]))
	}
	other := strings.Replace(string(raw), "|cc", "|fw", 1)
	tokens = append(tokens, base64.RawURLEncoding.EncodeToString([]byte(other)))
	before := len(f.store.asks)
	for _, tok := range tokens {
		a := f.do(http.MethodPost, "/ratelimit/release", `{"lease":"`+tok+`"}`)
		if a.status != 422 && a.status != 413 {
			t.Errorf("token %.40q: status %d", tok, a.status)
		}
	}
	if len(f.store.asks) != before {
		t.Error("a made-up token reached the store")
	}
}

func TestLease_BadInput(t *testing.T) {
	f := newFixture(t, nil)
	tests := []struct {
		body   string
		status int
		fields []string
	}{
		{`{"lease":7}`, 422, []string{"lease"}},
		{`{"lease":null}`, 422, []string{"lease"}},
		{`{"lease":"x","user":"42"}`, 400, nil},
		{`{"user":"42"}`, 422, []string{"request_id"}},
		{`{"key":"k","limit":1,"window_ms":1,"request_id":"a"}`, 422, []string{"algorithm"}},
	}
	for _, tt := range tests {
		a := f.do(http.MethodPost, "/ratelimit/release", tt.body).want(tt.status)
		if diff := cmp.Diff(tt.fields, a.fields()); diff != "" {
			t.Errorf("%s:\n%s", tt.body, diff)
		}
	}
}

func TestLease_StoreAwayIsSaid(t *testing.T) {
	f := newFixture(t, []rules.Rule{slots("slots", 1)})
	lease := f.check(`{"user":"42"}`).Lease
	f.store.fail(errAway)
	f.do(http.MethodPost, "/ratelimit/release", `{"lease":"`+lease+`"}`).want(http.StatusServiceUnavailable)
}
