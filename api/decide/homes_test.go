package decide

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// farAway is a home region that does not answer: rule 1 is at home there.
type farAway struct {
	limiter.Store

	unknown bool // it may have taken what it was asked for
}

func (farAway) Timeout() time.Duration { return time.Second }
func (farAway) Regions() int           { return 3 }

func (farAway) Home(key limiter.Key) string {
	if id, _ := match.RuleID(key); id == 1 {
		return "far"
	}
	return ""
}

// farPlanet is what this region knows of that home.
type farPlanet struct {
	*planet
	farAway
}

func (f farAway) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	for i := range req.Asks {
		if f.Home(req.Asks[i].Key) != "" {
			return &limiter.StoreError{Cause: limiter.CauseConnection, Unknown: f.unknown, Err: errors.New("no answer")}
		}
	}
	return f.Store.Do(ctx, req, res)
}

func (f farAway) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = f.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// farAndNear sets up a rule that is at home far away, in a mode of failure, and one beside it.
func farAndNear(t *testing.T, mode string, more ...func(*CheckerOptions)) *fixture {
	t.Helper()
	far, near := perUser("far", mode, 9), perUser("near", rules.FailOpen, 4)
	far.ID, near.ID, far.Version, near.Version = 1, 2, 1, 1
	far.Span = rules.SpanGlobalExact
	return newFixture(t, nil, func(opt *CheckerOptions) {
		set, err := match.Compile([]rules.Rule{far, near}, 1, match.Options{Regions: 3})
		if err != nil {
			t.Fatal(err)
		}
		opt.Sets = &match.Current{}
		opt.Sets.Store(set)
		for _, change := range more {
			change(opt)
		}
		opt.Store = farAway{Store: opt.Store}
		spanRegions(opt, farPlanet{planet: &planet{}})
	})
}

// A request with a bucket that is at home elsewhere has the longer time, and others have theirs.
func TestTimeout_IsThatOfRegionsOnlyForWhatLeavesThisOne(t *testing.T) {
	c := &Checker{opt: CheckerOptions{Timeout: 25 * time.Millisecond}}
	spanRegions(&c.opt, farPlanet{planet: &planet{}})
	near := limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{{Key: "user:a|2|fw"}}}}
	far := limiter.Call{Request: limiter.Request{Asks: []limiter.Ask{near.Request.Asks[0], {Key: "user:a|1|fw"}}}}
	if got := c.timeout([]limiter.Call{near}); got != 25*time.Millisecond {
		t.Errorf("a request that stays: %v", got)
	}
	if got := c.timeout([]limiter.Call{near, far}); got != time.Second {
		t.Errorf("a request that leaves: %v", got)
	}
}

// The loss of a home decides nothing about the limits that are not at home there.
func TestDegrade_WithoutAHomeOtherLimitsAreDecidedAsAlways(t *testing.T) {
	for mode, want := range map[string]struct {
		admitted int
		left     int64
		verdict  Verdict
	}{
		rules.FailOpen:   {4, 0, Denied},      // the limit beside it denies
		rules.FailClosed: {0, 4, Unavailable}, // and nothing is charged beside it
		rules.FailLocal:  {3, 1, Denied},      // a third of 9
	} {
		f := farAndNear(t, mode)
		if got := f.admitted(12, "ada"); got != want.admitted {
			t.Errorf("%s: %d admitted, want %d", mode, got, want.admitted)
		}
		a := f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "ada"}})
		if a.Verdict != want.verdict || a.Degraded != mode || a.Limits[0].Degraded != mode || a.Limits[1].Degraded != "" ||
			!a.Limits[1].Known {
			t.Errorf("%s: %s, degraded %q, %+v", mode, a.Verdict, a.Degraded, a.Limits)
		}
		if got := a.Limits[1].Decision.Remaining; got != want.left {
			t.Errorf("%s: %d left beside it, want %d", mode, got, want.left)
		}
	}
}

// If this region has no turn for the limits beside those of a lost home, nothing is decided, also not by fail modes.
func TestDegrade_WithoutAHomeAndATurnIsOverload(t *testing.T) {
	for _, mode := range []string{rules.FailOpen, rules.FailClosed, rules.FailLocal} {
		got := map[string]int64{}
		f := farAndNear(t, mode, func(opt *CheckerOptions) {
			opt.Store, opt.Observe = &turns{Store: opt.Store, full: []string{"|2|"}}, account{got: got}
		})
		a := f.asks(limiter.OpTake, Question{Weight: 1, Descriptor: match.Descriptor{User: "ada"}})
		if a.Verdict != Overloaded || a.Degraded != "" || a.Cause != "" || a.Strictest != -1 {
			t.Errorf("%s: %+v", mode, a)
		}
		for i := range a.Limits {
			if la := &a.Limits[i]; !la.Overloaded || la.Known || la.Degraded != "" {
				t.Errorf("%s: the limit of %s: %+v", mode, la.Rule, la)
			}
		}
		want := map[string]int64{"overload wait": 1, "decision take overloaded wait": 1, "enforce overloaded wait": 2}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: observed (-want +got):\n%s", mode, diff)
		}
	}
}

// What a home may have taken is given back there, unless the caller can repeat the request. So it is owed if fail mode
// local has admitted it.
func TestDegrade_WhatAHomeGivesBackIsOwed(t *testing.T) {
	far := perUser("far", rules.FailLocal, 9)
	far.ID, far.Version, far.Span, far.WindowMS = 1, 1, rules.SpanGlobalExact, 86_400_000
	f := newFixture(t, nil, func(opt *CheckerOptions) {
		set, err := match.Compile([]rules.Rule{far}, 1, match.Options{Regions: 3})
		if err != nil {
			t.Fatal(err)
		}
		opt.Sets = &match.Current{}
		opt.Sets.Store(set)
		opt.Store = farAway{Store: opt.Store, unknown: true}
		spanRegions(opt, farPlanet{planet: &planet{}})
		opt.Ledger, err = NewLedger(LedgerOptions{Local: opt.Local, Nodes: func() int { return 1 }, Now: opt.Now})
		if err != nil {
			t.Fatal(err)
		}
	})
	for i, id := range []string{"", "", "x"} {
		if a := f.asks(limiter.OpTake, Question{Weight: 1, RequestID: id}); !a.Allowed() || a.Degraded != rules.FailLocal {
			t.Errorf("take %d: %s, degraded %q", i, a.Verdict, a.Degraded)
		}
	}
	if s := f.opt.Ledger.Stats(); s.Spent != 3 || s.Pending != 2 || s.Doubtful != 1 {
		t.Errorf("of 3 admitted, 2 are owed and 1 may be counted: %+v", s)
	}
}

// Explain says where a bucket is, also if that region does not answer.
func TestExplain_SaysWhereABucketIsAtHome(t *testing.T) {
	f := farAndNear(t, rules.FailOpen)
	said, err := f.Explain(t.Context(), &Question{Descriptor: match.Descriptor{User: "ada"}, Weight: 1})
	if err != nil || len(said.Rules) != 2 {
		t.Fatalf("%+v, %v", said, err)
	}
	for i, want := range []ConsideredLimit{{Home: "far"}, {LimitAnswer: &LimitAnswer{Known: true}}} {
		got := said.Rules[i].Bucket
		if known := want.LimitAnswer != nil; got.Home != want.Home || got.Known != known {
			t.Errorf("%s: at home in %q, known %v", said.Rules[i].Rule.Rule.Name, got.Home, got.Known)
		}
	}
}
