package access

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// useGrain is the shortest time between two uses of a token that are remembered: a busy token costs each call a look
	// at the clock and no memory.
	useGrain = time.Second
	// UseEvery is the shortest time between two times that a node stores the last use of one token.
	UseEvery = time.Minute
	// maxUses is how many tokens a node remembers uses of. The uses of further tokens are not recorded.
	maxUses = 10_000
)

// Use is a use of a token: a call that it authorised.
type Use struct {
	Token int64
	At    time.Time
	// Endpoint is the interface that was called, as in Call.
	Endpoint string
}

// Uses remembers when this node last used each token, until that is stored. It is safe for concurrent use. The zero
// value remembers nothing yet.
type Uses struct {
	// of are the tokens that were used. The map is replaced and never changed, so that calls read it without a lock.
	of atomic.Pointer[map[int64]*lastUse]
	mu sync.Mutex // held while of is replaced
}

// lastUse is what is remembered of one token.
type lastUse struct {
	last atomic.Pointer[Use]
	// stored is the last use that was stored, and when that was. Only Due and Stored use them, in one goroutine.
	stored   *Use
	storedAt time.Time
}

// note takes note of a use. Tokens without an ID are not stored anywhere.
func (u *Uses) note(token int64, endpoint string, now time.Time) {
	if token == 0 {
		return
	}
	l := u.lastOf(token)
	if l == nil {
		return
	}
	if last := l.last.Load(); last == nil || now.Sub(last.At) >= useGrain {
		l.last.Store(&Use{Token: token, At: now, Endpoint: endpoint})
	}
}

// lastOf returns what is remembered of a token, nil if there is no room.
func (u *Uses) lastOf(token int64) *lastUse {
	if of := u.of.Load(); of != nil && (*of)[token] != nil {
		return (*of)[token]
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	next := map[int64]*lastUse{}
	if of := u.of.Load(); of != nil {
		switch {
		case (*of)[token] != nil:
			return (*of)[token]
		case len(*of) >= maxUses:
			return nil
		}
		next = maps.Clone(*of)
	}
	next[token] = &lastUse{}
	u.of.Store(&next)
	return next[token]
}

// Due returns the uses to store at now: of each token whose last use is not stored, and of which none was stored within
// UseEvery. With all it returns those of every token whose last use is not stored. One goroutine calls Due and Stored.
func (u *Uses) Due(now time.Time, all bool) (due []Use) {
	of := u.of.Load()
	if of == nil {
		return nil
	}
	for _, l := range *of {
		last := l.last.Load()
		if last != nil && last != l.stored && (all || l.stored == nil || now.Sub(l.storedAt) >= UseEvery) {
			due = append(due, *last)
		}
	}
	return due
}

// Stored notes that uses were stored at now. Uses that Due returned and that were not stored are returned again.
func (u *Uses) Stored(uses []Use, now time.Time) {
	for i := range uses {
		l := u.lastOf(uses[i].Token)
		l.storedAt = now
		if last := l.last.Load(); *last == uses[i] {
			l.stored = last
		} else {
			l.stored = &uses[i]
		}
	}
}
