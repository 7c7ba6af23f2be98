package evaluate

import (
	"context"
	"sync/atomic"
	"time"

	"sluice/internal/alerts"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// boardEvery is how often a Board is read.
	boardEvery = 3 * time.Second
	// maxActive is how many conditions a Board has.
	maxActive = 1000
)

// Board holds the active conditions that a node knows. It keeps them while the rule database is unavailable. It is safe
// for concurrent use.
type Board struct {
	store interface {
		AlertStates(ctx context.Context) ([]alerts.State, error)
	}
	now     func() time.Time
	trouble *trouble.Registry
	read    atomic.Pointer[boardRead]
}

// boardRead is the result of one read. It is immutable.
type boardRead struct {
	at     time.Time
	active []alerts.Event
	kinds  map[alerts.Kind]int
}

// NewBoard creates a Board. It knows nothing until Run has read.
func NewBoard(store interface {
	AlertStates(ctx context.Context) ([]alerts.State, error)
}, now func() time.Time, known *trouble.Registry) *Board {
	return &Board{store: store, now: now, trouble: known}
}

// Run reads every few seconds until ctx ends.
func (b *Board) Run(ctx context.Context) {
	read := func() {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		stored, err := b.store.AlertStates(limited)
		cancel()
		if err == nil {
			b.set(stored)
		}
		if ctx.Err() == nil {
			b.trouble.Note(unread, "", err)
		}
	}
	read()
	for range tick.Every(ctx, boardEvery) {
		read()
	}
}

func (b *Board) set(stored []alerts.State) {
	now := b.now()
	states := LoadStates(stored, now)
	out := &boardRead{at: now, active: states.active(maxActive), kinds: map[alerts.Kind]int{}}
	for _, s := range states.subjects {
		if s.On {
			out.kinds[s.Subject.Kind]++
		}
	}
	b.read.Store(out)
}

// Active returns the active conditions, at most 1,000: first conditions of all nodes, then of rules, then of keys, each
// newest first. It does no I/O; do not change the result.
func (b *Board) Active() []alerts.Event {
	if r := b.read.Load(); r != nil {
		return r.active
	}
	return nil
}

// Since is when Active was read from the rule database, the zero time if it never was.
func (b *Board) Since() time.Time {
	if r := b.read.Load(); r != nil {
		return r.at
	}
	return time.Time{}
}

// ActiveOf is the number of conditions of a kind that are met.
func (b *Board) ActiveOf(kind alerts.Kind) int {
	if r := b.read.Load(); r != nil {
		return r.kinds[kind]
	}
	return 0
}
