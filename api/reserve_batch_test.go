package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/limiter"
	"sluice/rules"
)

// batched is the answer to a batch of settlements and reserves.
type batched struct {
	Settlements, Reserves []struct {
		Answer  *checkReply
		Problem *reply.Problem
	}
}

func (f *fixture) batch(settlements, reserves []string) (b batched) {
	f.t.Helper()
	f.post("/ratelimit/reserve/batch", `{"settlements":[`+strings.Join(settlements, ",")+`],"reserves":[`+
		strings.Join(reserves, ",")+`]}`).decode(&b)
	if len(b.Settlements) != len(settlements) || len(b.Reserves) != len(reserves) {
		f.t.Fatalf("%d and %d results, want %d and %d", len(b.Settlements), len(b.Reserves), len(settlements), len(reserves))
	}
	return b
}

// Each of a batch is carried out by itself, and what settlements give back is there for the reserves.
func TestReserveBatch_SettlesAndThenReserves(t *testing.T) {
	reserving(t, nil, []rules.Rule{fixedMinute("a", 500)}, func(t *testing.T, f *fixture) {
		first := f.batch(nil, []string{`{"user":"1","times":300}`, `{"user":"2","times":400}`, `{"user":"1","times":300}`})
		sum := first.Reserves[0].Answer.Granted + first.Reserves[2].Answer.Granted
		if sum != 500 || first.Reserves[1].Answer.Granted != 400 {
			t.Errorf("granted %d to one, and %d", sum, first.Reserves[1].Answer.Granted)
		}
		second := f.batch([]string{
			settleBody(first.Reserves[1].Answer.Reservation, `"weight":10,"decisions":{"allowed":10}`),
			settleBody("none", `"weight":1`),
			settleBody(first.Reserves[1].Answer.Reservation, `"weight":10,"decisions":{"allowed":10}`),
		}, []string{`{"user":"2","times":500}`, `{"user":"2","times":500}`})
		s := second.Settlements
		if s[0].Answer == nil || *s[0].Answer.Refunded != 390 || s[2].Answer == nil || s[1].Problem == nil ||
			s[1].Problem.Status != http.StatusUnprocessableEntity || s[1].Answer != nil {
			t.Errorf("settled: %+v", s)
		}
		granted := second.Reserves[0].Answer.Granted + second.Reserves[1].Answer.Granted
		if left := f.left("a", `{"user":"2"}`); granted != 490 || left != 0 {
			t.Errorf("%d granted and %d left, want 490 and 0", granted, left)
		}
	})
}

func TestReserveBatch_OneThatIsInvalidRefusesAll(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("a", 500)}, sealing)
	many := strings.Repeat(`{"user":"1"},`, maxReserves) + `{"user":"1"}`
	for _, tt := range []struct {
		body, field string
		status      int
	}{
		{`{}`, "reserves", 422},
		{`{"reserves":7}`, "reserves", 422},
		{`{"reserves":[{"user":"1"},7]}`, "reserves[1]", 422},
		{`{"reserves":[{"user":"1"},{"user":"1","times":0}]}`, "reserves[1].times", 422},
		{`{"reserves":[{"user":"1"},{"limits":[{"key":"k"}]}]}`, "reserves[1].limits[0].limit", 422},
		{`{"reserves":[{"user":"1"}],"settlements":[{"reservation":"x","weight":-1}]}`, "settlements[0].weight", 422},
		{`{"reserves":[{"user":"1"}],"settlements":[{"weight":1}]}`, "settlements[0].reservation", 422},
		{`{"reserves":[` + many + `]}`, "reserves", 422},
		{`{"reserves":[{"user":"1","payload":"x"}]}`, "reserves[0].payload", 422},
		{`{"reserves":[{"user":"1"}],"more":1}`, "", 400},
		{`{"reserves":[{"user":"1"}],"reserves":[]}`, "", 400},
		{`{"reserves":[{"user":"1","user":"1"}]}`, "", 400},
		{`{"reserves":[{"user":"1"}],"settlements":[{"weight":1,"wait":1}]}`, "", 400},
		{`{"reserves":[{"user":"` + strings.Repeat("x", maxBody) + `"}]}`, "", 413},
	} {
		a := f.do(http.MethodPost, "/ratelimit/reserve/batch", tt.body).want(tt.status)
		if !strings.Contains(a.body, `"field":"`+tt.field+`"`) && tt.field != "" {
			t.Errorf("%.80s: %s", tt.body, a.body)
		}
	}
	if left := f.left("a", `{"user":"1"}`); left != 500 {
		t.Errorf("%d left, want 500", left)
	}
}

