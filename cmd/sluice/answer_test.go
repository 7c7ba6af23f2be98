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
	a.Overloaded, a.Limits[0].Overloaded, a.Limits[0].ConditionFailed = false, false, true
	out.Reset()
	render(&a, &out)
	if line, _, _ := strings.Cut(out.String(), "RULE"); strings.Contains(line, "overloaded") {
		t.Errorf("a denial by a limit: %q", line)
	}
	if !strings.Contains(out.String(), "denied (condition failed)  ") {
		t.Errorf("a failed condition: %q", out.String())
	}
}

func TestRender_SaysThatAMeterHasNoLimit(t *testing.T) {
	var out strings.Builder
	render(&client.Answer{Allowed: true, Limits: []client.LimitAnswer{{Rule: "meter", Key: "user:42", Mode: "enforce",
		Allowed: true, Figures: client.Figures{Used: new(int64(5)), ResetMS: new(int64(1000))}}}}, &out)
	line := strings.Split(out.String(), "\n")[2]
	if got := strings.Join(strings.Fields(line), " "); got != "meter user:42 allowed - 5 no limit ? 1s enforce" {
		t.Errorf("got %q", got)
	}
}

func TestRender_NoKeyWritesToTheTerminal(t *testing.T) {
	var out strings.Builder
	render(&client.Answer{Limits: []client.LimitAnswer{{Key: "a\x1b[2J\r\nb\u202e\xff", Mode: "enforce"}}}, &out)
	if want := "a%1B[2J%0D%0Ab%E2%80%AE%FF "; !strings.Contains(out.String(), want) {
		t.Errorf("got %q, want %s", out.String(), want)
	}
}

func TestRender_SaysThatARequestIsDeferred(t *testing.T) {
	for want, a := range map[string]client.Answer{
		"denied (202): deferred, ticket t1":                                            {Ticket: "t1"},
		"denied (202): perhaps deferred, do not repeat it without the same request_id": {Deferred: "unknown"},
	} {
		a.Status, a.RetryAfterMS, a.Limits = 202, new(int64(1000)), []client.LimitAnswer{{Rule: "a"}}
		var out strings.Builder
		render(&a, &out)
		if line, _, _ := strings.Cut(out.String(), "\n"); line != want {
			t.Errorf("got %q, want %q", line, want)
		}
	}
}
