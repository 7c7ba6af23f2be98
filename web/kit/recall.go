package kit

import (
	"sync"
	"time"

	"sluice/internal/access"
)

// Bounds of what a node remembers of sessions, for when the rules database is
// unreachable.
const (
	// recallSessions is how many sessions are remembered; the one that was proved
	// the longest time ago makes room.
	recallSessions = 1000
	// recallBefore is how long before the outage a session may have been proved,
	// recallFor how long into the outage it is believed.
	recallBefore = 15 * time.Minute
	recallFor    = time.Hour
	// recallProbe is how often the database is asked again meanwhile.
	recallProbe = time.Second
	// busyPause is how long sessions that were ended here wait after another change
	// kept them from being deleted: each attempt holds up a page.
	busyPause = 10 * time.Second
)

// recalled is a session as the database last confirmed it.
type recalled struct {
	session access.Session
	user    access.User // without its password
	proved  time.Time
}

// recall remembers the sessions that this node proved lately. During an outage of
// the rules database their owners may go on reading. Safe for concurrent use.
type recall struct {
	mu       sync.Mutex
	sessions map[string]recalled
	// ended were ended here while the database could not be told.
	ended map[string]struct{}
	// epoch grows when sessions end: what was read before that is not remembered.
	epoch int64
	// since is when the outage began, failed when the database last did not answer;
	// both are zero while it does.
	since, failed time.Time
	// pause is until when the ended sessions are left alone.
	pause time.Time
}

func newRecall() *recall {
	return &recall{sessions: map[string]recalled{}, ended: map[string]struct{}{}}
}

// now is the epoch before a session is read.
func (r *recall) now() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.epoch
}

// note remembers a session that was read in an epoch.
func (r *recall) note(epoch int64, s access.Session, u access.User, at time.Time) {
	u.PasswordHash = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if epoch != r.epoch {
		return
	}
	if _, known := r.sessions[s.Token]; !known && len(r.sessions) >= recallSessions {
		oldest := ""
		for token := range r.sessions {
			if oldest == "" || r.sessions[token].proved.Before(r.sessions[oldest].proved) {
				oldest = token
			}
		}
		delete(r.sessions, oldest)
	}
	r.sessions[s.Token] = recalled{s, u, at}
}

// up notes that the database answers.
func (r *recall) up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since, r.failed = time.Time{}, time.Time{}
}

// down notes that the database does not answer; confirmed is when this node last
// heard from it.
func (r *recall) down(now, confirmed time.Time) {
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

// waiting reports whether the database failed so lately that it need not be asked.
func (r *recall) waiting(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	age := now.Sub(r.failed)
	return !r.failed.IsZero() && age >= 0 && age < recallProbe
}

// find gives a session that is believed during the present outage.
func (r *recall) find(token string, now time.Time) (recalled, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, known := r.sessions[token]
	ok := known && !r.since.IsZero() && now.Before(s.session.ExpiresAt) &&
		!s.proved.Before(r.since.Add(-recallBefore)) && now.Before(r.since.Add(recallFor))
	return s, ok
}

// forget drops a session that ends.
func (r *recall) forget(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	delete(r.sessions, token)
}

// forgetKnown is forget for a session that may be anything a browser sent: only
// one that is remembered begins another epoch.
func (r *recall) forgetKnown(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.sessions[token]; known {
		r.epoch++
		delete(r.sessions, token)
	}
}

// forgetAll drops every session: accounts changed, and each is proved anew.
func (r *recall) forgetAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
	clear(r.sessions)
}

// bury notes that a session was ended here although the database did not answer.
func (r *recall) bury(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ended) < recallSessions {
		r.ended[token] = struct{}{}
	}
}

// postpone notes that another change keeps ended sessions from being deleted.
func (r *recall) postpone(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = now.Add(busyPause)
}

// graves lists up to most sessions that were ended here and are to be deleted now.
func (r *recall) graves(most int, now time.Time) (tokens []string) {
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

// level notes that a session that was ended here has been deleted.
func (r *recall) level(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.ended, token)
}

// buried reports whether a session was ended here.
func (r *recall) buried(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, there := r.ended[token]
	return there
}
