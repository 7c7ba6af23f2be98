package api

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules"
)

// ledger is an observer that keeps the account only.
type ledger struct {
	decide.NopObserver
	got map[string]int64
}

func (l ledger) ObserveDecision(d *decide.Decision) {
	if d.Outcome != "" {
		l.got["requests "+d.Outcome+" "+d.By]++
	}
}

func (l ledger) ObserveUnits(u decide.Units) {
	l.got[fmt.Sprintf("%s %s %s", u.Mode, u.Outcome, u.By)] += u.Count
}

func (l ledger) ObserveDoubt(d decide.Doubt) { l.got[d.Mode+" doubt"] += d.Count }

func TestAccount_SaysWhoAdmittedAndWhoDenied(t *testing.T) {
	lost := &limiter.StoreError{Cause: limiter.CauseTimeout, Unknown: true, Err: context.DeadlineExceeded}
	shadow := failing("trial", "open", 3)
	shadow.Mode = "shadow"
	tests := []struct {
		name  string
		rules []rules.Rule
		err   error
		path  string
		body  string
		want  map[string]int64
	}{
		{"the store admits", []rules.Rule{failing("o", "open", 5)}, nil, "check", `{"user":"u","weight":3}`,
			map[string]int64{"requests admitted store": 1, "enforce admitted store": 3}},
		{"the limit denies", []rules.Rule{failing("o", "open", 2)}, nil, "check", `{"user":"u","weight":3}`,
			map[string]int64{"requests denied limit": 1, "enforce denied limit": 3}},
		{"each limit counts, shadow ones apart", []rules.Rule{failing("o", "open", 9), failing("p", "open", 9), shadow}, nil,
			"check", `{"user":"u","weight":4}`, map[string]int64{"requests admitted store": 1, "enforce admitted store": 8,
				"shadow denied limit": 4}},
		{"a look spends nothing", []rules.Rule{failing("o", "open", 2)}, nil, "check", `{"user":"u","weight":0}`,
			map[string]int64{"requests admitted store": 1}},
		{"nothing applies", nil, nil, "check", `{"user":"u"}`, map[string]int64{}},
		{"a charge counts beyond the limit", []rules.Rule{failing("o", "open", 2)}, nil, "charge", `{"user":"u","weight":3}`,
			map[string]int64{"requests admitted store": 1, "enforce admitted store": 3}},
		{"open admits", []rules.Rule{failing("o", "open", 1)}, errAway, "check", `{"user":"u"}`,
			map[string]int64{"requests admitted open": 1, "enforce admitted open": 1}},
		{"closed denies", []rules.Rule{failing("o", "open", 1), failing("c", "closed", 1)}, errAway, "check", `{"user":"u"}`,
			map[string]int64{"requests denied closed": 1, "enforce denied closed": 2}},
		{"local admits beside open", []rules.Rule{failing("l", "local", 5), failing("o", "open", 5)}, errAway, "check",
			`{"user":"u"}`, map[string]int64{"requests admitted local": 1, "enforce admitted local": 1,
				"enforce admitted open": 1}},
		{"local denies", []rules.Rule{failing("l", "local", 0)}, errAway, "check", `{"user":"u"}`,
			map[string]int64{"requests denied local": 1, "enforce denied local": 1}},
		{"a lost answer leaves doubt", []rules.Rule{failing("o", "open", 1)}, lost, "check", `{"user":"u","weight":2}`,
			map[string]int64{"requests admitted open": 1, "enforce admitted open": 2, "enforce doubt": 2}},
		{"a lost charge leaves doubt", []rules.Rule{failing("o", "open", 1)}, lost, "charge", `{"user":"u","weight":2}`,
			map[string]int64{"enforce doubt": 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ledger{got: map[string]int64{}}
			f := newFixture(t, tt.rules, func(o *decide.CheckerOptions, _ *Deps) {
				o.Observe = l
			})
			f.store.fail(tt.err)
			f.do("POST", "/ratelimit/"+tt.path, tt.body)
			if diff := cmp.Diff(tt.want, l.got); diff != "" {
				t.Errorf("account (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAccount_RepeatsAndRefunds(t *testing.T) {
	l := ledger{got: map[string]int64{}}
	f := newFixture(t, []rules.Rule{failing("o", "open", 5)}, func(o *decide.CheckerOptions, _ *Deps) {
		o.Observe = l
	})
	body := `{"user":"u","weight":3,"request_id":"r-1"}`
	for _, path := range []string{"check", "check", "refund"} {
		f.do("POST", "/ratelimit/"+path, body)
	}
	want := map[string]int64{
		"requests admitted store": 1, "enforce admitted store": 3,
		"requests replayed store": 1, "enforce replayed store": 3,
		"enforce refunded store": 3,
	}
	if !maps.Equal(want, l.got) {
		t.Errorf("account (-want +got):\n%s", cmp.Diff(want, l.got))
	}
}
