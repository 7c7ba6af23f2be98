package webtest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
)

// Incidents has canned incidents. It is safe for concurrent use.
type Incidents struct {
	mu sync.Mutex
	// Err is what every call fails with, together with what List has.
	Err  error
	List []incident.Incident
}

// Change changes the incidents. It is safe while pages are served.
func (f *Incidents) Change(how func(*Incidents)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(f)
}

func newIncidents() *Incidents {
	return &Incidents{List: []incident.Incident{
		{
			ID: "n1-4", Kind: incident.Breaker, Begin: Now.Add(-50 * time.Minute),
			End: Now.Add(-48*time.Minute - 56*time.Second), Updated: Now.Add(-48*time.Minute - 56*time.Second),
			Node: "10.0.0.1:8080", NodeID: "n1", Nodes: []string{"10.0.0.1:8080", "10.0.0.2:8080"}, Server: "10.0.0.9:6379",
			Cause: "connection refused", Opened: 1, Total: incident.Rule{Open: 212, Local: 620, Closed: 14, Denied: 21},
			Rules: []incident.Rule{
				{Rule: "charges-per-user", Local: 620, Denied: 7}, {Rule: "search-per-user", Open: 212},
				{Rule: "logins-per-address", Closed: 14, Denied: 14},
			},
		},
		{
			ID: "n2-2", Kind: incident.Database, Begin: Now.Add(-31 * time.Hour),
			End: Now.Add(-31*time.Hour + 90*time.Second), Updated: Now.Add(-31*time.Hour + 90*time.Second),
			Node: "10.0.0.2:8080", NodeID: "n2", Cause: "timeout",
		},
		{
			ID: "n2-3", Kind: incident.Regions, Begin: Now.Add(-2 * history.Day),
			End: Now.Add(-2*history.Day + 95*time.Second), Updated: Now.Add(-2*history.Day + 95*time.Second),
			Node: "10.0.0.2:8080", NodeID: "n2", Server: "asia, us", Cause: "eu hears nothing from asia",
		},
		{
			ID: "n1-2", Kind: incident.Starved, Begin: Now.Add(-3 * history.Day),
			End: Now.Add(-3*history.Day + 4*time.Minute), Updated: Now.Add(-3*history.Day + 4*time.Minute),
			Node: "10.0.0.1:8080", NodeID: "n1", Cause: "raise its CPU limit",
		},
		{
			ID: "n3-1", Kind: incident.Timeouts, Begin: Now.Add(-4 * history.Day),
			Updated: Now.Add(-4*history.Day + time.Minute),
			Lost:    true, Node: "10.0.0.3:8080", NodeID: "n3", Cause: "timeout", Total: incident.Rule{Open: 3},
			Rules: []incident.Rule{{Rule: "search-per-user", Open: 3}},
		},
	}}
}

// RunningIncident is an incident that lasts.
func RunningIncident() incident.Incident {
	return incident.Incident{
		ID: "n1-9", Kind: incident.Breaker, Begin: Now.Add(-95 * time.Second), Updated: Now,
		Node: "10.0.0.1:8080", NodeID: "n1", Server: "10.0.0.9:6379", Cause: "connection refused", Opened: 2,
		Total: incident.Rule{Local: 1204, Closed: 36, Denied: 50},
		Rules: []incident.Rule{
			{Rule: "charges-per-user", Local: 1204, Denied: 14}, {Rule: "logins-per-address", Closed: 36, Denied: 36},
		},
	}
}

// Incidents implements incident.Source.
func (f *Incidents) Incidents(_ context.Context, q incident.Query) ([]incident.Incident, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := q.Validate(); err != nil {
		return nil, err
	}
	out := slices.DeleteFunc(slices.Clone(f.List), func(i incident.Incident) bool { return !q.Match(&i) })
	return incident.Sort(out), f.failure()
}

// Running implements incident.Source.
func (f *Incidents) Running(context.Context) ([]incident.Incident, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.List), func(i incident.Incident) bool { return !i.Running() }), f.failure()
}

func (f *Incidents) failure() error {
	if f.Err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", rules.ErrUnavailable, f.Err)
}
