package api

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
)

// inForce is what an answer says of a limit.
type inForce struct{ Limit, Burst, Remaining *int64 }

func figuresIn(limit, burst, remaining *int64) inForce { return inForce{limit, burst, remaining} }

func TestAnswer_BurstStandsBesideTheLimitInForce(t *testing.T) {
	for _, a := range limiter.Algorithms() {
		for _, burst := range []string{"", `,"burst":7`} {
			body := fmt.Sprintf(`{"key":"k","limit":5,"window_ms":60000,"algorithm":%q%s,"request_id":"a"}`, a, burst)
			want := figuresIn(ptr(int64(5)), nil, ptr(int64(4)))
			if a.Bucketed() {
				if want.Burst = ptr(int64(5)); burst != "" {
					want.Burst, want.Remaining = ptr(int64(7)), ptr(int64(6))
				}
			} else if burst != "" {
				continue
			}
			f := newFixture(t, nil)
			r := f.check(body)
			again := f.check(body)
			if a != limiter.Concurrency && !again.Replayed {
				t.Errorf("%s: the repeat is no stored answer", body)
			}
			for _, r := range []checkReply{r, again} {
				l := r.Limits[0]
				for _, got := range []inForce{figuresIn(r.Limit, r.Burst, r.Remaining), figuresIn(&l.Limit, l.Burst, l.Remaining)} {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", body, diff)
					}
				}
			}
		}
	}
}

// bursty is a bucket of 100 a minute with a burst of 200.
func bursty(name string) rules.Rule {
	r := perUser(name, 100)
	r.Algorithm, r.WindowMS, r.Burst = "token_bucket", 60_000, ptr(int64(200))
	return r
}

