package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"sluice/rules"
)

// banning is a rule of one request a second for each user, which bans a user after 3 denials within 10 s.
func banning(name string, edits ...func(*rules.Rule)) rules.Rule {
	r := perUser(name, 1)
	r.Ban = &rules.Ban{After: 3, WithinMS: 10_000, ForMS: 5000, Grow: 2, MostMS: 20_000}
	for _, edit := range edits {
		edit(&r)
	}
	return r
}

// denials sends so many checks that must be denied, and returns the last answer.
func (f *fixture) denials(n int, body string) (last checkReply) {
	f.t.Helper()
	for range n {
		if last = f.check(body); last.Allowed {
			f.t.Fatalf("allowed: %+v", last)
		}
	}
	return last
}

// unbanned fails the test unless a check passes.
func (f *fixture) unbanned(body string) checkReply {
	f.t.Helper()
	a := f.check(body)
	if !a.Allowed || a.BanMS != 0 {
		f.t.Fatalf("denied: %+v", a)
	}
	return a
}

const quotaExceeded, abnormalUsage = "https://iana.org/assignments/http-problem-types#quota-exceeded",
	"https://iana.org/assignments/http-problem-types#abnormal-usage-detected"

func TestBan_BeginsLastsGrowsAndEnds(t *testing.T) {
	onBothStores(t, nil, []rules.Rule{banning("r")}, func(t *testing.T, f *fixture) {
		f.unbanned(`{"user":"42"}`)
		if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 || *a.RetryAfterMS != 1000 || a.Body["type"] != quotaExceeded {
			t.Errorf("before the ban: %+v", a)
		}
		a := f.denials(1, `{"user":"42"}`)
		if a.BanMS != 5000 || *a.RetryAfterMS != 5000 || *a.RetryAfterS != 5 || *a.Remaining != 0 || a.Status != 429 ||
			*a.Limit != 1 || *a.ResetMS != 5000 || len(a.Limits) != 1 || a.Limits[0].BanMS != 5000 || a.Limits[0].Allowed ||
			*a.Limits[0].RetryAfterMS != 5000 || a.Body["type"] != abnormalUsage || a.Headers["Retry-After"] != "5" ||
			a.Headers["RateLimit"] != `"r";r=0;t=5` || a.Headers["RateLimit-Policy"] != `"r";q=1;w=1` {
			t.Errorf("the ban begins: %+v", a)
		}
		f.unbanned(`{"user":"7"}`) // another key
		f.now.Add(4999)            // the window has passed long ago
		if a := f.denials(10, `{"user":"42"}`); a.BanMS != 1 || *a.RetryAfterMS != 1 || a.Body["type"] != abnormalUsage {
			t.Errorf("at the end of the ban: %+v", a)
		}
		f.now.Add(1)
		f.unbanned(`{"user":"42"}`) // the denials during the ban did not lengthen it, and count no more
		if a := f.denials(3, `{"user":"42"}`); a.BanMS != 10_000 {
			t.Errorf("the second ban: %+v", a)
		}
		f.now.Add(10_000)
		f.unbanned(`{"user":"42"}`)
		f.denials(2, `{"user":"42"}`)
		f.now.Add(10_000) // they count together for 10 s
		f.unbanned(`{"user":"42"}`)
		f.denials(2, `{"user":"42"}`)
		if a := f.denials(1, `{"user":"42"}`); a.BanMS != 20_000 {
			t.Errorf("the third ban: %+v", a)
		}
		f.now.Add(40_000)
		f.unbanned(`{"user":"42"}`)
		if a := f.denials(3, `{"user":"42"}`); a.BanMS != 5000 {
			t.Errorf("a ban long after the last one: %+v", a)
		}
		if want := []string{"r", "r", "r", "r"}; !slices.Equal(f.seen.bans, want) {
			t.Errorf("observed the bans %v", f.seen.bans)
		}
	})
}

