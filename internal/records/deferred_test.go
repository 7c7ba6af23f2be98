package records

import (
	"testing"

	"sluice/api/decide"
	"sluice/rules"
)

func TestEvent_SaysThatADeferralIsUnknown(t *testing.T) {
	f := newFixture(t, []rules.Rule{perUser("r", 1)}, nil)
	q := user("42")
	f.ask(q)
	a := f.ask(q)
	for _, ticket := range []string{"t", ""} {
		a.Verdict, a.Ticket = decide.Deferred, ticket
		f.log.ObserveDecision(&decide.Decision{Question: &q, Answer: a})
	}
	events := f.events()
	if len(events) != 4 || events[1].Deferred != "" || events[2].Status != 202 || events[2].Deferred != "" ||
		events[3].Status != 202 || events[3].Deferred != DeferredUnknown {
		t.Errorf("got %+v", events)
	}
}