// What denies a grant is no decision about a request: none counts until its caller reports it.
func TestGrant_ADeniedOneCountsWhatItsCallerReports(t *testing.T) {
	wide := fixedMinute("wide", 10_000)
	wide.Scope = "global"
	var units tally
	count := func(o *decide.CheckerOptions, _ *Deps) { o.Observe = &units }
	for _, kind := range []string{"memory", "redis"} {
		units.clear()
		f := pooled(t, kind, nil, []rules.Rule{wide, fixedMinute("a", 20)}, sealing, count)
		f.check(`{"user":"42","weight":13}`)
		units.clear()
		denied := f.reserve(`{"user":"42","times":300,"least":8}`)
		if denied.Allowed || units.all() != "" {
			t.Errorf("%s: a denied reserve counts %s", kind, units.all())
		}
		for range 2 { // each counts
			if got := f.settle(denied.Reservation, `"decisions":{"denied":1000}`); got.Allowed || *got.Rule != "a" {
				t.Errorf("%s: %+v", kind, got)
			}
		}
		if got, want := units.all(), "a: 2000 denied, 4000 units"; got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
		for body, field := range map[string]string{
			`"decisions":{"denied":1000001}`: "decisions.denied", `"decisions":{"allowed":1}`: "decisions.allowed"} {
			a := f.do(http.MethodPost, "/ratelimit/settle", settleBody(denied.Reservation, body)).want(422)
			if !strings.Contains(a.body, `"field":"`+field+`"`) {
				t.Errorf("%s: %s", body, a.body)
			}
		}
		if left := f.left("a", `{"user":"42"}`); left != 7 {
			t.Errorf("%d left, want 7", left)
		}
		f.now.Add(61_000)
		f.do(http.MethodPost, "/ratelimit/settle", settleBody(denied.Reservation, `"decisions":{"denied":1}`)).want(410)
	}
}

// tally counts requests that were denied, and units.
type tally struct {
	decide.NopObserver
	mu     sync.Mutex
	denied map[string]int64
	units  int64
}

func (c *tally) ObserveDecision(d *decide.Decision) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := d.Answer
	switch {
	case d.Settled != nil && d.Settled.Decisions != nil:
		c.denied[a.Limits[a.Strictest].Rule] += d.Settled.Decisions.Denied
	case a.Op == limiter.OpTake && !d.Lease && !a.Allowed():
		c.denied[a.Limits[a.Strictest].Rule]++
	}
}

func (c *tally) ObserveUnits(u decide.Units) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u.Outcome == decide.OutcomeDenied {
		c.units += u.Count
	}
}

func (c *tally) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied, c.units = map[string]int64{}, 0
}

func (c *tally) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for rule, n := range c.denied {
		out = append(out, fmt.Sprintf("%s: %d denied", rule, n))
	}
	if c.units > 0 {
		out = append(out, fmt.Sprintf("%d units", c.units))
	}
	return strings.Join(out, ", ")
}

// Empty lists have empty results.
func TestReserveBatch_NothingToDo(t *testing.T) {
	f := pooled(t, "memory", nil, []rules.Rule{fixedMinute("a", 500)}, sealing)
	a := f.post("/ratelimit/reserve/batch", `{"reserves":[]}`)
	var v map[string][]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || len(v["reserves"]) != 0 || v["settlements"] == nil {
		t.Errorf("got %s, %v", a.body, err)
	}
}
