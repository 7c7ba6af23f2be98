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
	store   BoardStore
	now     func() time.Time
	trouble *trouble.Registry
	read    atomic.Pointer[boardRead]
	// begun counts the reads that were begun. One that ends after a later one is not used.
	begun atomic.Int64
}

// BoardStore is the rule database. Errors wrap rules.ErrUnavailable. It is safe for concurrent use.
type BoardStore interface {
	AlertStates(ctx context.Context) ([]alerts.State, error)
	// Silences returns all silences, also ended ones.
	Silences(ctx context.Context) ([]alerts.Silence, error)
}

// boardRead is the result of one read. It is immutable.
type boardRead struct {
	turn   int64 // of begun
	at     time.Time
	active []alerts.Event
	// waiting is the number of active conditions that nobody has acknowledged or silenced.
	waiting int
	kinds   map[alerts.Kind]int
}

// NewBoard creates a Board. It knows nothing until Run has read.
func NewBoard(store BoardStore, now func() time.Time, known *trouble.Registry) *Board {
	return &Board{store: store, now: now, trouble: known}
}

// Run reads every few seconds until ctx ends.
func (b *Board) Run(ctx context.Context) {
	b.Refresh(ctx)
	for range tick.Every(ctx, boardEvery) {
		b.Refresh(ctx)
	}
}

// Refresh reads now, so that a change of the silences is known at once. After an error the Board stays as it is.
func (b *Board) Refresh(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	turn := b.begun.Add(1)
	stored, err := b.store.AlertStates(limited)
	var silences []alerts.Silence
	if err == nil {
		silences, err = b.store.Silences(limited)
	}
	if err == nil {
		b.set(turn, stored, silences)
	}
	if ctx.Err() == nil {
		b.trouble.Note(unread, "", err)
	}
}

func (b *Board) set(turn int64, stored []alerts.State, silences []alerts.Silence) {
	now := b.now()
	states := LoadStates(stored, now)
	out := &boardRead{turn: turn, at: now, active: states.active(maxActive), kinds: map[alerts.Kind]int{}}
	for i := range out.active {
		if out.active[i].Mark(silences, now); !out.active[i].Handled() {
			out.waiting++
		}
	}
	for _, s := range states.subjects {
		if s.On {
			out.kinds[s.Subject.Kind]++
		}
	}
	for {
		was := b.read.Load()
		if was != nil && was.turn > turn || b.read.CompareAndSwap(was, out) {
			return
		}
	}
}

// Active returns the active conditions, at most 1,000: first conditions of all nodes, then of rules, then of keys, each
// newest first. It does no I/O; do not change the result.
func (b *Board) Active() []alerts.Event {
	if r := b.read.Load(); r != nil {
		return r.active
	}
	return nil
}

// Waiting is how many of Active nobody has acknowledged or silenced.
func (b *Board) Waiting() int {
	if r := b.read.Load(); r != nil {
		return r.waiting
	}
	return 0
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
