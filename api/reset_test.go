package api

import (
	"fmt"
	"net/http"
	"testing"

	"sluice/rules"
)

// amounts are rules of which a question without fields says nothing: one by a field, one by a condition on one, one by
// a condition on the weight, and one that needs none.
func amounts() []rules.Rule {
	tokens, large, heavy := "tokens", "fields.bytes > 1000 and user != ''", "weight > 2"
	byField, byBytes, byWeight := aMinute("by-field", 100), aMinute("by-bytes", 100), aMinute("by-weight", 100)
	byField.WeightField, byBytes.When, byWeight.When = &tokens, &large, &heavy
	return []rules.Rule{byField, byBytes, byWeight, aMinute("plain", 100)}
}

func TestReset_ReachesWhatTheAmountsOfARequestDecide(t *testing.T) {
	onBothStores(t, nil, amounts(), func(t *testing.T, f *fixture) {
		const look = `{"user":"42","fields":{"tokens":0,"bytes":2000},"weight":0}`
		if a := f.check(`{"user":"42","fields":{"tokens":60,"bytes":2000},"weight":5}`); !a.Allowed || len(a.Limits) != 4 {
			t.Fatalf("%+v", a)
		}
		a := f.post("/ratelimit/reset", `{"user":"42"}`).reply()
		if !a.Allowed || a.Reset == nil || *a.Reset != 4 || len(a.Limits) != 4 {
			t.Errorf("got %+v, want four limits reset", a)
		}
		for _, l := range f.check(look).Limits {
			if *l.Remaining != 100 {
				t.Errorf("%s: %d remain after the reset", *l.Rule, *l.Remaining)
			}
		}
		if a := f.check(`{"user":"42","weight":3}`); len(a.Limits) != 2 || *a.Limits[0].Remaining != 97 {
			t.Errorf("a check depends on its amounts, and the bucket by weight was reset: %+v", a)
		}
		f.post("/ratelimit/reset", `{"ip":"203.0.113.7"}`).want(http.StatusOK).decode(&a)
		if !a.Allowed || a.Reset == nil || *a.Reset != 0 {
			t.Errorf("nothing was reset, and the answer is %+v", a)
		}
		if a := f.post("/ratelimit/reset", `{"key":"k","limit":1,"window_ms":1000}`).reply(); *a.Reset != 1 {
			t.Errorf("a direct limit: %+v", a)
		}
		if a := f.check(`{"user":"42"}`); a.Reset != nil {
			t.Errorf("a check says reset: %+v", a)
		}
	})
}

func TestReset_LiftsBansOfRulesWithAWeightField(t *testing.T) {
	list := amounts()[:2]
	for i := range list {
		list[i].Ban = &rules.Ban{After: 1, WithinMS: 60_000, ForMS: 600_000}
	}
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		const over = `{"user":"42","fields":{"tokens":101,"bytes":2000},"weight":101}`
		if a := f.check(over); a.BanMS == 0 || len(a.Limits) != 2 {
			t.Fatalf("no ban: %+v", a)
		}
		a := f.post("/ratelimit/reset?only=ban", `{"user":"42"}`).reply()
		if a.Reset == nil || *a.Reset != 2 {
			t.Errorf("lifted: %+v", a)
		}
		if a := f.check(`{"user":"42","fields":{"tokens":1,"bytes":2000}}`); !a.Allowed {
			t.Errorf("still banned: %+v", a)
		}
	})
}

func TestRelease_ReachesWhatTheAmountsOfARequestDecide(t *testing.T) {
	list := amounts()[:3]
	for i := range list {
		list[i].Algorithm, list[i].Limit = "concurrency", 5
	}
	onBothStores(t, nil, list, func(t *testing.T, f *fixture) {
		const job = `{"user":"42","fields":{"tokens":3,"bytes":2000},"weight":4,"request_id":"%s"}`
		if a := f.check(fmt.Sprintf(job, "a")); !a.Allowed || len(a.Limits) != 3 {
			t.Fatalf("%+v", a)
		}
		a := f.post("/ratelimit/release", `{"user":"42","request_id":"a"}`).reply()
		if !a.Allowed || *a.Refunded != 4 || len(a.Limits) != 3 {
			t.Errorf("released: %+v", a)
		}
		if a := f.check(fmt.Sprintf(job, "b")); !a.Allowed {
			t.Errorf("slots are still held: %+v", a)
		}
	})
}
