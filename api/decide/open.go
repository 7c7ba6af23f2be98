package decide

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/gather"
	"sluice/limiter"
	"sluice/rules/match"
)

// ReservationList keeps what is known of open reservations, for all nodes that share a counter store. It is safe for
// concurrent use. Bodies are opaque to it. The group of a name is what precedes its dot.
type ReservationList interface {
	// Write makes changes and sets the Err of each. Changes of one entry are made in their order.
	Write(ctx context.Context, changes []*ListChange)
	// Find returns the body of the entry of a group, nil for none. several is true if more than one was put while
	// another was there.
	Find(ctx context.Context, group string) (body []byte, several bool, err error)
	// Due returns up to most entries that are due, and nothing of what was settled. It does not return them again for two
	// seconds, to whichever node.
	Due(ctx context.Context, most int) ([]DueEntry, error)
	// Page returns up to most entries behind a place in the list, "" for its beginning, and the place behind them, "" at
	// its end. There may be more although it returns fewer.
	Page(ctx context.Context, after string, most int) (bodies [][]byte, next string, err error)
	// Units returns how many units all entries hold, by rule.
	Units(ctx context.Context) (map[string]int64, error)
}

// ListOp is what a change does with an entry of a ReservationList.
type ListOp uint8

const (
	// ListPut adds an entry. It replaces the one with its name, unless that one is open and of a later version.
	ListPut ListOp = iota
	// ListSettle forgets the units of an entry and hides it from Page. Find still finds it.
	ListSettle
	// ListRemove removes an entry, unless it is of a later version.
	ListRemove
)

// ListChange is a change of an entry of a ReservationList.
type ListChange struct {
	Op   ListOp
	Name string
	// Version orders entries that are put under one name, and is that of the entry that is to be removed. It is 0 for a
	// reserve and the time of a renewal, ms since the epoch: a reserve that is repeated does not replace what was renewed.
	Version int64
	// MS is in how many ms an entry that is put is due, or for how many ms a settled one stays.
	MS int64
	// Body and Units are those of an entry that is put. Units are what it holds, by rule.
	Body  []byte
	Units map[string]int64
	// Err is why the change was not made, if it was not.
	Err error
}

// DueEntry is an entry of a ReservationList that is due.
type DueEntry struct {
	Name    string
	Version int64
	Body    []byte
}

const (
	// dueBatch is how many expired reservations a node settles in a turn.
	dueBatch = 200
	// dueAtOnce is how many of them it settles at the same time: one after the other, each would wait for the round trips
	// of those before it.
	dueAtOnce = 64
	// giveUpAfter is how long after its end a reservation is given up whose settlement fails each time. The counter store
	// has forgotten by then what it charged, so no settlement can change anything.
	giveUpAfter = 2 * reservationGrace
	// openTurn is how often a node looks for expired reservations.
	openTurn = time.Second
	// listTimeout bounds a call that lists reservations; listLook is for how long it looks at more of the list.
	listTimeout, listLook = 2 * time.Second, time.Second
)

// ErrSeveralReservations means that open reservations of different keys have the same request id.
var ErrSeveralReservations = errors.New("several open reservations have this request id")

// OpenReservations lists open reservations, and settles those that nobody settled in time. A Checker that has it owns
// no goroutine: Run does the work that no request waits for.
type OpenReservations struct {
	list   ReservationList
	gaveUp func(n int, err error)
	queue  chan *ListChange
	turns  chan struct{} // holds one for each batch of changes that requests wait for and that is being written

	queueDrops, listDrops, givenUp atomic.Int64

	mu      sync.Mutex
	open    map[string]int64
	expired map[ExpiredUnits]int64
	waiting gather.Queue[*listWait]
}

// OpenDrops are changes of the list that were not made: Queue because too many waited to be written, List because the
// list in memory was full.
type OpenDrops struct{ Queue, List int64 }

// ExpiredUnits are units of reservations that expired. Kept is true for those that stayed charged.
type ExpiredUnits struct {
	Rule string
	Kept bool
}

