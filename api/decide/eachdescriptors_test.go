package decide

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// countingStore counts the calls of a store.
type countingStore struct {
	limiter.Store
	calls int
}

func (s *countingStore) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	s.calls++
	return s.Store.Do(ctx, req, res)
}

func (s *countingStore) DoAll(ctx context.Context, calls []limiter.Call) {
	s.calls++
	s.Store.DoAll(ctx, calls)
}

// eachRules are rules of every kind that calls of descriptors plan differently.
func eachRules() []rules.Rule {
	return []rules.Rule{
		shop("plain", "user", 2), shop("path", "path user", 3, failsTo(rules.FailClosed)),
		shop("report", "report user", 2, charged),
		shop("quota-1", "q1 user", 1, quota), shop("quota-2", "q2 user", 2, quota), shop("shadow", "s user", 1, shadowed),
		shop("free", "free user", 1, unlimited, replaces("plain")), shop("lease", "lease user", 1, leased(60_000)),
		shop("banned", "b user", 1,
			func(r *rules.Rule) { r.Ban = &rules.Ban{After: 1, WithinMS: 60_000, ForMS: 10_000} }),
	}
}

// eachCalls are calls of one user of all these rules.
func eachCalls(user string) [][]AskedDescriptor {
	of := func(keys string, addend int64, marks string) AskedDescriptor {
		return asked(keys+"user="+user, addend, marks)
	}
	return [][]AskedDescriptor{
		{of("", 1, "")}, {of("path=/ ", 1, ""), of("", 1, "")}, {of("", 1, ""), of("path=/ ", 1, "")},
		{of("report=x ", 5, "e"), of("path=/ ", 1, "")},
		{of("q1=x ", 1, ""), of("q2=x ", 1, ""), of("path=/ ", 1, "")}, {of("q1=x ", 1, ""), of("path=/ ", 1, "")},
		{of("q1=x ", 1, ""), of("q2=x ", 1, ""), of("path=/ ", 0, "")},
		{of("s=x ", 1, ""), of("s=x ", 1, "")}, {of("free=x ", 1, ""), of("", 9, "")},
		{of("lease=x ", 1, "")}, {of("lease=x ", 1, "")}, {of("lease=x ", 1, "n")},
		{of("b=x ", 1, "")}, {of("b=x ", 1, "")}, {of("b=x ", 1, "")},
		{of("", 1, "n")}, {withLimit(of("none=x ", 1, ""), 1)}, {}, {of("unknown=x ", 1, "")},
	}
}

// TestDoDescriptorsEach_AnswersAsOneByOne for calls of every kind, whoever is beside them.
func TestDoDescriptorsEach_AnswersAsOneByOne(t *testing.T) {
	onStores(t, eachRules(), func(t *testing.T, f *fixture) {
		users := []string{"a", "b", "c", "d"}
		calls := len(eachCalls(""))
		for round := range calls {
			var parts []DescriptorPart
			for i := range users { // another call of each user, so that all kinds are beside each other
				q := &DescriptorQuestion{Domain: "shop", Descriptors: eachCalls(users[i])[(round+5*i)%calls]}
				parts = append(parts, DescriptorPart{Question: q, Answer: &DescriptorAnswer{}})
			}
			f.DoDescriptorsEach(t.Context(), parts)
			for i := range parts {
				alone := fmt.Sprint("alone-", i)
				q := &DescriptorQuestion{Domain: "shop", Descriptors: eachCalls(alone)[(round+5*i)%calls]}
				want := f.callAs(q)
				if parts[i].Err != nil {
					t.Fatal(parts[i].Err)
				}
				got := parts[i].Answer
				if diff := cmp.Diff(want.text(), got.text()); diff != "" || got.Strictest != want.Strictest ||
					len(got.Limits) != len(want.Limits) {
					t.Errorf("round %d, call %d: strictest %d, want %d; %s", round, i, got.Strictest, want.Strictest, diff)
				}
			}
		}
	})
}

// TestDoDescriptorsEach_CallsTheStoreOnce, and once more for all quotas beside other limits.
func TestDoDescriptorsEach_CallsTheStoreOnce(t *testing.T) {
	var store *countingStore
	f := newFixture(t, eachRules(), func(o *CheckerOptions) {
		store = &countingStore{Store: o.Store}
		o.Store = store
	})
	for calls, kinds := range map[int][]int{1: {0, 1, 8, 12}, 2: {4, 5, 4, 0}} {
		var parts []DescriptorPart
		for i, kind := range kinds {
			q := &DescriptorQuestion{Domain: "shop", Descriptors: eachCalls(fmt.Sprintf("%d-%d", calls, i))[kind]}
			parts = append(parts, DescriptorPart{Question: q, Answer: &DescriptorAnswer{}})
		}
		store.calls = 0
		f.DoDescriptorsEach(t.Context(), parts)
		for i := range parts {
			if parts[i].Err != nil || parts[i].Answer.Verdict == 0 {
				t.Errorf("part %d: %v, %v", i, parts[i].Answer.Verdict, parts[i].Err)
			}
		}
		if store.calls != calls {
			t.Errorf("%v: the store was called %d times, want %d", kinds, store.calls, calls)
		}
	}
}

// TestDoDescriptorsEach_APanicIsOfItsCall, while it is planned and while it is answered.
func TestDoDescriptorsEach_APanicIsOfItsCall(t *testing.T) {
	jittery := shop("jittery", "j user", 1, func(r *rules.Rule) { r.RetryJitterMS = new(int64(1000)) })
	var seen seenDecisions
	f := newFixture(t, append(eachRules(), jittery), func(o *CheckerOptions) {
		o.Rand = func(int64) int64 { panic("boom") }
		o.Observe = &seen
	})
	f.call(asked("j=x user=a", 1, ""))
	question := func(descriptors ...AskedDescriptor) DescriptorPart {
		return DescriptorPart{Question: &DescriptorQuestion{Domain: "shop", Descriptors: descriptors},
			Answer: &DescriptorAnswer{}}
	}
	parts := []DescriptorPart{
		question(asked("user=a", 1, "")),
		{Answer: &DescriptorAnswer{}}, // no question
		question(asked("j=x user=a", 1, "")),
		question(asked("user=b", 1, "")),
	}
	f.DoDescriptorsEach(t.Context(), parts)
	for i := range parts {
		var p *Panic
		if panics := i == 1 || i == 2; errors.As(parts[i].Err, &p) != panics ||
			!panics && parts[i].Answer.text() != "allowed: ok 1" {
			t.Errorf("part %d: %v, %s", i, parts[i].Err, parts[i].Answer.text())
		}
	}
	if seen.n != 3 {
		t.Errorf("%d decisions were observed, want 3", seen.n)
	}
}

// TestDoDescriptorsEach_WithoutASet every call has the error.
func TestDoDescriptorsEach_WithoutASet(t *testing.T) {
	f := newFixture(t, nil, func(o *CheckerOptions) { o.Sets = &match.Current{} })
	parts := []DescriptorPart{{Question: &DescriptorQuestion{Domain: "shop"}, Answer: &DescriptorAnswer{}}}
	if f.DoDescriptorsEach(t.Context(), parts); !errors.Is(parts[0].Err, ErrNoSet) {
		t.Errorf("got %v", parts[0].Err)
	}
}

type seenDecisions struct {
	NopObserver
	n int
}

func (s *seenDecisions) ObserveDecision(*Decision) { s.n++ }
