package app

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/api"
	"sluice/internal/access"
	"sluice/rules/match"
)

// readiness says whether this node should receive traffic: rules and tokens are loaded
// and the node is not draining. It does not depend on Redis, because one failed Redis
// would remove every node from the load balancer.
type readiness struct {
	sets     *match.Current
	access   *access.Current
	now      func() time.Time
	draining atomic.Bool
	// rules is what the reloader last published; nil before the first rules.
	rules atomic.Pointer[ruleState]
}

// ruleState describes the rules in force.
type ruleState struct {
	version   int64
	origin    string
	confirmed time.Time
	refused   int64 // the version that does not compile, or -1
}

var (
	errDraining = errors.New("draining: this node is shutting down")
	errNoSet    = errors.New("no rule set is loaded yet")
	errNoTokens = errors.New("API tokens are not loaded yet")
)

// ready returns nil if the node can answer checks. Its errors are shown to clients.
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

// drain makes the node unready permanently.
func (r *readiness) drain() { r.draining.Store(true) }

// register registers the metric of readiness.
func (r *readiness) register(to prometheus.Registerer) {
	to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sluice_ready",
		Help: "1 while the node is ready, else 0."}, func() float64 { return oneIf(r.ready() == nil) }))
}

// ruleState returns the state of the rules for /readyz.
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
