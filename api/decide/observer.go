package decide

import (
	"time"

	"sluice/limiter"
)

// Observer hears what was decided, for metrics. Its methods are called on the
// check path by any number of goroutines: they must be quick, must not block
// and must not fail. No argument ever carries a key or anything a caller sent.
type Observer interface {
	// ObserveLimit reports one limit of one request: the rule's name (rules.DirectRule
	// when the caller brought the limit), its mode (enforce, shadow or candidate)
	// and whether it allowed.
	ObserveLimit(rule, mode string, allowed bool)
	// ObserveRequest reports one whole request: its operation, whether it was
	// allowed, and how long deciding took.
	ObserveRequest(op limiter.Op, allowed bool, took time.Duration)
	// ObserveDegraded reports that the store could not decide, why, and the fail
	// mode that decided a limit instead; failMode is "" where there was nothing
	// to decide (a refund, a shadow rule).
	ObserveDegraded(failMode string, cause limiter.Cause)
	// ObservePanic reports a panic that was contained in one request.
	ObservePanic()
}

// AboveObserver is an Observer that also hears, under the same terms, of every
// enforced limit that let a request pass above itself; throttle is soft or
// elastic.
type AboveObserver interface {
	ObserveAbove(rule, throttle string)
}

// NopObserver is the Observer used when none is given.
type NopObserver struct{}

// ObserveLimit does nothing.
func (NopObserver) ObserveLimit(string, string, bool) {}

// ObserveRequest does nothing.
func (NopObserver) ObserveRequest(limiter.Op, bool, time.Duration) {}

// ObserveDegraded does nothing.
func (NopObserver) ObserveDegraded(string, limiter.Cause) {}

// ObservePanic does nothing.
func (NopObserver) ObservePanic() {}
