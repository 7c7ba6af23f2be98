package evaluate

import (
	"maps"
	"time"

	"sluice/internal/alerts"
)

const (
	// refreshEvery is how often the figures of an active condition are renewed. If they have not changed, they are
	// renewed every sameEvery, because the text names their time. The text of an expiring token does not.
	refreshEvery = 5 * time.Second
	sameEvery    = time.Minute
	// maxRefreshed is how many conditions an evaluation renews. With more, each is renewed less often.
	maxRefreshed = 100
)

// refresh renews the figures of an active condition. Earlier events keep their figures.
func (e *evaluation) refresh(name string, by *Sighting) {
	s := e.states.subjects[name]
	ofAnother := s.By != by.Node && !s.ofFleet() && s.Seen[s.By] != nil
	if !s.On || by.Numbers == nil || ofAnother || e.refreshed >= maxRefreshed {
		return
	}
	at := e.figuresAt(by)
	age := time.Duration(at-s.Figures) * time.Millisecond
	same := maps.Equal(by.Numbers, s.Data.Numbers)
	if age < refreshEvery || same && (age < sameEvery || s.Subject.Kind == alerts.KindTokenExpiring) {
		return
	}
	e.refreshed++
	s = e.edit(name)
	s.Figures, s.By = at, by.Node
	s.Data = dataOf(s, alerts.On, &by.Details)
}

// ofFleet reports whether the figures are the same on every node. The figures of other conditions come from one node,
// as long as it observes the condition.
func (s *subject) ofFleet() bool {
	switch s.Subject.Kind {
	case alerts.KindRuleDenials, alerts.KindKeyUsage, alerts.KindKeyHot:
		return true
	}
	return false
}

// figuresAt is the instant of the figures of a sighting, in ms: when a node reported them, or now.
func (e *evaluation) figuresAt(s *Sighting) int64 {
	now := e.Now.UnixMilli()
	if s.Seq > 0 && s.At > 0 {
		return min(s.At, now)
	}
	return now
}
