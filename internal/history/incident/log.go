package incident

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// resumeWithin is how long after its end an incident continues if the same happens again, and how long decisions
	// that were under way count to it.
	resumeWithin = 10 * time.Second
	// timeoutsQuiet is how long after its last decision an incident of timeouts has ended, timeoutsApart how long after
	// it the next such decision is a new incident, and timeoutsMost how long one lasts at most.
	timeoutsQuiet = 10 * time.Second
	timeoutsApart = 5 * time.Minute
	timeoutsMost  = time.Hour
	// opensWithin: timeouts that began this long before a breaker opened are the begin of its incident.
	opensWithin = time.Minute
	// maxBegun is the largest number of incidents of a kind that a node begins in an hour. Beyond it the last one
	// continues.
	maxBegun = 20
	// maxWaiting is the largest number of events that wait for the rule database.
	maxWaiting = 300
	// maxCauses is the largest number of causes that an incident names.
	maxCauses = 3
)

// ByFailMode is what a fail mode decided: a request, or one limit of it.
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

// Log notes the incidents of this node, in bounded memory, until an Writer has written them to the rule
// database. It owns no goroutine and is safe for concurrent use. Nothing is noted while all is well.
type Log struct {
	id  string
	now func() time.Time
	// wake holds a token if something is to be written soon.
	wake chan struct{}

	mu      sync.Mutex
	address string
	events  int64
	open    map[string]bool // servers with a breaker that is not closed
	// The present incidents, nil without any. Each may have ended and still continue.
	redis, database, regions, starved *running
	// last are the incidents that ended last, by kind, begun when incidents began in the last hour.
	last    map[string]*running
	begun   map[string][]time.Time
	waiting []Event // oldest first
}

// running is an incident that may still change.
type running struct {
	Incident
	rules   map[string]*Rule
	causes  []string
	servers []string
	decided time.Time // the last decision
	closed  time.Time // when the last breaker closed
	changed bool      // since it was last written
}

// NewLog creates the log of the process id, which is unique.
func NewLog(id string, now func() time.Time) *Log {
	return &Log{id: id, now: now, wake: make(chan struct{}, 1), open: map[string]bool{},
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
	for _, r := range l.present() {
		if r != nil && r.End.IsZero() {
			r.End, r.Stopped, r.changed = now, true, true
		}
	}
	for _, at := range []**running{&l.redis, &l.database, &l.regions, &l.starved} {
		l.finish(at)
	}
	if l.address != "" {
		l.wait(l.event(EventNodeStopped, now))
	}
}

// Breaker notes that the breaker of a Redis server opened, or, if open is false, closed.
func (l *Log) Breaker(server string, open bool, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.hurry()
	now := l.now()
	l.settle(now)
	if !open {
		delete(l.open, server)
		if r := l.redis; r != nil && len(l.open) == 0 {
			r.End, r.closed, r.changed = now, now, true
		}
		return
	}
	l.open[server] = true
	r := l.redis
	if r != nil && r.Kind == Timeouts && now.Sub(r.Begin) > opensWithin {
		l.finish(&l.redis)
		r = nil
	}
	if r == nil {
		r = l.begin(&l.redis, Breaker, now)
	}
	r.Kind, r.End, r.changed = Breaker, time.Time{}, true
	r.Opened++
	r.because(cause)
	r.of(server)
}

// Failed notes that Redis could not decide a limit, so that a fail mode does.
func (l *Log) Failed(cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	if l.redis == nil {
		l.begin(&l.redis, Timeouts, now).because(cause)
		l.hurry()
	}
	l.again(now)
}

// Decided notes a request that fail modes decided, and its limits that they decided. Failed came before it.
func (l *Log) Decided(request ByFailMode, limits []ByFailMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.redis
	if r == nil {
		return // its client left
	}
	l.again(l.now())
	r.add(request, limits)
}

// DecidedStarved is Decided for a request that was late because the node lacked CPU.
func (l *Log) DecidedStarved(request ByFailMode, limits []ByFailMode) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.starved; r != nil {
		r.add(request, limits)
		r.changed = true
	}
}

// again notes that a fail mode decides now.
func (l *Log) again(now time.Time) {
	r := l.redis
	r.decided, r.changed = now, true
	switch {
	case r.End.IsZero():
	case r.Kind == Timeouts:
		r.End = time.Time{}
	default: // the decision was under way
		r.End = now
	}
}

// Database notes whether the rule database answers, and if not, why.
func (l *Log) Database(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	r := l.database
	switch {
	case err == nil:
		if r != nil && r.End.IsZero() {
			r.End, r.closed, r.changed = now, now, true
			l.hurry()
		}
	case r == nil:
		l.begin(&l.database, Database, now).because(ErrorWords(err))
	case !r.End.IsZero():
		r.End, r.changed = time.Time{}, true
	}
}