// The retry-after is the later of the ban's end and the bucket's own.
func TestBan_RetryAfterIsTheLater(t *testing.T) {
	long := banning("long", func(r *rules.Rule) { r.WindowMS = 60_000 })
	onBothStores(t, nil, []rules.Rule{long}, func(t *testing.T, f *fixture) {
		f.unbanned(`{"user":"42"}`)
		if a := f.denials(3, `{"user":"42"}`); a.BanMS != 5000 || *a.RetryAfterMS != 60_000 || *a.ResetMS != 60_000 {
			t.Errorf("got %+v", a)
		}
		// Nothing helps a weight above the limit.
		if a := f.denials(1, `{"user":"42","weight":2}`); a.BanMS != 5000 || *a.RetryAfterMS != -1 {
			t.Errorf("got %+v", a)
		}
		f.now.Add(5000)
		if a := f.denials(1, `{"user":"42"}`); a.BanMS != 0 || *a.RetryAfterMS != 55_000 || a.Body["type"] != quotaExceeded {
			t.Errorf("after the ban: %+v", a)
		}
	})
}

// Only denials of takes by the rule's own limit count.
func TestBan_CountsOnlyItsOwnDenials(t *testing.T) {
	narrow := perUser("narrow", 0)
	narrow.Route = ptr("/narrow")
	onBothStores(t, nil, []rules.Rule{banning("r"), narrow}, func(t *testing.T, f *fixture) {
		f.denials(5, `{"user":"42","route":"/narrow"}`) // by the other rule
		f.unbanned(`{"user":"42"}`)
		for range 5 {
			f.post("/ratelimit/explain", `{"user":"42"}`)
			f.check(`{"user":"42","weight":0}`)
			if a := f.post("/ratelimit/charge", `{"user":"42"}`).reply(); a.Allowed || a.BanMS != 0 {
				t.Errorf("charge: %+v", a)
			}
			f.post("/ratelimit/refund", `{"user":"42"}`)
		}
		if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 {
			t.Errorf("looks, charges or refunds counted: %+v", a)
		}
		a := f.denials(1, `{"user":"42","route":"/narrow"}`) // by both
		if a.BanMS != 5000 || len(a.Limits) != 2 {
			t.Errorf("the third denial: %+v", a)
		}
		if banned := f.post("/ratelimit/charge", `{"user":"42"}`).reply(); banned.Allowed || banned.BanMS != 5000 {
			t.Errorf("a charge during the ban: %+v", banned)
		}
		if banned := f.check(`{"user":"42","weight":0}`); banned.Allowed || banned.BanMS != 5000 {
			t.Errorf("a look during the ban: %+v", banned)
		}
		var e struct {
			Decision checkReply `json:"decision"`
			Rules    []struct {
				Name, Summary string
				Bucket        *struct {
					Allowed bool  `json:"allowed"`
					BanMS   int64 `json:"ban_ms"`
				} `json:"bucket"`
			} `json:"rules"`
		}
		f.post("/ratelimit/explain", `{"user":"42"}`).decode(&e)
		if b := e.Rules[0].Bucket; e.Decision.BanMS != 5000 || b == nil || b.Allowed || b.BanMS != 5000 {
			t.Errorf("explained: %+v", e)
		}
		if want := []string{"r"}; !slices.Equal(f.seen.bans, want) {
			t.Errorf("observed the bans %v", f.seen.bans)
		}
	})
}

// A check of a rule that is charged by reports spends nothing, but its denials count.
func TestBan_OfReportsCountsDeniedChecks(t *testing.T) {
	reported := banning("failures", func(r *rules.Rule) { r.ChargeOn, r.Limit = "report", 2 })
	onBothStores(t, nil, []rules.Rule{reported, aMinute("all", 100)}, func(t *testing.T, f *fixture) {
		for range 5 {
			f.unbanned(`{"user":"42"}`)
		}
		for range 5 { // reports themselves do not count
			f.post("/ratelimit/charge", `{"user":"42"}`)
		}
		if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 {
			t.Errorf("before the ban: %+v", a)
		}
		if a := f.denials(1, `{"user":"42","request_id":"third"}`); a.BanMS != 5000 || *a.Rule != "failures" {
			t.Errorf("the ban begins: %+v", a)
		}
		f.now.Add(5000)
		if a := f.unbanned(`{"user":"42"}`); *a.Limits[0].Remaining != 2 || *a.Limits[1].Remaining != 94 {
			t.Errorf("after the ban: %+v", a)
		}
	})
}

