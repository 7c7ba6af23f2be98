package decide

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// heard counts events, and records the operations of the decisions.
type heard struct {
	ops                               []limiter.Op
	units, doubt, degraded, deferrals int
	overloads                         int
}

func (h *heard) ObserveDecision(d *Decision) { h.ops = append(h.ops, d.Answer.Op) }
func (h *heard) ObserveUnits(Units)          { h.units++ }
func (h *heard) ObserveDoubt(Doubt)          { h.doubt++ }
func (h *heard) ObserveDegraded(Degraded)    { h.degraded++ }
func (h *heard) ObserveDeferral(Deferral)    { h.deferrals++ }
func (h *heard) ObserveOverload(bool)        { h.overloads++ }

func TestObservers_TellEachOfThem(t *testing.T) {
	var a, b heard
	all := Observers{&a, NopObserver{}, &b}
	all.ObserveDecision(&Decision{Answer: &Answer{Op: limiter.OpTake}})
	all.ObserveUnits(Units{})
	all.ObserveDoubt(Doubt{})
	all.ObserveDegraded(Degraded{})
	all.ObserveDeferral(Deferral{})
	all.ObserveOverload(true)
	want := heard{[]limiter.Op{limiter.OpTake}, 1, 1, 1, 1, 1}
	for _, got := range []heard{a, b} {
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(heard{})); diff != "" {
			t.Errorf("heard (-want +got):\n%s", diff)
		}
	}
}

func TestObserver_HearsOfEveryOperationOnce(t *testing.T) {
	var h heard
	slots := perUser("slots", "open", 5)
	slots.Algorithm, slots.WindowMS = "concurrency", 60_000
	f := newFixture(t, []rules.Rule{perUser("rate", "open", 100), slots}, func(o *CheckerOptions) {
		o.Observe, o.Secrets = &h, oneSecret{}
	})
	var want []limiter.Op
	for _, op := range []limiter.Op{limiter.OpTake, limiter.OpPeek, limiter.OpCharge, limiter.OpRenew, limiter.OpRefund,
		limiter.OpRelease, limiter.OpReset} {
		f.asks(op, Question{Weight: 1, RequestID: "r"})
		want = append(want, op)
	}
	lease := f.take().Lease
	var a Answer
	for _, op := range []limiter.Op{limiter.OpRenew, limiter.OpRelease} {
		if err := f.Lease(t.Context(), op, lease, Origin{}, &a); err != nil {
			t.Fatal(err)
		}
	}
	q := Question{Op: limiter.OpTake, Weight: 1, Descriptor: match.Descriptor{User: "42"}}
	if err := f.Reserve(t.Context(), &q, DefaultReservationLife, &a); err != nil {
		t.Fatal(err)
	}
	if err := f.SettleReservation(t.Context(), &Settlement{Reservation: a.Reservation, Weight: 2}, &a); err != nil {
		t.Fatal(err)
	}
	want = append(want, limiter.OpTake, limiter.OpRenew, limiter.OpRelease, limiter.OpTake, limiter.OpSettle)
	if diff := cmp.Diff(want, h.ops); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}
