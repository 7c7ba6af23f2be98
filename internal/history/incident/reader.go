package incident

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"sluice/internal/trouble"
)

const (
	// writeEvery is how often an incident that lasts is written.
	writeEvery = 3 * time.Second
	// eventsTimeout bounds a write.
	eventsTimeout = 2 * time.Second
	// cleanEvery is how often old events are deleted, cleanEvents how many at once.
	cleanEvery  = time.Hour
	cleanEvents = 1000
	// sought is how many incidents of single nodes are searched.
	sought = 4 * Max
	// runningFor is how old the answer of Running may be.
	runningFor = time.Second
)

// incident is the incident of an event, false if it has none.
func (e *Event) incident() (i Incident, ok bool) {
	if e.Kind != EventIncident || json.Unmarshal(e.Data, &i) != nil {
		return Incident{}, false
	}
	i.ID, i.Node = e.ID, e.Node
	return i, true
}

// Writer writes the events of a log to the rule database, and deletes expired ones. Run it in one goroutine.
type Writer struct {
	log     *Log
	store   Store
	trouble *trouble.Registry
	cleaned time.Time
}

var unwritten = trouble.Declare(trouble.Condition{Code: "incidents_unwritten",
	Advice: "see whether the rules database answers; decisions are not affected",
	Starts: "incidents cannot be written to the rules database; they wait in memory",
	Ends:   "incidents are written to the rules database again"})

// NewWriter creates a Writer.
func NewWriter(log *Log, store Store, known *trouble.Registry) *Writer {
	return &Writer{log: log, store: store, trouble: known}
}

// Run writes until ctx ends. It then notes that the node stops, and writes that.
func (w *Writer) Run(ctx context.Context) {
	every := time.NewTicker(writeEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			w.log.Stopped()
			w.Write(context.WithoutCancel(ctx))
			return
		case <-every.C:
			w.Write(ctx)
			w.clean(ctx)
		case <-w.log.wake:
			w.Write(ctx)
		}
	}
}

// Write writes the queued events. After a failure they stay in the queue.
func (w *Writer) Write(ctx context.Context) {
	events := w.log.take()
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	err := w.store.AddEvents(ctx, events)
	if err != nil {
		w.log.giveBack(events)
	}
	w.trouble.Note(unwritten, "", err)
}

// clean deletes expired events, once an hour. Every node may do so at any time.
func (w *Writer) clean(ctx context.Context) {
	now := w.log.now()
	if w.trouble.On(unwritten, "") || now.Sub(w.cleaned) < cleanEvery {
		return
	}
	w.cleaned = now
	for {
		limited, cancel := context.WithTimeout(ctx, eventsTimeout)
		n, err := w.store.CleanEvents(limited, now.Add(-Kept), cleanEvents)
		cancel()
		if err != nil || n < cleanEvents {
			return // the next hour deletes the rest
		}
	}
}

// Reader reads incidents of all nodes from the rule database, and incidents of this node from memory. It is safe for
// concurrent use.
type Reader struct {
	log   *Log
	store Store
	now   func() time.Time

	mu      sync.Mutex
	asked   time.Time
	running []Incident
	err     error
}

// NewReader creates a Reader.
func NewReader(log *Log, store Store, now func() time.Time) *Reader {
	return &Reader{log: log, store: store, now: now}
}

// Incidents implements Source.
func (r *Reader) Incidents(ctx context.Context, q Query) ([]Incident, error) {
	if err := q.Validate(); err != nil {
		return nil, err
	}
	now := r.now()
	if q.From.IsZero() {
		q.From = now.Add(-Kept)
	}
	if q.To.IsZero() {
		q.To = now.Add(LostAfter) // the clocks of nodes differ
	}
	all, events, err := r.merged(ctx, &q, Max)
	if events == Max && len(all) < Max { // several nodes had the same, or the query selects few
		all, _, err = r.merged(ctx, &q, sought)
	}
	return Sort(all), err
}

// merged are the incidents of a query, from the newest events up to a limit, and how many events there were.
func (r *Reader) merged(ctx context.Context, q *Query, limit int) (all []Incident, n int, err error) {
	found := map[string]Incident{}
	events, err := r.store.Events(ctx, []string{EventIncident}, q.From, q.To, limit)
	for i := range events {
		if in, ok := events[i].incident(); ok {
			found[in.ID] = in
		}
	}
	for _, in := range r.log.Own() {
		found[in.ID] = in
	}
	now := r.now()
	for _, in := range found {
		in.Lost = in.End.IsZero() && now.Sub(in.Updated) > LostAfter
		all = append(all, in)
	}
	return slices.DeleteFunc(overNodes(all), func(in Incident) bool { return !q.Match(&in) }), len(events), err
}

// Running implements Source.
func (r *Reader) Running(ctx context.Context) ([]Incident, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if age := now.Sub(r.asked); age >= 0 && age < runningFor {
		return r.running, r.err
	}
	all, err := r.Incidents(context.WithoutCancel(ctx), Query{From: now.Add(-LostAfter)})
	r.asked, r.err, r.running = now, err, nil
	for i := range all {
		if all[i].Running() {
			r.running = append(r.running, all[i])
		}
	}
	return r.running, err
}

var _ Source = (*Reader)(nil)
