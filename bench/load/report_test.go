package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

func selected(only string) (names []string) {
	s := settings{only: only}
	for _, sc := range scenarios {
		if s.wants(sc.name) {
			names = append(names, sc.name)
		}
	}
	return names
}

func TestOnly_AWholeNameSelectsNoOther(t *testing.T) {
	if got := selected(oneOnRedis); !slices.Equal(got, []string{oneOnRedis}) {
		t.Errorf("got %q", got)
	}
	if got := selected("asked by;" + bare); !slices.Equal(got, []string{forwardFace, extAuthzFace, bare}) {
		t.Errorf("got %q", got)
	}
	if got := selected(""); len(got) != len(scenarios) {
		t.Errorf("%d scenarios without a selection, want all %d", len(got), len(scenarios))
	}
}

func TestComparisons_NameScenarios(t *testing.T) {
	for _, c := range comparisons {
		for _, name := range []string{c.a, c.b} {
			if !slices.ContainsFunc(scenarios, func(sc scenario) bool { return sc.name == name }) {
				t.Errorf("%s: there is no scenario %q, so the report would have no such row", c.text, name)
			}
		}
	}
}

// Each text of the Makefile selects rows of sluice.
func TestBeside_SelectsScenarios(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^BESIDE := (.+)$`).FindSubmatch(makefile)
	if found == nil {
		t.Fatal("the Makefile has no BESIDE")
	}
	for text := range strings.SplitSeq(string(found[1]), ";") {
		if !slices.ContainsFunc(selected(text), func(name string) bool { return strings.HasPrefix(name, "sluice ") }) {
			t.Errorf("%q selects nothing", text)
		}
	}
	for _, want := range []string{oneOnRedis + with8, oneOnRedis + with512, ruleAlone, grpcTree, threeRules, embeddedOne,
		forwardFace, extAuthzFace} {
		if !slices.Contains(selected(string(found[1])), want) {
			t.Errorf("%q is not among the rows", want)
		}
	}
}

func TestRatio_IsThatOfEachRound(t *testing.T) {
	rounds := func(ms ...int) *result {
		r := &result{}
		for _, n := range ms {
			r.rounds = append(r.rounds, measurement{serverCPU: time.Duration(n) * time.Millisecond})
		}
		return r
	}
	for _, c := range []struct {
		a, b *result
		want string
	}{
		{rounds(10, 40, 30), rounds(10, 20, 100), "1.00 (0.30 to 2.00)"},
		{rounds(1, 2, 3, 8), rounds(1, 1, 1, 1), "2.50 (1.00 to 8.00)"},
	} {
		if got := ratio(c.a, c.b, cpuFigure); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
