package kit

import (
	"sync"
	"time"

	"sluice/internal/access"
)

// Bounds of the sessions that a node remembers for outages of the rules database.
const (
	// recallSessions is how many sessions are remembered; the one verified longest ago is dropped first.
	recallSessions = 1000
	// recallBefore is how long before the outage a session may have been verified, recallFor how long after its start
	// the session is accepted.
	recallBefore = 15 * time.Minute
	recallFor    = time.Hour
	// recallProbe is how often the database is tried during an outage.
	recallProbe = time.Second
	// busyPause is how long deleting ended sessions pauses after another change was in the way: each attempt delays a
	// page.
	busyPause = 10 * time.Second
)

// recalled is a session as the database last confirmed it.
type recalled struct {
	session  access.Session
	user     access.User // without its password
	verified time.Time
}

// recall remembers the sessions that this node verified recently. During an outage of the rules database their owners
// can continue to read. It is safe for concurrent use.
type recall struct {
	mu       sync.Mutex
	sessions map[string]recalled
	// ended are sessions that were ended on this node while the database was unreachable.
	ended map[string]struct{}
	// epoch grows when sessions end: a session read in an earlier epoch is not remembered.
	epoch int64
	// since is when the outage began, failed when a call to the database last failed; both are zero if there is no outage.
	since, failed time.Time
	// pause is the time until which ended sessions are not deleted.
	pause time.Time
}

func newRecall() *recall {
	return &recall{sessions: map[string]recalled{}, ended: map[string]struct{}{}}
}

// currentEpoch returns the epoch, to be called before a session is read.
func (r *recall) currentEpoch() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// remember remembers a session that was read in an epoch.
func (r *recall) remember(epoch int64, s access.Session, u access.User, at time.Time) {
	u.PasswordHash = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch {
		return
	}
	if _, known := r.sessions[s.Token]; !known && len(r.sessions) >= recallSessions {
		oldest := ""
		for token := range r.sessions {
			if oldest == "" || r.sessions[token].verified.Before(r.sessions[oldest].verified) {
				oldest = token
			}
		}
		delete(r.sessions, oldest)
	}
	r.sessions[s.Token] = recalled{s, u, at}
}

// databaseUp records that the database answered.
func (r *recall) databaseUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.failed = time.Time{}, time.Time{}
}

// databaseDown records that the database is unreachable; confirmed is when the database last answered this node.
func (r *recall) databaseDown(now, confirmed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = now
	if r.since.IsZero() {
		r.since = now
		if confirmed.Before(now) && confirmed.Unix() > 0 {
			r.since = confirmed
		}
	}
}

// backingOff reports whether the database failed so recently that it should not be tried again yet.
func (r *recall) backingOff(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.failed)
	return !r.failed.IsZero() && age >= 0 && age < recallProbe
}

// find returns a session that is accepted during the current outage.
func (r *recall) find(token string, now time.Time) (recalled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.sessions[token]
	ok := known && !r.since.IsZero() && now.Before(s.session.ExpiresAt) &&
		!s.verified.Before(r.since.Add(-recallBefore)) && now.Before(r.since.Add(recallFor))
	return s, ok
}

// forget drops a session that ends.
func (r *recall) forget(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	delete(r.sessions, token)
}

// forgetIfKnown is forget for a token from a browser: only a remembered session starts a new epoch.
func (r *recall) forgetIfKnown(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.sessions[token]; known {
		r.epoch++
		delete(r.sessions, token)
	}
}

// forgetAll drops every session, because accounts changed. Each session is verified again.
func (r *recall) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	clear(r.sessions)
}

// markEnded records that a session was ended on this node while the database was unreachable.
func (r *recall) markEnded(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ended) < recallSessions {
		r.ended[token] = struct{}{}
	}
}

// pauseDeletes records that another change prevents ended sessions from being deleted.
func (r *recall) pauseDeletes(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = now.Add(busyPause)
}

// endedToDelete lists up to most sessions that were ended on this node and can be deleted now.
func (r *recall) endedToDelete(most int, now time.Time) (tokens []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Before(r.pause) {
		return nil
	}
	for token := range r.ended {
		if len(tokens) == most {
			break
		}
		tokens = append(tokens, token)
	}
	return tokens
}

// forgetEnded records that an ended session was deleted from the database.
func (r *recall) forgetEnded(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, token)
}

// isEnded reports whether a session was ended on this node during the outage.
func (r *recall) isEnded(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.ended[token]
	return there
}
