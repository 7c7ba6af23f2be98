package api

import (
	"context"
	"testing"
	"time"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

func TestExplain_SaysWhyAndSpendsNothing(t *testing.T) {
	post := perUser("posts", 5)
	post.Method = ptr("POST")
	f := newFixture(t, []rules.Rule{perUser("all", 3), post})
	f.check(`{"user":"42"}`)
	var e explanation
	for range 2 {
		f.post("/ratelimit/explain", `{"user":"42","method":"GET"}`).decode(&e)
	}
	if e.ActiveRules != 2 || len(e.Rules) != 2 {
		t.Fatalf("got %+v", e)
	}
	all, posts := e.Rules[0], e.Rules[1]
	if !all.Matched || all.Key != "user:42" || *all.Weight != 1 || all.Bucket == nil || *all.Bucket.Remaining != 2 {
		t.Errorf("all: %+v with bucket %+v", all, all.Bucket)
	}
	if posts.Matched || posts.Reason != match.ReasonMethod || posts.Bucket != nil || posts.Message == "" {
		t.Errorf("posts: %+v", posts)
	}
	if r := f.check(`{"user":"42","weight":0}`); *r.Remaining != 2 {
		t.Errorf("explaining spent: remaining %d", *r.Remaining)
	}
}

// explained is an explanation, as a client reads it.
type explained struct {
	Decision checkReply
	Rules    []consideredRule
}

func (f *fixture) explain(body string) (e explained) {
	f.t.Helper()
	f.post("/ratelimit/explain", body).decode(&e)
	return e
}

func TestExplain_ShowsCandidateAndPool(t *testing.T) {
	r := elastic(aMinute("elastic", 2), 100, "shop", "low")
	r.Candidate = &rules.Candidate{Limit: ptr(int64(1))}
	f := pooled(t, "memory", shop(100), []rules.Rule{r, inPool(aMinute("other", 9), "shop", "normal")})
	f.check(`{"user":"42"}`)
	got := f.explain(`{"user":"42"}`).Rules
	if len(got) != 2 || *got[0].Bucket.Limit != 2 || *got[0].Bucket.Remaining != 1 || *got[0].Candidate.Limit != 1 ||
		*got[0].Candidate.Remaining != 0 {
		t.Fatalf("got %+v", got)
	}
	if p := got[0].Pool; p.Name != "shop" || p.Priority != "low" || p.SharePercent != 50 || *p.Used != 1 ||
		p.Capacity != 100 || p.Load != nil {
		t.Errorf("got %+v", p)
	}
	f.report("shop", `{"utilization":0.9,"ttl_ms":5000}`)
	f.now.Add(1000)
	p := f.explain(`{"user":"42"}`).Rules[1].Pool
	if p.Priority != "normal" || p.SharePercent != 80 || p.Load == nil || p.Load.Utilization != 0.9 ||
		p.Load.ExpiresInMS != 4000 {
		t.Errorf("got %+v with load %+v", p, p.Load)
	}
	f.store.fail(errAway)
	if p := f.explain(`{"user":"42"}`).Rules[0].Pool; p.Used != nil || p.Load == nil {
		t.Errorf("with the store away: %+v", p)
	}
}

func TestExplain_DirectGivesTheDecisionOnly(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("all", 3)})
	var e struct {
		Decision checkReply
		Rules    []consideredRule
	}
	f.post("/ratelimit/explain", `{"key":"k","limit":1,"window_ms":1000,"weight":2}`).decode(&e)
	if e.Decision.Allowed || len(e.Rules) != 0 {
		t.Errorf("got %+v", e)
	}
}

// homes has every bucket at home in us, which is this region.
type homes struct{}

func (homes) Home(limiter.Key) string             { return "us" }
func (homes) TimeFor([]limiter.Ask) time.Duration { return 0 }

func (homes) Spent(context.Context, limiter.Key, limiter.Limit) []limiter.RegionUnits { return nil }

func TestExplain_NamesTheHomeOfAKey(t *testing.T) {
	for name, homes := range map[string]decide.Regions{"": nil, "us": homes{}} {
		envoy := envoyRule(2, "envoy", 5, entries.Element{Key: "user"})
		f := newFixture(t, []rules.Rule{perUser("all", 3), envoy}, func(opt *decide.CheckerOptions, _ *Deps) {
			opt.Regions = homes
		})
		if got := f.explain(`{"user":"42"}`).Rules; len(got) != 1 || got[0].Home != name {
			t.Errorf("%q: got %+v", name, got)
		}
		var e descriptorExplanation
		f.post("/ratelimit/explain", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"b"}]}]}`).decode(&e)
		if got := e.Descriptors[0]; got.Home != name {
			t.Errorf("%q: of Envoy %+v", name, got)
		}
	}
}
