//go:build !race

package decide

import (
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// byTree and byFacts are a call with one descriptor and a check, each by one rule.
func byTree(t testing.TB) func() {
	f := benchFixture(t)
	q := DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{asked("path=/pay user=42", 1, "")}}
	var a DescriptorAnswer
	return func() {
		if err := f.DoDescriptors(t.Context(), &q, &a); err != nil || !a.Allowed() || a.Statuses[0].Limit != 0 {
			t.Fatal(err, a)
		}
	}
}

func byFacts(t testing.TB) func() {
	f := benchFixture(t)
	q := Question{Op: limiter.OpTake, Descriptor: match.Descriptor{Route: "/pay", User: "42"}, Weight: 1}
	var a Answer
	return func() {
		if err := f.Do(t.Context(), &q, &a); err != nil || !a.Allowed() || len(a.Limits) != 1 {
			t.Fatal(err, a)
		}
	}
}

func benchFixture(t testing.TB) *fixture {
	rs := []rules.Rule{perUser("facts", "open", 1_000_000_000), shop("tree", "path=/pay user", 1_000_000_000)}
	return newFixture(t, rs, func(o *CheckerOptions) { o.Store = o.Store.(*faultStore).Store })
}

// Under the race detector pools give memory back at random.
func TestDescriptors_AllocateNoMoreThanACheck(t *testing.T) {
	facts, tree := testing.AllocsPerRun(1000, byFacts(t)), testing.AllocsPerRun(1000, byTree(t))
	if tree > facts {
		t.Errorf("%v allocations by tree, %v by facts", tree, facts)
	}
}

func BenchmarkDescriptorsByTree(b *testing.B) {
	call := byTree(b)
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}

func BenchmarkDescriptorsByFacts(b *testing.B) {
	call := byFacts(b)
	b.ReportAllocs()
	for b.Loop() {
		call()
	}
}
