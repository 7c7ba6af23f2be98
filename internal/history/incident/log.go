package incident

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/trouble"
)

const (
	// resumeWithin is how long after its end an incident continues if the same happens again, and how long decisions
	// that were under way count to it.
	resumeWithin = 10 * time.Second
	// An incident of timeouts has ended once timeoutsQuiet has passed since its last decision. After timeoutsApart, the
	// next such decision begins a new incident. timeoutsMost is the longest duration of an incident of timeouts.
	timeoutsQuiet = 10 * time.Second
	timeoutsApart = 5 * time.Minute
	timeoutsMost  = time.Hour
	// opensWithin: if timeouts began at most this long before a breaker opened, the incident of the breaker begins with
	// them.
	opensWithin = time.Minute
	// maxBegun is the largest number of incidents of a kind that a node begins in an hour. Beyond it the last one
	// continues.
	maxBegun = 20
	// maxWaiting is the largest number of events that are queued for the rule database.
	maxWaiting = 300
)

// ByFailMode is a decision of a fail mode on a request, or on one limit of it.
type ByFailMode struct {
	// Rule is the name of the limit's rule, "" for a request.
	Rule, Mode string
	Denied     bool
}

func (d *ByFailMode) counts() Rule {
	r := Rule{Rule: d.Rule}
	switch d.Mode {
	case "open":
		r.Open = 1
	case "local":
		r.Local = 1
	case "closed":
		r.Closed = 1
	}
	if d.Denied {
		r.Denied = 1
	}
	return r
}

// Log notes the incidents of this node, in bounded memory, until a Writer has written them to the rule
// database. It owns no goroutine and is safe for concurrent use. Nothing is noted while all is well.
type Log struct {
	id, region string
	now        func() time.Time
	// wake holds a token if something is to be written soon.
	wake chan struct{}

	mu      sync.Mutex
	address string
	events  int64
	// present are the incidents by the codes of their conditions. Each may have ended and still continue.
	present map[string]*running
	// last are the incidents that ended last, by kind, begun when incidents began in the last hour.
	last    map[string]*running
	begun   map[string][]time.Time
	waiting []Event // oldest first
}

// running is an incident that may still change.
type running struct {
	Incident
	code    string
	rules   tally
	on      map[string]bool // the subjects for which the condition is set
	decided time.Time       // the last decision
	closed  time.Time       // when the condition was last cleared
	changed bool            // since it was last written
}

// NewLog creates the log of the process id, which is unique, in a region, "" without regions.
func NewLog(id, region string, now func() time.Time) *Log {
	return &Log{id: id, region: region, now: now, wake: make(chan struct{}, 1), present: map[string]*running{},
		last: map[string]*running{}, begun: map[string][]time.Time{}}
}

// Started notes that the node has started and listens at an address.
func (l *Log) Started(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.address = address
	l.wait(l.event(EventNodeStarted, l.now()))
	l.hurry()
}

// Stopped notes that the node stops. Its incidents end with it.
func (l *Log) Stopped() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, r := range l.present {
		if r.End.IsZero() {
			r.End, r.Stopped, r.changed = now, true, true
		}
		l.finish(r)
	}
	if l.address != "" {
		l.wait(l.event(EventNodeStopped, now))
	}
}

