package incident

import (
	"encoding/json"
	"slices"
	"time"
)

func (l *Log) event(kind string, at time.Time) Event {
	return Event{ID: l.nextID(), Kind: kind, At: at, End: at, Node: l.address}
}

func (l *Log) incidentEvent(r *running) Event {
	i := l.snapshot(r)
	r.changed = false
	data, _ := json.Marshal(i) // it has strings, numbers and times
	return Event{ID: i.ID, Kind: EventIncident, At: i.Begin, End: i.End, Node: i.Node, Data: data}
}

// wait queues an event, or replaces an older state of it in the queue. If the queue is full, the two oldest incidents
// of a kind are merged. If there are no two of a kind, the oldest event is lost.
func (l *Log) wait(e Event) {
	if i := slices.IndexFunc(l.waiting, func(w Event) bool { return w.ID == e.ID }); i >= 0 {
		l.waiting[i] = e
		return
	}
	l.waiting = append(l.waiting, e)
	if len(l.waiting) <= maxWaiting {
		return
	}
	first := map[string]int{}
	for i := range l.waiting {
		in, ok := l.waiting[i].incident()
		if !ok {
			continue
		}
		if j, found := first[in.Kind]; found {
			older, _ := l.waiting[j].incident()
			one := older.plus(&in)
			one.End, one.Updated, one.Stopped = in.End, in.Updated, in.Stopped
			one.Merged++
			l.waiting[j].End = in.End
			l.waiting[j].Data, _ = json.Marshal(one)
			l.waiting = slices.Delete(l.waiting, i, i+1)
			return
		}
		first[in.Kind] = i
	}
	l.waiting = slices.Delete(l.waiting, 0, 1)
}

// take returns what is to be written and forgets it. An incident that lasts is always among it, so that others see that
// the node lives.
func (l *Log) take() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle(l.now())
	if l.address == "" {
		return nil // the node has not started yet
	}
	for _, r := range l.present {
		if r.changed || r.End.IsZero() {
			l.wait(l.incidentEvent(r))
		}
	}
	out := l.waiting
	l.waiting = nil
	for i := range out {
		out[i].Node = l.address
	}
	return out
}

// giveBack returns what could not be written.
func (l *Log) giveBack(events []Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	later := l.waiting
	l.waiting = nil
	present := map[string]*running{}
	for _, r := range l.present {
		present[r.ID] = r
	}
	for _, e := range slices.Concat(events, later) {
		if r := present[e.ID]; r != nil {
			r.changed = true
			continue
		}
		l.wait(e)
	}
}