func TestAnswer_EveryWayOfAskingNamesLimitAndBurst(t *testing.T) {
	r := bursty("calls")
	r.Tiers = map[string]rules.TierLimit{"gold": {Limit: ptr(int64(300)), Burst: ptr(int64(900))}}
	f := newFixture(t, []rules.Rule{r, perUser("wide", 5000)})
	f.post("/ratelimit/charge", `{"user":"42","weight":45}`)
	var batch struct{ Results []json.RawMessage }
	f.post("/ratelimit/check/batch", `{"checks":[{"user":"42","weight":0},{"user":"9","tier":"gold","weight":0}]}`).decode(
		&batch)
	var explained struct {
		Decision json.RawMessage
		Rules    []struct {
			Name   string
			Bucket checkReply
		}
	}
	f.post("/ratelimit/explain", `{"user":"42","weight":0}`).decode(&explained)
	for name, c := range map[string]struct {
		raw  string
		want [3]int64
	}{
		"check":   {f.post("/ratelimit/check", `{"user":"42","weight":0}`).body, [3]int64{100, 200, 155}},
		"batch":   {string(batch.Results[0]), [3]int64{100, 200, 155}},
		"tier":    {string(batch.Results[1]), [3]int64{300, 900, 900}},
		"explain": {string(explained.Decision), [3]int64{100, 200, 155}},
		"refund":  {f.post("/ratelimit/charge", `{"user":"8","weight":0}`).body, [3]int64{100, 200, 200}},
	} {
		var r checkReply
		if err := json.Unmarshal([]byte(c.raw), &r); err != nil {
			t.Fatal(err)
		}
		got := figuresIn(r.Limit, r.Burst, r.Remaining)
		if diff := cmp.Diff(figuresIn(&c.want[0], &c.want[1], &c.want[2]), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for _, l := range r.Limits {
			if bucketed := *l.Rule == "calls"; bucketed != (l.Burst != nil) {
				t.Errorf("%s: %s has burst %v", name, *l.Rule, l.Burst)
			}
		}
	}
	for _, r := range explained.Rules {
		if bucketed := r.Name == "calls"; bucketed != (r.Bucket.Burst != nil) || bucketed && *r.Bucket.Limit != 100 {
			t.Errorf("explain says of %s limit %v and burst %v", r.Name, r.Bucket.Limit, r.Bucket.Burst)
		}
	}
	f.store.fail(&limiter.StoreError{Cause: limiter.CauseConnection})
	degraded := f.check(`{"user":"42"}`)
	if l := degraded.Limits[0]; l.Limit != 100 || l.Burst == nil || *l.Burst != 200 {
		t.Errorf("degraded: %+v", l)
	}
}

// A stored answer keeps the limit of its first time, whatever the rule says now.
func TestAnswer_AStoredAnswerNamesTheLimitOfItsFirstTime(t *testing.T) {
	f := newFixture(t, nil)
	const first, edited = `{"key":"k","limit":100,"burst":200,"window_ms":60000,"algorithm":"gcra","request_id":"a"}`,
		`{"key":"k","limit":50,"burst":60,"window_ms":60000,"algorithm":"gcra","request_id":"a"}`
	f.check(first)
	if r := f.check(edited); !r.Replayed || *r.Limit != 100 || *r.Burst != 200 || *r.Remaining != 199 {
		t.Errorf("%+v", r)
	}
}

func TestHeaders_GoByTheBurst(t *testing.T) {
	for _, c := range []struct {
		limit, burst int64
		algorithm    string
		policy       string
		most         string
	}{
		{100, 200, "token_bucket", `"default";q=200;w=120`, "200"},
		{100, 155, "gcra", `"default";q=155;w=93`, "155"},
		{100, 100, "leaky_bucket", `"default";q=100;w=60`, "100"},
		{7, 3, "leaky_queue", `"default";q=3;w=26`, "3"}, // 25.7 s
		{1_000_000, 1, "gcra", `"default";q=1;w=1`, "1"},
		{0, 5, "token_bucket", `"default";q=0;w=60`, "5"},
		{0, 0, "gcra", `"default";q=0;w=60`, "0"},
	} {
		f := newFixture(t, nil)
		h := f.check(fmt.Sprintf(`{"key":"k","limit":%d,"burst":%d,"window_ms":60000,"algorithm":%q}`, c.limit, c.burst,
			c.algorithm)).Headers
		if h["RateLimit-Policy"] != c.policy || h["X-RateLimit-Limit"] != c.most {
			t.Errorf("%+v: %s, %s", c, h["RateLimit-Policy"], h["X-RateLimit-Limit"])
		}
	}
}

// Clients may go by any of the three: they wait equally long.
func TestHeaders_ResetOfADenialIsTheInstantOfItsRetryAfter(t *testing.T) {
	for _, delta := range []bool{false, true} {
		r := perUser("narrow", 2)
		r.Algorithm, r.WindowMS, r.RetryJitterMS = "sliding_window_counter", 20_000, ptr(int64(5000))
		f := newFixture(t, []rules.Rule{r, perUser("wide", 100)}, func(o *decide.CheckerOptions, d *Deps) {
			o.Rand, d.ResetDelta = func(int64) int64 { return 1700 }, delta
		})
		f.now.Add(300)
		f.check(`{"user":"42"}`)
		allowed := f.check(`{"user":"42"}`)
		denied := f.check(`{"user":"42"}`)
		if denied.Allowed || *denied.ResetMS < 30_000 {
			t.Fatalf("%+v", denied)
		}
		late := f.now.Load()
		for _, c := range []struct {
			said checkReply
			wait int64
		}{{allowed, *allowed.ResetMS}, {denied, *denied.RetryAfterMS}} {
			want := reply.CeilSeconds(late + c.wait)
			if delta {
				want = reply.CeilSeconds(c.wait)
			}
			h := c.said.Headers
			if h["X-RateLimit-Reset"] != strconv.FormatInt(want, 10) {
				t.Errorf("delta %v: reset %s, want %d beside %v", delta, h["X-RateLimit-Reset"], want, h)
			}
			if got := structured(t, h["RateLimit"])[0].Params["t"]; got != reply.CeilSeconds(c.wait) {
				t.Errorf("t=%d, want %d", got, reply.CeilSeconds(c.wait))
			}
		}
		if want := strconv.FormatInt(reply.CeilSeconds(*denied.RetryAfterMS), 10); denied.Headers["Retry-After"] != want {
			t.Errorf("Retry-After %s, want %s", denied.Headers["Retry-After"], want)
		}
		// Waiting never helps: no header names an instant to come back, whatever other limits say.
		never := f.check(`{"user":"42","weight":3}`)
		h := never.Headers
		if *never.RetryAfterMS != -1 || *never.ResetMS <= 0 || h["Retry-After"] != "" || h["X-RateLimit-Reset"] != "" {
			t.Errorf("delta %v: %+v with %v", delta, never, h)
		}
		for _, item := range structured(t, h["RateLimit"]) {
			if v, ok := item.Params["t"]; ok {
				t.Errorf("delta %v: %v names t=%v", delta, h, v)
			}
		}
	}
}
