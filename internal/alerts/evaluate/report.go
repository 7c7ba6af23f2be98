package evaluate

import (
	"encoding/json"
	"time"

	"sluice/internal/alerts"
)

// Sighting says that a condition is met at one place, or no longer. Nodes send sightings as reports.
type Sighting struct {
	Subject alerts.Subject `json:"subject"`
	// State is alerts.On or alerts.Off.
	State string `json:"state"`
	// Node names the process that saw it. Seq grows with its reports, so that an old report that is read again is
	// ignored; 0 for a sighting that no node reported.
	Node string `json:"node"`
	Seq  int64  `json:"seq,omitempty"`
	// At is when it was seen, ms since the epoch, by the clock of the node.
	At int64 `json:"at"`
	// LifeMS is how long On holds unless it is seen again, in ms; 0 for ever.
	LifeMS int64 `json:"life_ms,omitempty"`
	Details
}

// Details contains the data for the texts of alerts. Values of callers in it contain no credentials.
type Details struct {
	// Address is the address of the node.
	Address string `json:"address,omitempty"`
	RuleID  int64  `json:"rule_id,omitempty"`
	// Numbers are named as in docs/alerts.md.
	Numbers map[string]int64 `json:"numbers,omitempty"`
	// Cause is the reason for people, without addresses and keys.
	Cause string `json:"cause,omitempty"`
}

// Report is a sighting as it is stored.
func (s *Sighting) Report(uid string) alerts.Report {
	data, err := json.Marshal(s)
	if err != nil { // the type has nothing that cannot be encoded
		data = []byte("{}")
	}
	return alerts.Report{UID: uid, Data: data}
}

// sightingOf reads a report. It is false for one that this build does not understand.
func sightingOf(r *alerts.Report) (s Sighting, ok bool) {
	if json.Unmarshal(r.Data, &s) != nil || s.Subject.Kind == "" || s.Node == "" {
		return s, false
	}
	return s, s.State == alerts.On || s.State == alerts.Off
}

// life is how long a sighting holds.
func life(ms int64) time.Duration { return time.Duration(max(0, ms)) * time.Millisecond }