// NewOpenReservations returns one on a list. gaveUp, if not nil, is called after a turn in which n expired reservations
// were given up, with the error of one of them.
func NewOpenReservations(list ReservationList, gaveUp func(n int, err error)) *OpenReservations {
	return &OpenReservations{list: list, gaveUp: gaveUp, queue: make(chan *ListChange, openQueue),
		turns: make(chan struct{}, listWriters), expired: map[ExpiredUnits]int64{}}
}

// Units returns how many units open reservations held a few seconds ago, by rule.
func (o *OpenReservations) Units() map[string]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.open)
}

// Expired returns how many units of reservations have expired on this node's watch.
func (o *OpenReservations) Expired() map[ExpiredUnits]int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.expired)
}

// Drops returns how many changes of the list this node has dropped.
func (o *OpenReservations) Drops() OpenDrops {
	return OpenDrops{o.queueDrops.Load(), o.listDrops.Load()}
}

// GivenUp returns how many expired reservations this node has given up, because each settlement of them failed.
func (o *OpenReservations) GivenUp() int64 { return o.givenUp.Load() }

// RunReservations settles expired reservations until ctx ends. One call a Checker. It returns once the changes of the
// list that wait are written, or two seconds have passed.
func (c *Checker) RunReservations(ctx context.Context) {
	o := c.opt.Open
	var writer sync.WaitGroup
	writer.Go(func() { o.write(ctx) }) // so that what is due does not wait for a long queue
	var turns int
	wait := time.NewTicker(openTurn)
	defer wait.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-wait.C:
			c.settleDue(ctx)
			if turns++; turns%5 == 1 {
				o.readUnits(ctx)
			}
		}
	}
	writer.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*openTurn)
	defer cancel()
	o.flush(last)
}

// readUnits reads how many units are open.
func (o *OpenReservations) readUnits(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	if units, err := o.list.Units(ctx); err == nil {
		o.mu.Lock()
		o.open = units
		o.mu.Unlock()
	}
}

// ExpireReservations does at once what RunReservations does in turns: it writes what waits, and settles what is due.
// Not for use beside RunReservations, which writes changes in their order.
func (c *Checker) ExpireReservations(ctx context.Context) {
	c.opt.Open.flush(ctx)
	c.settleDue(ctx)
}

// OpenReservation is one that has not been settled.
type OpenReservation struct {
	// RequestID is that of the reserve, "" for none.
	RequestID string
	// Began and Expires are in ms since the epoch.
	Began, Expires int64
	// Keeps is the percentage of the estimate that stays charged at the expiry.
	Keeps  int64
	Limits []OpenLimit
}

// OpenLimit is what a reservation holds of one limit. Rule is "" for a direct limit.
type OpenLimit struct {
	Rule  string      `json:"r,omitempty"`
	Key   limiter.Key `json:"k"`
	Units int64       `json:"u"`
}

// openEntry is an OpenReservation on the list.
type openEntry struct {
	Token     string      `json:"t"`
	RequestID string      `json:"q,omitempty"`
	Began     int64       `json:"b"`
	Expires   int64       `json:"e"`
	Keeps     int64       `json:"p"`
	Limits    []OpenLimit `json:"l"`
}

// OpenWant says which open reservations to list.
type OpenWant struct {
	// Before is when they began at the latest, ms since the epoch.
	Before int64
	// Rule and Key, if not "", are the name of a rule and the name for people of a key that they hold units of.
	Rule, Key string
	// After is the place in the list, "" for its beginning; Most how many to return, and how many to look at.
	After string
	Most  int
}