func TestBan_ResetEndsItWithTheBucketOrAlone(t *testing.T) {
	slow := banning("slow", func(r *rules.Rule) { r.WindowMS = 60_000 })
	onBothStores(t, nil, []rules.Rule{slow, aMinute("other", 100)}, func(t *testing.T, f *fixture) {
		f.unbanned(`{"user":"42"}`)
		f.denials(3, `{"user":"42"}`)
		a := f.post("/ratelimit/reset?only=ban", `{"user":"42"}`).reply()
		if !a.Allowed || len(a.Limits) != 1 || *a.Limits[0].Rule != "slow" || a.Limits[0].Remaining != nil ||
			a.Remaining != nil || a.Limits[0].Limit != 1 {
			t.Errorf("got %+v", a)
		}
		if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 || *a.RetryAfterMS != 60_000 {
			t.Errorf("only the ban ends, and denials count anew: %+v", a)
		}
		if a := f.denials(1, `{"user":"42"}`); a.BanMS != 5000 {
			t.Errorf("the next ban is the first again: %+v", a)
		}
		if a := f.post("/ratelimit/reset", `{"user":"42"}`).reply(); !a.Allowed || *a.Limits[0].Remaining != 1 {
			t.Errorf("got %+v", a)
		}
		f.unbanned(`{"user":"42"}`)
		f.post("/ratelimit/reset?only=ban", `{"user":"nobody"}`)
		f.post("/ratelimit/reset?only=ban", `{"ip":"203.0.113.7"}`) // no rule applies

		for path, body := range map[string]string{
			"/ratelimit/reset?only=all":          `{"user":"42"}`,
			"/ratelimit/reset?only=":             `{"user":"42"}`,
			"/ratelimit/reset?only=ban&only=ban": `{"user":"42"}`,
			"/ratelimit/reset?only=ban":          `{"key":"k","limit":1,"window_ms":1000}`,
		} {
			got := f.do(http.MethodPost, path, body).want(http.StatusUnprocessableEntity).fields()
			if !slices.Equal(got, []string{"only"}) {
				t.Errorf("%s: fields %v", path, got)
			}
		}
		// What is meant to end a ban never resets the bucket.
		f.check(`{"user":"42"}`)
		for _, query := range []string{"?Only=ban", "?only=ban%", "?only=ban;", "?onlyban"} {
			if a := f.do(http.MethodPost, "/ratelimit/reset"+query, `{"user":"42"}`); a.status != 422 && a.status != 400 {
				t.Errorf("%s: %d %s", query, a.status, a.body)
			}
		}
		if a := f.check(`{"user":"42","weight":0}`); *a.Limits[0].Remaining != 0 {
			t.Errorf("the bucket was reset: %+v", a)
		}
	})
}

func TestBan_RepeatsBatchesAndReservations(t *testing.T) {
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			f := pooled(t, kind, nil, []rules.Rule{banning("r", func(r *rules.Rule) { r.Limit = 10 })}, sealing)
			first := f.reserve(`{"user":"42","weight":8}`)
			f.unbanned(`{"user":"42","request_id":"a"}`)
			if a := f.denials(1, `{"user":"42","weight":3,"request_id":"denied"}`); a.BanMS != 0 {
				t.Fatalf("a denial: %+v", a)
			}
			for range 5 {
				if a := f.unbanned(`{"user":"42","request_id":"a"}`); !a.Replayed {
					t.Fatalf("a repeat: %+v", a)
				}
			}
			if a := f.post("/ratelimit/reserve", `{"user":"42","weight":3}`).reply(); a.Allowed || a.BanMS != 0 {
				t.Fatalf("a reserve: %+v", a)
			}
			var b struct {
				Results []checkReply `json:"results"`
			}
			f.post("/ratelimit/check/batch", `{"checks":[{"user":"42","weight":3},{"user":"42"},{"user":"7"}]}`).decode(&b)
			if r := b.Results; r[0].BanMS != 5000 || r[1].BanMS != 5000 || r[1].Allowed || !r[2].Allowed || r[2].BanMS != 0 {
				t.Errorf("a batch: %+v", r)
			}
			if a := f.unbanned(`{"user":"42","request_id":"a"}`); !a.Replayed {
				t.Errorf("a repeat during the ban: %+v", a)
			}
			if a := f.settle(first.Reservation, `"weight":5`); !a.Allowed || *a.Refunded != 3 || len(a.Limits) != 1 {
				t.Errorf("settled: %+v", a)
			}
			f.now.Add(5000)
			f.unbanned(`{"user":"42","request_id":"b","weight":4}`)
			if a := f.post("/ratelimit/refund", `{"user":"42","request_id":"b"}`).reply(); *a.Refunded != 4 {
				t.Errorf("refunded: %+v", a)
			}
			if want := []string{"r"}; !slices.Equal(f.seen.bans, want) {
				t.Errorf("observed the bans %v", f.seen.bans)
			}
		})
	}
}

