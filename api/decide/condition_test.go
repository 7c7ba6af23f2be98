package decide

import (
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

func TestCheck_SaysWhichConditionsFailed(t *testing.T) {
	const when = "weight % fields.sizes == 0"
	enforced, shadow := perUser("enforced", "open", 100), perUser("shadow", "open", 100)
	enforced.When, shadow.When, shadow.Mode = new(when), new(when), "shadow"
	enforced.Candidate = &rules.Candidate{Limit: new(int64(5))}
	list := []rules.Rule{enforced, shadow, perUser("other", "open", 100)}
	onStores(t, list, func(t *testing.T, f *fixture) {
		ask := func(op limiter.Op, fields map[string]int64) *Answer {
			t.Helper()
			return f.asks(op, Question{Descriptor: match.Descriptor{Fields: fields}, Weight: 1})
		}
		for _, op := range []limiter.Op{limiter.OpTake, limiter.OpPeek, limiter.OpCharge, limiter.OpRefund} {
			if a := ask(op, nil); len(a.Limits) != 4 {
				t.Errorf("%s: %d limits", op, len(a.Limits))
			} else {
				for _, la := range a.Limits {
					if la.ConditionFailed != (la.Rule != "other") {
						t.Errorf("%s of %s, %s: condition failed: %v", op, la.Rule, la.Mode(), la.ConditionFailed)
					}
				}
			}
			for _, la := range ask(op, map[string]int64{"sizes": 1}).Limits {
				if la.ConditionFailed {
					t.Errorf("%s of %s failed with the field", op, la.Rule)
				}
			}
		}
		f.store.fail(errAway)
		if a := ask(limiter.OpTake, nil); !a.Allowed() || !a.Limits[0].ConditionFailed {
			t.Errorf("by the fail mode: %+v", a)
		}
	})
}