// Starved notes whether the node lacks CPU.
func (l *Log) Starved(lacks bool, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	switch r := l.starved; {
	case !lacks && r != nil && r.End.IsZero():
		r.End, r.closed, r.changed = now, now, true
	case lacks && r == nil:
		l.begin(&l.starved, Starved, now).because(cause)
	case lacks && !r.End.IsZero():
		r.End, r.changed = time.Time{}, true
	default:
		return
	}
	l.hurry()
}

// Regions notes which regions are cut off now, the first of them for how long, and why.
func (l *Log) Regions(cut []string, longest time.Duration, cause string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.settle(now)
	r := l.regions
	switch {
	case len(cut) == 0:
		if r != nil && r.End.IsZero() {
			r.End, r.closed, r.changed = now, now, true
			l.hurry()
		}
		return
	case r == nil:
		r = l.begin(&l.regions, Regions, now)
		if r.Merged == 0 {
			r.Begin = now.Add(-longest)
		}
		l.hurry()
	case !r.End.IsZero():
		r.End, r.changed = time.Time{}, true
	}
	r.because(cause)
	for _, name := range cut {
		r.of(name)
	}
}

// settle ends what has ended for good, so that what happens next is an incident of its own.
func (l *Log) settle(now time.Time) {
	if r := l.redis; r != nil && r.Kind == Timeouts {
		quiet := now.Sub(r.decided)
		if quiet >= timeoutsQuiet && r.End.IsZero() {
			r.End, r.changed = r.decided, true
		}
		if quiet >= timeoutsApart || now.Sub(r.Begin) >= timeoutsMost {
			l.finish(&l.redis)
		}
	} else if r != nil && len(l.open) == 0 && now.Sub(r.closed) >= resumeWithin {
		l.finish(&l.redis)
	}
	for _, at := range []**running{&l.database, &l.regions, &l.starved} {
		if r := *at; r != nil && !r.End.IsZero() && now.Sub(r.closed) >= resumeWithin {
			l.finish(at)
		}
	}
}

// begin begins an incident, or continues the last one if there were many within an hour.
func (l *Log) begin(at **running, kind string, now time.Time) *running {
	begun := slices.DeleteFunc(l.begun[kind], func(t time.Time) bool { return now.Sub(t) > time.Hour })
	if last := l.last[kind]; last != nil && len(begun) >= maxBegun {
		l.begun[kind] = begun
		last.End, last.changed = time.Time{}, true
		last.Merged++
		*at = last
		return last
	}
	l.begun[kind] = append(begun, now)
	*at = &running{
		Incident: Incident{ID: l.nextID(), Kind: kind, Begin: now, NodeID: l.id}, rules: map[string]*Rule{},
		decided: now, changed: true,
	}
	return *at
}

// finish ends an incident for good.
func (l *Log) finish(at **running) {
	r := *at
	if r == nil {
		return
	}
	*at = nil
	if r.End.IsZero() {
		r.End, r.changed = r.decided, true
	}
	l.last[r.Kind] = r
	if r.changed {
		l.wait(l.incidentEvent(r))
	}
}

func (r *running) because(cause string) {
	if cause != "" && !slices.Contains(r.causes, cause) && len(r.causes) < maxCauses {
		r.causes = append(r.causes, cause)
		r.Cause = strings.Join(r.causes, ", ")
	}
}

// of adds a server or a region to those of the incident.
func (r *running) of(server string) {
	if !slices.Contains(r.servers, server) {
		r.servers = append(r.servers, server)
		slices.Sort(r.servers)
		r.Server, r.changed = strings.Join(r.servers, ", "), true
	}
}

// add adds a request that fail modes decided, and its limits.
func (r *running) add(request ByFailMode, limits []ByFailMode) {
	r.Total.Add(request.counts())
	for i := range limits {
		r.count(limits[i].counts())
	}
}

func (r *running) count(c Rule) {
	of := r.rules[c.Rule]
	if of == nil {
		if len(r.rules) >= MaxRules {
			c.Rule = OtherRules
			of = r.rules[c.Rule]
		}
		if of == nil {
			of = &Rule{Rule: c.Rule}
			r.rules[c.Rule] = of
		}
	}
	of.Add(c)
}

// snapshot is the incident as it is now.
func (l *Log) snapshot(r *running) Incident {
	i := r.Incident
	i.Node, i.Updated = l.address, l.now()
	for _, c := range r.rules {
		i.Rules = append(i.Rules, *c)
	}
	sortRules(i.Rules)
	return i
}

func sortRules(all []Rule) {
	slices.SortFunc(all, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(b.Decided(), a.Decided()), cmp.Compare(a.Rule, b.Rule))
	})
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
	for _, r := range l.present() {
		if r != nil {
			out = append(out, l.snapshot(r))
		}
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

// present are the present incidents; some are nil.
func (l *Log) present() []*running {
	return []*running{l.redis, l.database, l.regions, l.starved}
}

// presentOf is the present incident of an id, nil if there is none.
func (l *Log) presentOf(id string) *running {
	for _, r := range l.present() {
		if r != nil && r.ID == id {
			return r
		}
	}
	return nil
}
