package api

import (
	"testing"

	"sluice/rules"
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
	if !all.Matched || all.Key != "user:42" || *all.Weight != 1 || all.Bucket == nil || all.Bucket.Remaining != 2 {
		t.Errorf("all: %+v with bucket %+v", all, all.Bucket)
	}
	if posts.Matched || posts.Reason != rules.ReasonMethod || posts.Bucket != nil || posts.Message == "" {
		t.Errorf("posts: %+v", posts)
	}
	if r := f.check(`{"user":"42","weight":0}`); *r.Remaining != 2 {
		t.Errorf("explaining spent: remaining %d", *r.Remaining)
	}
}

func TestExplain_DirectGivesTheDecisionOnly(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("all", 3)})
	var e struct {
		Decision reply
		Rules    []consideredRule
	}
	f.post("/ratelimit/explain", `{"key":"k","limit":1,"window_ms":1000,"weight":2}`).decode(&e)
	if e.Decision.Allowed || len(e.Rules) != 0 {
		t.Errorf("got %+v", e)
	}
}