// Beside slots, pools and elastic limits everything stays in its place.
func TestBan_BesideOtherKindsOfLimits(t *testing.T) {
	shop := rules.NewPool()
	shop.Name, shop.Limit, shop.WindowMS = "shop", 100, 60_000
	slots := perUser("slots", 5)
	slots.Algorithm, slots.WindowMS = "concurrency", 60_000
	elastic := aMinute("elastic", 2)
	elastic.Throttle, elastic.ElasticPercent, elastic.Pool = "elastic", ptr(int64(100)), ptr("shop")
	soft := banning("soft", func(r *rules.Rule) {
		r.Limit, r.WindowMS, r.Throttle, r.SoftPercent, r.Pool = 2, 60_000, "soft", ptr(int64(50)), ptr("shop")
	})
	trial := perUser("trial", 0)
	trial.Mode = "shadow"
	all := []rules.Rule{soft, elastic, slots, trial}
	onBothStores(t, []rules.Pool{shop}, all, func(t *testing.T, f *fixture) {
		for i := range 2 {
			if a := f.unbanned(`{"user":"42"}`); a.Soft || a.Elastic || *a.Limits[2].Remaining != int64(4-i) {
				t.Errorf("got %+v", a)
			}
		}
		a := f.unbanned(`{"user":"42"}`) // beyond both limits
		if !a.Soft || !a.Elastic || *a.Limits[0].Remaining != 0 || a.Lease == "" {
			t.Errorf("got %+v", a)
		}
		if got := f.post("/ratelimit/release", `{"lease":"`+a.Lease+`"}`).reply(); *got.Refunded != 1 {
			t.Errorf("released: %+v", got)
		}
		if a := f.denials(3, `{"user":"42"}`); a.BanMS != 5000 || *a.Rule != "soft" || a.Limits[1].BanMS != 0 ||
			*a.Limits[2].Remaining != 3 || a.Soft || a.Elastic {
			t.Errorf("the ban: %+v", a)
		}
		var e struct {
			Rules []struct {
				Pool *struct {
					Used int64 `json:"used"`
				} `json:"pool"`
			} `json:"rules"`
		}
		f.post("/ratelimit/explain", `{"user":"42"}`).decode(&e)
		if used := e.Rules[0].Pool.Used; used != 3 {
			t.Errorf("the pool counts %d, want 3", used)
		}
	})
}

// Fail modes count nothing, and an override that blocks or lifts the limit bans nobody.
func TestBan_NotByFailModesOrOverrides(t *testing.T) {
	rs := []rules.Rule{banning("r", func(r *rules.Rule) { r.FailMode = "local" })}
	onBothStores(t, nil, rs, func(t *testing.T, f *fixture) {
		f.store.fail(errAway)
		f.check(`{"user":"42"}`)
		f.denials(5, `{"user":"42"}`)
		f.store.fail(nil)
		f.now.Add(1000)
		f.unbanned(`{"user":"42"}`)
		if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 || a.Degraded != nil {
			t.Errorf("a fail mode counted: %+v", a)
		}
		path := fmt.Sprintf("/ratelimit/rules/%d/overrides", f.sets.Load().At(0).Rule.ID)
		f.do(http.MethodPost, path, `{"key":"user:7","blocked":true}`).want(http.StatusCreated)
		if a := f.denials(5, `{"user":"7"}`); a.BanMS != 0 || a.Body["type"] != quotaExceeded {
			t.Errorf("an override counted: %+v", a)
		}
		if len(f.seen.bans) > 0 {
			t.Errorf("observed the bans %v", f.seen.bans)
		}
	})
}

