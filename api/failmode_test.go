package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// failing is a rule per user with a fail mode.
func failing(name, mode string, limit int64) rules.Rule {
	r := perUser(name, limit)
	r.FailMode = mode
	return r
}

func TestDegraded_EachMixOfFailModes(t *testing.T) {
	tests := []struct {
		name     string
		rules    []rules.Rule
		allowed  bool
		status   int
		degraded string
		rule     string
		each     []string // fail mode and outcome of each limit
	}{
		{"open allows", []rules.Rule{failing("o", "open", 1)}, true, 200, "open", "o", []string{"open allowed"}},
		{"closed denies", []rules.Rule{failing("c", "closed", 1)}, false, 503, "closed", "c", []string{"closed denied"}},
		{"local decides", []rules.Rule{failing("l", "local", 1)}, true, 200, "local", "l", []string{"local allowed"}},
		{"local denies", []rules.Rule{failing("l", "local", 0)}, false, 429, "local", "l", []string{"local denied"}},
		{"closed wins over open", []rules.Rule{failing("o", "open", 1), failing("c", "closed", 1)}, false, 503, "closed", "c",
			[]string{"open allowed", "closed denied"}},
		{"closed wins over local", []rules.Rule{failing("l", "local", 0), failing("c", "closed", 1)}, false, 503, "closed",
			"c", []string{"local denied", "closed denied"}},
		{"local beside open", []rules.Rule{failing("o", "open", 1), failing("l", "local", 1)}, true, 200, "local", "l",
			[]string{"open allowed", "local allowed"}},
		{"local denies beside open", []rules.Rule{failing("o", "open", 1), failing("l", "local", 0)}, false, 429, "local",
			"l", []string{"open allowed", "local denied"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFixture(t, tt.rules)
			f.store.fail(errAway)
			r := f.check(`{"user":"42"}`)
			if r.Allowed != tt.allowed || r.Status != tt.status || r.Degraded == nil || *r.Degraded != tt.degraded ||
				r.Rule == nil || *r.Rule != tt.rule {
				t.Errorf("got %+v", r)
			}
			var each, noted []string
			for _, l := range r.Limits {
				word := l.Degraded + " denied"
				if l.Allowed {
					word = l.Degraded + " allowed"
				}
				each = append(each, word)
				noted = append(noted, l.Degraded+" connection")
			}
			if diff := cmp.Diff(tt.each, each); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(noted, f.seen.degraded); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
			f.store.fail(nil)
			if r := f.check(`{"user":"43"}`); r.Degraded != nil {
				t.Errorf("still degraded after recovery: %+v", r)
			}
		})
	}
}

func TestDegraded_ClosedTellsClientsToRetryWithAProblemOfItsOwn(t *testing.T) {
	f := newFixture(t, []rules.Rule{failing("c", "closed", 1)})
	f.store.fail(errAway)
	r := f.check(`{"user":"42"}`)
	if r.Headers["Retry-After"] != "1" || r.Headers["RateLimit"] != "" || r.Headers["X-RateLimit-Limit"] != "" {
		t.Errorf("headers %v", r.Headers)
	}
	if r.Remaining != nil || r.ResetMS != nil || *r.RetryAfterS != 1 {
		t.Errorf("figures that nobody knows: %+v", r)
	}
	if r.Body["status"] != 503.0 || r.Body["error"] != "rate_limit_unavailable" ||
		!strings.HasSuffix(r.Body["type"].(string), "#temporary-reduced-capacity") {
		t.Errorf("body %v", r.Body)
	}
}

func TestDegraded_LocalKeepsTheLimitOnThisNode(t *testing.T) {
	f := newFixture(t, []rules.Rule{failing("l", "local", 2)})
	f.store.fail(errAway)
	var got []bool
	for range 4 {
		got = append(got, f.check(`{"user":"42"}`).Allowed)
	}
	if !slices.Equal(got, []bool{true, true, false, false}) {
		t.Errorf("allowed %v", got)
	}
}

func TestDegraded_LocalSpendsNothingWhenClosedDenies(t *testing.T) {
	f := newFixture(t, []rules.Rule{failing("l", "local", 1), {
		Name: "c", Scope: "user", Method: ptr("POST"), Limit: 1, WindowMS: 1000, IsActive: true, FailMode: "closed",
		Algorithm: "fixed_window", Throttle: "hard", Mode: "enforce",
	}})
	f.store.fail(errAway)
	f.check(`{"user":"42","method":"POST"}`)
	if r := f.check(`{"user":"42","method":"GET"}`); !r.Allowed {
		t.Errorf("the denied request spent locally: %+v", r)
	}
}

