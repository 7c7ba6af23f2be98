package app

import (
	"slices"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
	"sluice/internal/database"
	"sluice/internal/records"
	"sluice/internal/trouble"
)

const (
	// oldSet is the age from which rules that the rule database has not confirmed are an alert.
	oldSet = 2 * time.Minute
	// How long a condition must not be met until its alert is over.
	setLinger  = 10 * time.Second
	logLinger  = 5 * time.Minute
	hotLinger  = time.Minute
	nodeLinger = 30 * time.Second
)

// openSensor starts the sensor, which observes conditions for alerts on this node.
func openSensor(host *Host, db *database.DB, ready *readiness, figures *fleetReporter, home *homeStore,
	accounts map[string]func() records.Totals, region string, refused *refusedWatch, stops *stops) *sense.Sensor {
	own := &ownConditions{ready: ready, accounts: accounts, trouble: host.trouble, region: region,
		refused: refused.conditions, now: host.Now, dropped: map[string]int64{}}
	if home != nil {
		own.regions = &regionConditions{overview: home.overview, now: host.Now}
	}
	sensor := sense.New(sense.Options{Store: db, Node: figures.node, Address: figures.listensAt, Conditions: own.met,
		Cause: causeWords, Now: host.Now, Trouble: host.trouble})
	stops.add("alerts of this node", task(sensor.Run))
	return sensor
}

// listensAt is the address at which this node listens, "" before it does.
func (f *fleetReporter) listensAt() string {
	address, _ := f.address.Load().(string)
	return address
}

// ownConditions finds the conditions that only this node knows. One goroutine uses it.
type ownConditions struct {
	ready    *readiness
	accounts map[string]func() records.Totals
	trouble  *trouble.Registry
	region   string // the region of this node
	// refused returns the conditions about tokens that are used although they are expired or revoked.
	refused func() []sense.Condition
	now     func() time.Time
	// dropped is the number of events that each decision log had lost at the last check.
	dropped map[string]int64
	// regions finds the conditions about other regions, nil without regions.
	regions *regionConditions
}

// met returns the active conditions.
func (o *ownConditions) met() []sense.Condition {
	out := o.refused()
	for _, t := range o.trouble.Current() {
		if c, met := o.alertOf(&t); met {
			out = append(out, c)
		}
	}
	version := int64(0)
	if s := o.ready.rules.Load(); s != nil {
		version = s.version
		if age := o.now().Sub(s.confirmed); age >= oldSet {
			out = append(out, sense.Condition{Subject: alerts.Subject{Kind: alerts.KindSetOld}, Linger: setLinger,
				Details: evaluate.Details{Numbers: map[string]int64{"age_s": int64(age / time.Second)}}})
		}
	}
	for sink, totals := range o.accounts {
		t, dropped := totals(), int64(0)
		for _, n := range t.Dropped {
			dropped += n
		}
		if dropped > o.dropped[sink] {
			out = append(out, sense.Condition{Subject: alerts.Subject{Kind: alerts.KindLogDropping, Level: sink},
				Linger:  logLinger,
				Details: evaluate.Details{Numbers: map[string]int64{"dropped": dropped, "produced": t.Produced}}})
		}
		o.dropped[sink] = dropped
	}
	if o.regions != nil {
		out = append(out, o.regions.met(version)...)
	}
	return out
}

// alertOf returns the condition of the alert that a trouble of this node is, and whether it is met.
func (o *ownConditions) alertOf(t *trouble.Trouble) (c sense.Condition, met bool) {
	c.Numbers = t.Numbers
	switch t.Condition {
	case nodeStarved:
		c.Subject.Kind = alerts.KindNodeStarved
	case rulesRefused:
		c.Subject.Kind, c.Linger = alerts.KindSetRefused, setLinger
	case regionCutOff:
		pair := []string{o.region, t.Subject}
		slices.Sort(pair)
		c.Subject = alerts.Subject{Kind: alerts.KindRegionCutOff, Level: pair[0] + " and " + pair[1]}
		c.Linger, c.Cause = cutLinger, t.Cause
		return c, o.now().Sub(t.Since) >= cutAlert
	default:
		return c, false
	}
	return c, true
}
