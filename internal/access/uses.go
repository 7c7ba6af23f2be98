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
	// fresh are tokens that are not in of yet.
	fresh map[int64]*lastUse
	mu    sync.Mutex // guards fresh, and is held while of is replaced
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
	if of := u.known(); of[token] != nil || len(of) >= maxUses {
		return of[token]
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	of := u.known()
	for _, l := range []*lastUse{of[token], u.fresh[token]} {
		if l != nil {
			return l
		}
	}
	if len(of)+len(u.fresh) >= maxUses {
		u.settle()
		return nil
	}
	if u.fresh == nil {
		u.fresh = map[int64]*lastUse{}
	}
	l := &lastUse{}
	u.fresh[token] = l
	if len(u.fresh) > len(of) { // of doubles, so that a new token costs no copy of all others
		u.settle()
	}
	return l
}

// known are the tokens that are read without a lock.
func (u *Uses) known() map[int64]*lastUse {
	if of := u.of.Load(); of != nil {
		return *of
	}
	return nil
}

// settle adds fresh to of. mu is held.
func (u *Uses) settle() {
	if len(u.fresh) == 0 {
		return
	}
	next := make(map[int64]*lastUse, len(u.known())+len(u.fresh))
	maps.Copy(next, u.known())
	maps.Copy(next, u.fresh)
	u.of.Store(&next)
	u.fresh = nil
}

// Due returns the uses to store at now: of each token whose last use is not stored, and of which none was stored within
// UseEvery. With all it returns those of every token whose last use is not stored. One goroutine calls Due and Stored.
func (u *Uses) Due(now time.Time, all bool) (due []Use) {
	u.mu.Lock()
	u.settle()
	u.mu.Unlock()
	for _, l := range u.known() {
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