func TestDegraded_WithoutALocalStoreLocalIsOpen(t *testing.T) {
	f := newFixture(t, []rules.Rule{failing("l", "local", 0)}, func(o *decide.CheckerOptions, _ *Deps) { o.Local = nil })
	f.store.fail(errAway)
	if r := f.check(`{"user":"42"}`); !r.Allowed || *r.Degraded != "open" {
		t.Errorf("allowed %v, degraded %v, %d limits, seen %v", r.Allowed, r.Degraded, len(r.Limits), f.seen.degraded[:1])
	}
}

func TestDegraded_AFailingLocalStoreIsOpen(t *testing.T) {
	broken := &faultStore{err: errAway}
	f := newFixture(t, []rules.Rule{failing("l", "local", 0)},
		func(o *decide.CheckerOptions, _ *Deps) { o.Local = broken })
	f.store.fail(errAway)
	if r := f.check(`{"user":"42"}`); !r.Allowed || *r.Degraded != "open" {
		t.Errorf("allowed %v, degraded %v, %d limits, seen %v", r.Allowed, r.Degraded, len(r.Limits), f.seen.degraded[:1])
	}
}

func TestDegraded_DirectChecksFailOpenUnlessTheySaySo(t *testing.T) {
	f := newFixture(t, nil)
	f.store.fail(errAway)
	for mode, allowed := range map[string]bool{"": true, "open": true, "closed": false, "local": true} {
		body := `{"key":"k","limit":1,"window_ms":1000}`
		if mode != "" {
			body = `{"key":"k","limit":1,"window_ms":1000,"fail_mode":"` + mode + `"}`
		}
		if r := f.check(body); r.Allowed != allowed || r.Degraded == nil {
			t.Errorf("fail mode %q: %+v", mode, r)
		}
	}
}

func TestDegraded_ShadowAloneIsNotDegradation(t *testing.T) {
	shadow := failing("trial", "closed", 1)
	shadow.Mode = "shadow"
	f := newFixture(t, []rules.Rule{shadow})
	f.store.fail(errAway)
	r := f.check(`{"user":"42"}`)
	if !r.Allowed || r.Degraded != nil || r.Limits[0].Degraded != "open" || !r.Limits[0].Allowed {
		t.Errorf("allowed %v, degraded %v, %d limits, seen %v", r.Allowed, r.Degraded, len(r.Limits), f.seen.degraded[:1])
	}
}

// stuckStore answers only when its context ends.
type stuckStore struct{ limiter.Store }

func (stuckStore) Do(ctx context.Context, _ *limiter.Request, _ *limiter.Result) error {
	<-ctx.Done()
	return &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: ctx.Err()}
}

func (s stuckStore) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, nil, nil)
	}
}

func TestDegraded_AStuckStoreIsLeftAtTheDeadline(t *testing.T) {
	shadow := failing("trial", "open", 1)
	shadow.Mode = "shadow"
	for _, rs := range [][]rules.Rule{{failing("l", "local", 1)}, {failing("l", "local", 1), shadow}} {
		f := newFixture(t, rs, func(o *decide.CheckerOptions, _ *Deps) {
			o.Store, o.Timeout = stuckStore{}, time.Millisecond
		})
		if r := f.check(`{"user":"42"}`); !r.Allowed || *r.Degraded != "local" {
			t.Errorf("got %+v", r)
		}
	}
}

func TestUnconditionalOperations_AreRefusedWhenTheStoreIsAway(t *testing.T) {
	f := newFixture(t, []rules.Rule{failing("o", "open", 1)})
	for _, op := range []string{"charge", "refund", "reset"} {
		f.store.fail(errAway)
		a := f.do(http.MethodPost, "/ratelimit/"+op, `{"user":"42"}`).want(http.StatusServiceUnavailable)
		if !strings.Contains(a.body, "/problems/store-unavailable") || !strings.Contains(a.body, "Nothing was changed") {
			t.Errorf("%s: %s", op, a.body)
		}
		f.store.fail(&limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded})
		a = f.do(http.MethodPost, "/ratelimit/"+op, `{"user":"42"}`).want(http.StatusServiceUnavailable)
		if !strings.Contains(a.body, "may have been applied") {
			t.Errorf("%s: %s", op, a.body)
		}
	}
}

func TestDegraded_MoreLimitsThanAStoreTakesFallToTheFailModes(t *testing.T) {
	var rs []rules.Rule
	for i := range limiter.MaxLimits/2 + 1 {
		for j, route := range []string{"/a/{y}", "/{x}/b"} {
			r := failing(fmt.Sprintf("r%d-%d", i, j), "open", 1)
			r.Route = ptr(route)
			rs = append(rs, r)
		}
	}
	f := newFixture(t, rs)
	r := f.check(`{"user":"42","route":"/a/b"}`)
	if !r.Allowed || r.Degraded == nil || len(r.Limits) != limiter.MaxLimits+2 || f.seen.degraded[0] != "open internal" {
		t.Errorf("allowed %v, degraded %v, %d limits, seen %v", r.Allowed, r.Degraded, len(r.Limits), f.seen.degraded[:1])
	}
}