// ListReservations lists open reservations. It looks at up to 32 times want.Most, for about a second, so it may return
// fewer although next says that there are more. Errors are the store's.
func (c *Checker) ListReservations(ctx context.Context, want *OpenWant) (out []OpenReservation, next string,
	err error) {
	if c.opt.Open == nil {
		return nil, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	look, stop := context.WithTimeout(ctx, listLook)
	defer stop()
	next = want.After
	for range 32 {
		bodies, after, err := c.opt.Open.list.Page(ctx, next, want.Most-len(out))
		if err != nil {
			return nil, "", &limiter.StoreError{Cause: limiter.CauseConnection, Err: err}
		}
		for _, body := range bodies {
			var e openEntry
			if json.Unmarshal(body, &e) == nil && e.fits(want) {
				out = append(out, OpenReservation{e.RequestID, e.Began, e.Expires, e.Keeps, e.Limits})
			}
		}
		if next = after; next == "" || len(out) >= want.Most || look.Err() != nil {
			break
		}
	}
	return out, next, nil
}

func (e *openEntry) fits(want *OpenWant) bool {
	return e.Began <= want.Before && (want.Rule == "" && want.Key == "" ||
		slices.ContainsFunc(e.Limits, func(l OpenLimit) bool {
			return (want.Rule == "" || l.Rule == want.Rule) && (want.Key == "" || match.DisplayKey(l.Key) == want.Key)
		}))
}

// reservationGroup names the reservations with a request id.
func reservationGroup(requestID string) string { return shortHash("reservation\x00" + requestID) }

// shelve gives a reservation the name that it has on the list, if it comes there: a grant does not, since its caller
// settles it continually, nor does one that holds no units.
func (c *Checker) shelve(r *reservation, p *plan) {
	if c.opt.Open == nil || len(r.calls) == 0 || r.granted > 0 || p.q.Times > 0 {
		r.keeps = 100
		return
	}
	id := p.q.RequestID
	if id == "" {
		id = r.calls[0].id
	}
	r.name = reservationGroup(id) + "." + shortHash(string(r.calls[0].asks[0].Key))[:10]
}

// listOpen puts a reservation on the list. A caller who relies on that waits for it. version is 0 for a reserve and the
// time of a renewal, ms since the epoch.
func (c *Checker) listOpen(ctx context.Context, r *reservation, token string, version int64) error {
	if r.name == "" {
		return nil
	}
	e := openEntry{Token: token, RequestID: r.request, Began: r.began, Expires: r.expires, Keeps: r.keeps}
	set, units := c.opt.Sets.Load(), map[string]int64{}
	for i := range r.calls {
		for k := range r.calls[i].asks {
			ask := &r.calls[i].asks[k]
			if ask.isPool || ask.Look || r.calls[i].kind&resApart != 0 {
				continue
			}
			l := OpenLimit{Key: ask.Key, Units: ask.Weight}
			if rule := ruleOfKey(set, ask.Key); rule != nil {
				l.Rule = rule.Rule.Name
				units[l.Rule] += l.Units
			}
			e.Limits = append(e.Limits, l)
		}
	}
	body, err := json.Marshal(&e)
	if err != nil {
		return err
	}
	life := r.expires - c.opt.Now().UnixMilli()
	put := ListChange{Op: ListPut, Name: r.name, Version: version, MS: life, Body: body, Units: units}
	if r.keeps == 100 && r.request == "" {
		c.opt.Open.later(&put)
		return nil
	}
	ctx, cancel := c.limited(ctx)
	defer cancel()
	return c.writeNow(ctx, &put)
}

// unlist takes a settled reservation off the list. If its reserve had a request id, a repeat of its settlement finds it
// by that for a while.
func (c *Checker) unlist(r *reservation) {
	switch {
	case r.name == "" || c.opt.Open == nil:
	case r.request == "":
		c.opt.Open.later(&ListChange{Op: ListRemove, Name: r.name, Version: math.MaxInt64})
	default:
		c.opt.Open.later(&ListChange{Op: ListSettle, Name: r.name, MS: limiter.ReplayWindow})
	}
}

// find returns the newest token of the reservation that a reserve with a request id made.
func (c *Checker) find(ctx context.Context, requestID string) (string, error) {
	if c.opt.Open == nil {
		return "", ErrReservationEnded
	}
	body, several, err := c.opt.Open.list.Find(ctx, reservationGroup(requestID))
	var e openEntry
	switch {
	case err != nil:
		return "", &limiter.StoreError{Cause: limiter.CauseConnection, Err: err}
	case several:
		return "", ErrSeveralReservations
	case body == nil || json.Unmarshal(body, &e) != nil:
		return "", ErrReservationEnded
	}
	return e.Token, nil
}
