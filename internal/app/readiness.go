package app

import (
	"errors"
	"sync/atomic"
	"time"

	"sluice/api"
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
	now      func() time.Time
	draining atomic.Bool
	// rules is what the reloader last published; nil before it has any.
	rules atomic.Pointer[ruleState]
}

// ruleState is by which rules the node decides.
type ruleState struct {
	version   int64
	origin    string
	confirmed time.Time
	refused   int64 // the version that does not compile, -1 for none
}

var (
	errDraining = errors.New("draining: this node is shutting down")
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

// ruleState is the present state for whoever asks about readiness.
func (r *readiness) ruleState() api.RuleState {
	s := r.rules.Load()
	if s == nil {
		return api.RuleState{}
	}
	out := api.RuleState{Version: s.version, Source: s.origin, AgeMS: max(0, r.now().Sub(s.confirmed).Milliseconds())}
	if s.refused >= 0 {
		out.RefusedVersion = &s.refused
	}
	return out
}
