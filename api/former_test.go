package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"sluice/rules"
)

// edits are the ways in which the algorithm of rule 1 changes from that of a name to another one. Each needs the
// rule's body, which is that of aBody.
var edits = map[string]func(f *fixture, from, to string){
	"patch": func(f *fixture, _, to string) {
		f.do(http.MethodPatch, "/ratelimit/rules/1", fmt.Sprintf(`{"algorithm":%q}`, to)).want(http.StatusOK)
	},
	"put": func(f *fixture, _, to string) {
		f.do(http.MethodPut, "/ratelimit/rules/1", aBody(to)).want(http.StatusOK)
	},
	"import": func(f *fixture, _, to string) {
		f.post("/ratelimit/rules/import", `{"rules":[`+aBody(to)+`]}`)
	},
	"promotion": func(f *fixture, _, to string) {
		f.do(http.MethodPatch, "/ratelimit/rules/1",
			fmt.Sprintf(`{"candidate":{"algorithm":%q,"limit":5}}`, to)).want(http.StatusOK)
		f.do(http.MethodPost, "/ratelimit/rules/1/promote", "").want(http.StatusOK)
	},
}

func aBody(algorithm string) string {
	return fmt.Sprintf(`{"name":"r","scope":"user","algorithm":%q,"limit":5,"window_ms":60000}`, algorithm)
}

// spend makes n checks of a user that must all pass.
func (f *fixture) spend(n int, user string) {
	f.t.Helper()
	for i := range n {
		if r := f.check(fmt.Sprintf(`{"user":%q}`, user)); !r.Allowed {
			f.t.Fatalf("check %d of %d is denied: %+v", i+1, n, r)
		}
	}
}

func TestEditOfTheAlgorithm_KeepsWhatWasSpent(t *testing.T) {
	for name, edit := range edits {
		for _, pair := range [][2]string{{"fixed_window", "token_bucket"}, {"gcra", "sliding_window_counter"}} {
			t.Run(name+" to "+pair[1], func(t *testing.T) {
				onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
					f.do(http.MethodPost, "/ratelimit/rules", aBody(pair[0])).want(http.StatusCreated)
					f.spend(5, "all")
					f.spend(2, "some")
					edit(f, pair[0], pair[1])
					for user, left := range map[string]int64{"all": 0, "some": 3, "none": 5} {
						look := f.check(fmt.Sprintf(`{"user":%q,"weight":0}`, user))
						if *look.Remaining != left {
							t.Errorf("a look at %s: %d remain, want %d", user, *look.Remaining, left)
						}
						f.spend(int(left), user)
						if r := f.check(fmt.Sprintf(`{"user":%q}`, user)); r.Allowed {
							t.Errorf("%s: more than the limit passes", user)
						}
					}
				})
			})
		}
	}
}

// A rollback gives the key the bucket that it had, with what was spent meanwhile.
func TestEditOfTheAlgorithm_RolledBackKeepsWhatWasSpent(t *testing.T) {
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		f.do(http.MethodPost, "/ratelimit/rules", aBody("fixed_window")).want(http.StatusCreated)
		f.spend(2, "u")
		edits["patch"](f, "fixed_window", "sliding_window_log")
		f.spend(1, "u")
		f.do(http.MethodPost, "/ratelimit/rules/1/rollback", `{"version":1}`).want(http.StatusOK)
		f.spend(2, "u")
		if r := f.check(`{"user":"u"}`); r.Allowed {
			t.Error("a sixth request passes")
		}
	})
}

// A reset ends what was spent before the edit too, and explain says that it counts.
func TestEditOfTheAlgorithm_ResetsAndExplains(t *testing.T) {
	onBothStores(t, nil, nil, func(t *testing.T, f *fixture) {
		f.do(http.MethodPost, "/ratelimit/rules", aBody("fixed_window")).want(http.StatusCreated)
		f.spend(5, "u")
		edits["patch"](f, "fixed_window", "token_bucket")
		e := f.explain(`{"user":"u"}`)
		if r := e.Rules[0]; r.Bucket == nil || *r.Bucket.Remaining != 0 ||
			!strings.HasSuffix(r.Message, " the figures include what was spent under fixed_window.") {
			t.Errorf("explained as %+v", r)
		}
		f.post("/ratelimit/reset", `{"user":"u"}`)
		f.spend(5, "u")
	})
}

// What soft limits let pass above the limit counts on as well.
func TestEditOfTheAlgorithm_KeepsWhatASoftLimitLetPass(t *testing.T) {
	soft := aMinute("r", 5)
	soft.Throttle, soft.SoftPercent = rules.ThrottleSoft, ptr[int64](100)
	onBothStores(t, nil, []rules.Rule{soft}, func(t *testing.T, f *fixture) {
		f.spend(8, "u")
		edits["patch"](f, "fixed_window", "token_bucket")
		f.spend(2, "u")
		if r := f.check(`{"user":"u"}`); r.Allowed {
			t.Error("an eleventh request passes a limit of 5 and 100 %")
		}
	})
}

// A dry run and an import say before and after which edits lose what was spent, and only those.
func TestImport_SaysWhatAnEditOfTheAlgorithmLoses(t *testing.T) {
	f := newFixture(t, nil)
	f.do(http.MethodPost, "/ratelimit/rules", aBody("fixed_window")).want(http.StatusCreated)
	for to, warns := range map[string]bool{"token_bucket": false, "concurrency": true} {
		var plan rules.Plan
		f.post("/ratelimit/rules/import?dry_run=true", `{"rules":[`+aBody(to)+`]}`).decode(&plan)
		if got := plan.Update[0].Warnings; (len(got) > 0) != warns || warns && got[0].Field != "algorithm" {
			t.Errorf("to %s: %v", to, got)
		}
	}
}
