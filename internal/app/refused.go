package app

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/alerts/sense"
)

const (
	// refusedLine is the shortest time between two log lines about refused calls of one token.
	refusedLine = time.Minute
	// refusedHold is how long a token must not be used until it is forgotten, and its alert is over.
	refusedHold = time.Hour
	// maxRefusedTokens is how many tokens are watched at once. Further ones share their log lines and have no alert.
	maxRefusedTokens = 100
)

// refusedWatch counts the calls that are refused for their credentials, writes log lines about them, and has the
// conditions of the alerts about tokens that are used although they are expired or revoked. It is safe for concurrent
// use.
type refusedWatch struct {
	total *prometheus.CounterVec
	log   *slog.Logger
	now   func() time.Time

	mu     sync.Mutex
	seen   map[refusedCaller]*refusedCalls
	tokens int // the number of tokens in seen
}

// refusedCaller identifies the calls that share log lines: the calls of a token, the calls of a client certificate by
// its name, or the calls without a known token by their reason. The reason is 0 for tokens and certificates.
type refusedCaller struct {
	token  int64
	name   string
	reason access.Reason
}

// furtherTokens is the common caller of all tokens beyond maxRefusedTokens.
var furtherTokens = refusedCaller{token: -1}

// refusedCalls describes the refused calls of a caller.
type refusedCalls struct {
	token    access.Token
	reason   access.Reason // of the last call
	last     time.Time
	logged   time.Time
	unlogged int64 // calls since the last line
}

// newRefusedWatch serves the series of all endpoints from the start, so that their first counts are an increase.
func newRefusedWatch(host *Host, metrics prometheus.Registerer, endpoints []string) *refusedWatch {
	total := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "sluice_refused_total",
		Help: "Calls without sufficient credentials, by endpoint and reason (none, unknown, expired, revoked, scope, " +
			"not_open, not_loaded)."}, []string{"endpoint", "reason"})
	metrics.MustRegister(total)
	for _, endpoint := range endpoints {
		for _, reason := range access.Reasons() {
			total.WithLabelValues(endpoint, reason)
		}
	}
	return &refusedWatch{total: total, log: host.Log, now: host.Now, seen: map[refusedCaller]*refusedCalls{}}
}

// refused takes note of a refused call. It is access.Gate.Refused.
func (w *refusedWatch) refused(endpoint string, r *access.Refusal) {
	w.total.WithLabelValues(endpoint, r.Reason.String()).Inc()
	if calls := w.note(r); calls > 0 {
		w.write(endpoint, r, calls)
	}
}

// note takes note of a call. It returns the number of calls that the next log line is about, 0 if it is too early for
// one.
func (w *refusedWatch) note(r *access.Refusal) (calls int64) {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.callsOf(r, now)
	c.token, c.reason, c.last = r.Token, r.Reason, now
	c.unlogged++
	if !c.logged.IsZero() && now.Sub(c.logged) < refusedLine {
		return 0
	}
	calls = c.unlogged
	c.logged, c.unlogged = now, 0
	return calls
}

// callsOf returns what is known of the caller of a refused call.
func (w *refusedWatch) callsOf(r *access.Refusal, now time.Time) *refusedCalls {
	by, known := refusedCaller{reason: r.Reason}, r.Token.ID != 0 || r.Token.Certificate
	if known {
		by = refusedCaller{token: r.Token.ID, name: r.Token.Name}
	}
	if c := w.seen[by]; c != nil {
		return c
	}
	if known {
		if w.tokens >= maxRefusedTokens {
			w.forget(now)
		}
		if w.tokens >= maxRefusedTokens {
			by = furtherTokens
		} else {
			w.tokens++
		}
	}
	if w.seen[by] == nil {
		w.seen[by] = &refusedCalls{}
	}
	return w.seen[by]
}

// forget forgets the tokens that were not used for refusedHold.
func (w *refusedWatch) forget(now time.Time) {
	for by, c := range w.seen {
		if by.reason == 0 && by != furtherTokens && now.Sub(c.last) >= refusedHold {
			delete(w.seen, by)
			w.tokens--
		}
	}
}

// write writes a log line. It never has a secret.
func (w *refusedWatch) write(endpoint string, r *access.Refusal, calls int64) {
	args := []any{"endpoint", endpoint, "reason", r.Reason.String(), "calls", calls}
	switch {
	case r.Token.Certificate:
		args = append(args, "certificate", r.Token.Name)
	case r.Token.ID != 0:
		args = append(args, "token", r.Token.ID, "name", r.Token.Name)
	}
	w.log.Warn("calls were refused for their credentials", append(args, "more", "counted in sluice_refused_total")...)
}

// conditions returns a condition for each token that was used within refusedHold although it is expired or revoked.
func (w *refusedWatch) conditions() (out []sense.Condition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(w.now())
	for by, c := range w.seen {
		if by == furtherTokens || c.reason != access.ExpiredToken && c.reason != access.RevokedToken {
			continue
		}
		out = append(out, sense.Condition{
			Subject: alerts.Subject{Kind: alerts.KindTokenRefused, Level: tokenLevel(&c.token)},
			Details: evaluate.Details{Cause: c.reason.String(), Numbers: map[string]int64{"token": c.token.ID}},
		})
	}
	slices.SortFunc(out, func(a, b sense.Condition) int { return cmp.Compare(a.Numbers["token"], b.Numbers["token"]) })
	return out
}
