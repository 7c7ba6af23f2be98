package main

import (
	"strings"
	"testing"

	"sluice/api/client"
)

func TestRender_SaysThatARequestWasOverloaded(t *testing.T) {
	a := client.Answer{Status: 503, Overloaded: true, Figures: client.Figures{RetryAfterMS: new(int64(1000))},
		Limits: []client.LimitAnswer{{Rule: "a", Key: "user:42", Mode: "enforce", Overloaded: true},
			{Rule: "b", Key: "user:42", Mode: "shadow", Overloaded: true, Allowed: true}}}
	var out strings.Builder
	render(&a, &out)
	lines := strings.Split(out.String(), "\n")
	want := "denied (503): retry after 1s (overloaded: the counter store had no turn for the request, nothing was charged)"
	if lines[0] != want {
		t.Errorf("got %q, want %q", lines[0], want)
	}
	for i, rule := range []string{"a", "b"} {
		if got := strings.Fields(lines[2+i]); got[0] != rule || got[2] != "overloaded" || got[3] != "?" {
			t.Errorf("the limit of %s: %q", rule, lines[2+i])
		}
	}
	a.Overloaded, a.Limits[0].Overloaded = false, false
	out.Reset()
	render(&a, &out)
	if line, _, _ := strings.Cut(out.String(), "RULE"); strings.Contains(line, "overloaded") {
		t.Errorf("a denial by a limit: %q", line)
	}
}
