package app

import (
	"context"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
	"sluice/internal/history/incident"
	"sluice/internal/region"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// cutIncident is how long a region is cut off until that is an incident. A starting node is cut off from all
	// regions until it has received a message of each; this is no incident.
	cutIncident = 3 * time.Second
	// lackedEdit is how long a region lacks an edit of the rules until that causes an alert.
	lackedEdit = 5 * time.Minute
)

// cutAlert is how long a region is cut off until that causes an alert, and cutLinger how long it must be connected
// until the alert ends. Both are shorter in tests.
var cutAlert, cutLinger = 30 * time.Second, setLinger

// regionConditions finds the conditions about other regions that cause alerts. One goroutine uses it.
type regionConditions struct {
	// overview returns the state of other regions, false while it is unknown.
	overview func() (region.Overview, bool)
	now      func() time.Time
	// versions lists the versions in force here within lackedEdit, and the preceding one, the oldest first.
	versions []versionSince
}

type versionSince struct {
	version int64
	since   time.Time
}

// met returns the active conditions. version is the version of the rules on this node.
func (c *regionConditions) met(version int64) (out []sense.Condition) {
	o, ok := c.overview()
	if !ok {
		return nil
	}
	before := c.versionBefore(version)
	for i := range o.Peers {
		p := &o.Peers[i]
		if !p.CutOff && p.Set < before {
			out = append(out, sense.Condition{Linger: setLinger,
				Subject: alerts.Subject{Kind: alerts.KindRegionSetOld, Level: p.Name},
				Details: evaluate.Details{Numbers: map[string]int64{"version": p.Set, "elsewhere": before}}})
		}
	}
	return out
}

// versionBefore returns the version of the rules that every region should have by now: the version that was in force
// here lackedEdit ago, 0 if it is unknown. If an older database was restored since then, it returns the present
// version. is is the present version.
func (c *regionConditions) versionBefore(is int64) int64 {
	now := c.now()
	if n := len(c.versions); n == 0 || c.versions[n-1].version != is {
		c.versions = append(c.versions, versionSince{is, now})
	}
	for len(c.versions) > 1 && now.Sub(c.versions[1].since) >= lackedEdit {
		c.versions = c.versions[1:]
	}
	if first := c.versions[0]; now.Sub(first.since) >= lackedEdit {
		return min(first.version, is)
	}
	return 0
}

// cutCause says what does not arrive between two regions, as far as the first one knows.
func cutCause(self string, p *region.Status) string {
	switch {
	case p.Refuses:
		return p.Name + " refuses the messages of " + self
	case p.Failure != "":
		return p.Name + " does not take the messages of " + self
	}
	return self + " hears nothing from " + p.Name
}

var regionCutOff = trouble.Declare(trouble.Condition{Code: "region_cut_off",
	Advice:   "see to the nodes of that region, and to the network between the regions",
	Incident: incident.Regions, Of: "region",
	Starts: "a region is cut off; cut_off of each rule with span global says what this one may spend",
	Ends:   "a region is not cut off any more"})

// noteCuts notes once a second, until ctx ends, which regions are cut off.
func noteCuts(ctx context.Context, host *Host, overview func() region.Overview) {
	for range tick.Every(ctx, time.Second) {
		o := overview()
		host.noteCuts(&o)
	}
}

func (h *Host) noteCuts(o *region.Overview) {
	for i := range o.Peers {
		switch p := &o.Peers[i]; {
		case !p.CutOff:
			h.trouble.Clear(regionCutOff, p.Name)
		case p.CutFor >= cutIncident:
			h.trouble.Set(trouble.Trouble{Condition: regionCutOff, Subject: p.Name, Since: h.Now().Add(-p.CutFor),
				Cause: cutCause(o.Self, p)}, "failure", p.Failure)
		}
	}
}