// Note begins, continues or ends the incident of a condition: it is what a trouble.Registry calls.
func (l *Log) Note(t *trouble.Trouble, on bool) {
	if t.Incident == "" {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	r := l.present[t.Code]
	if !on {
		if r == nil {
			return
		}
		if delete(r.on, t.Subject); len(r.on) == 0 {
			r.End, r.closed, r.changed = now, now, true
			l.hurry()
		}
		return
	}
	if r != nil && r.Kind != t.Incident && now.Sub(r.Begin) > opensWithin {
		l.finish(r)
		r = nil
	}
	if r == nil {
		r = l.begin(t.Code, t.Incident, t.Since)
	}
	if t.Incident == Breaker {
		r.Opened++
	}
	if !r.on[t.Subject] {
		r.Kind, r.End, r.changed = t.Incident, time.Time{}, true
		r.on[t.Subject] = true
		l.hurry()
	}
	r.Cause = include(r.Cause, t.Cause, maxCauses)
	r.concerns(t.Subject)
}

// Failed notes that Redis could not decide a limit, so that a fail mode does.
func (l *Log) Failed(cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	r := l.present[CodeRedis]
	if r == nil {
		r = l.begin(CodeRedis, Timeouts, now)
		r.Cause = cause
		l.hurry()
	}
	r.again(now)
}

// Decided notes a request that fail modes decided, and its limits that they decided, because of the condition of a
// code: CodeRedis, of which Failed came before it, or CodeStarved. Without an incident it does nothing: the client
// has left.
func (l *Log) Decided(code string, request ByFailMode, limits []ByFailMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.present[code]
	if r == nil {
		return
	}
	if r.changed = true; code == CodeRedis {
		r.again(l.now())
	}
	r.Total.Add(request.counts())
	for i := range limits {
		r.rules.add(limits[i].counts())
	}
}

// again notes that a fail mode decides now.
func (r *running) again(now time.Time) {
	r.decided, r.changed = now, true
	switch {
	case r.End.IsZero():
	case r.Kind == Timeouts:
		r.End = time.Time{}
	default: // the decision was under way
		r.End = now
	}
}

// settle ends incidents that can no longer continue, so that the next failure begins a new incident.
func (l *Log) settle(now time.Time) {
	for _, r := range l.present {
		switch quiet := now.Sub(r.decided); {
		case r.Kind != Timeouts:
			if len(r.on) == 0 && now.Sub(r.closed) >= resumeWithin {
				l.finish(r)
			}
		case quiet >= timeoutsApart || now.Sub(r.Begin) >= timeoutsMost:
			l.finish(r)
		case quiet >= timeoutsQuiet && r.End.IsZero():
			r.End, r.changed = r.decided, true
		}
	}
}

// begin begins an incident, or continues the last one if there were many within an hour.
func (l *Log) begin(code, kind string, since time.Time) *running {
	now := l.now()
	begun := slices.DeleteFunc(l.begun[kind], func(t time.Time) bool { return now.Sub(t) > time.Hour })
	if last := l.last[kind]; last != nil && len(begun) >= maxBegun {
		l.begun[kind] = begun
		last.End, last.changed = time.Time{}, true
		last.Merged++
		l.present[code] = last
		return last
	}
	l.begun[kind] = append(begun, now)
	r := &running{code: code, rules: tally{}, on: map[string]bool{}, decided: now, changed: true,
		Incident: Incident{ID: l.nextID(), Kind: kind, Key: code, Begin: since, NodeID: l.id}}
	switch {
	case code == CodeStarved:
		r.Key += "/" + l.id
	case l.region != "":
		r.Key += "/" + l.region
	}
	l.present[code] = r
	return r
}

// finish ends an incident for good.
func (l *Log) finish(r *running) {
	delete(l.present, r.code)
	clear(r.on)
	if r.End.IsZero() {
		r.End, r.changed = r.decided, true
	}
	l.last[r.Kind] = r
	if r.changed {
		l.wait(l.incidentEvent(r))
	}
}

// snapshot is the incident as it is now.
func (l *Log) snapshot(r *running) Incident {
	i := r.Incident
	i.Node, i.Updated, i.Rules = l.address, l.now(), r.rules.list()
	return i
}

// Own are the incidents of this node that may not be in the rule database yet.
func (l *Log) Own() []Incident {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(l.now())
	var out []Incident
	for i := range l.waiting {
		if in, ok := l.waiting[i].incident(); ok {
			in.Node = l.address
			out = append(out, in)
		}
	}
	for _, r := range l.present {
		out = append(out, l.snapshot(r))
	}
	return out
}

func (l *Log) nextID() string {
	l.events++
	return fmt.Sprintf("%s-%d", l.id, l.events)
}

// hurry asks for a write soon.
func (l *Log) hurry() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
