package app

import (
	"errors"
	"sync/atomic"

	"sluice/internal/access"
	"sluice/internal/telemetry"
	"sluice/rules"
)

// readiness says whether this node should get traffic: rules and tokens are
// loaded and the node is not draining. Redis has no say, or one dead Redis would
// take every node out of the balancer.
type readiness struct {
	sets     *rules.Current
	access   *access.Current
	metrics  *telemetry.Metrics
	draining atomic.Bool
}

var (
	errDraining = errors.New("draining: this node is about to stop")
	errNoSet    = errors.New("no rule set is loaded yet")
	errNoTokens = errors.New("API tokens are not loaded yet")
)

// ready is nil when checks can be answered. Its errors are public.
func (r *readiness) ready() error {
	switch {
	case r.draining.Load():
		return errDraining
	case r.sets.Load() == nil:
		return errNoSet
	case r.access.Load() == nil:
		return errNoTokens
	}
	return nil
}

// drain makes the node unready for good.
func (r *readiness) drain() {
	r.draining.Store(true)
	r.publish()
}

// publish shows the present answer as a metric.
func (r *readiness) publish() { r.metrics.Ready(r.ready() == nil) }