// What waits in a queue is tried again and again, which is not its sender's doing.
func TestBan_QueuedRequestsDoNotCount(t *testing.T) {
	queue := deferringRule("queue", 1)
	queue.Route = ptr("/mail")
	slow := banning("slow", func(r *rules.Rule) { r.Limit, r.WindowMS = 3, 60_000 })
	for _, kind := range []string{"memory", "redis"} {
		t.Run(kind, func(t *testing.T) {
			f := pooled(t, kind, nil, []rules.Rule{queue, slow}, withQueue(t, nil))
			f.unbanned(`{"user":"42","route":"/mail"}`)
			if a := f.check(`{"user":"42","route":"/mail","payload":"later"}`); a.Ticket == "" {
				t.Fatalf("not queued: %+v", a)
			}
			f.unbanned(`{"user":"42","weight":2}`)
			for range 5 {
				f.now.Add(1000)
				if r := f.release("queue"); len(r.Items) > 0 {
					t.Fatalf("released: %+v", r)
				}
			}
			if a := f.denials(2, `{"user":"42"}`); a.BanMS != 0 {
				t.Errorf("tries of the queue count: %+v", a)
			}
			if a := f.denials(1, `{"user":"42"}`); a.BanMS != 5000 {
				t.Errorf("the ban: %+v", a)
			}
			f.post("/ratelimit/reset", `{"user":"42"}`)
			if r := f.release("queue"); r.payloads() != "later" {
				t.Errorf("released: %+v", r)
			}
		})
	}
}

func TestBan_BadInputNamesTheField(t *testing.T) {
	f := newFixture(t, nil)
	const good = `"after":3,"within_ms":1000,"for_ms":1000`
	for ban, want := range map[string]string{
		`3`:  "ban",
		`[]`: "ban",
		`{}`: "ban.after ban.for_ms ban.within_ms",
		`{"after":0,"within_ms":1000,"for_ms":1000}`:       "ban.after",
		`{"after":1.5,"within_ms":1000,"for_ms":1000}`:     "ban.after",
		`{"after":1000001,"within_ms":1000,"for_ms":1000}`: "ban.after",
		`{"after":3,"within_ms":"1s","for_ms":1000}`:       "ban.within_ms",
		`{"after":3,"within_ms":null,"for_ms":1000}`:       "ban.within_ms",
		`{"after":-3,"within_ms":0,"for_ms":0}`:            "ban.after ban.for_ms ban.within_ms",
		`{` + good + `,"grow":0}`:                          "ban.grow",
		`{` + good + `,"grow":11}`:                         "ban.grow",
		`{` + good + `,"most_ms":999}`:                     "ban.most_ms",
		`{` + good + `,"most_ms":0}`:                       "ban.most_ms",
		`{` + good + `,"most_ms":9007199254740991}`:        "ban.most_ms",
		`{` + good + `},"algorithm":"concurrency"`:         "ban",
		`{` + good + `},"mode":"shadow"`:                   "ban",
		`{` + good + `},"hot_keys":"leased"`:               "ban",
		`{` + good + `},"hot_keys":"sharded"`:              "ban",
		`{` + good + `},"over_limit":"defer"`:              "ban",
		`{` + good + `,"until":1}`:                         "ban.until",
	} {
		body := `{"name":"r","scope":"user","limit":1,"window_ms":1000,"ban":` + strings.TrimSuffix(ban, "}")
		if strings.HasSuffix(ban, "}") {
			body += "}"
		}
		got := f.do(http.MethodPost, "/ratelimit/rules", body+"}").want(http.StatusUnprocessableEntity).fields()
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%s: fields %s, want %s", ban, s, want)
		}
	}
	var r rules.Rule
	f.do(http.MethodPost, "/ratelimit/rules",
		`{"name":"r","scope":"user","limit":1,"window_ms":1000,"ban":{`+good+`}}`).want(http.StatusCreated).decode(&r)
	want := rules.Ban{After: 3, WithinMS: 1000, ForMS: 1000, Grow: 1, MostMS: 64_000}
	if r.Ban == nil || *r.Ban != want {
		t.Errorf("got %+v, want %+v", r.Ban, want)
	}
	f.do(http.MethodPatch, "/ratelimit/rules/1", `{"ban":null}`).want(http.StatusOK).decode(&r)
	if r.Ban != nil {
		t.Errorf("got %+v", r.Ban)
	}
}
