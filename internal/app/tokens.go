package app

import (
	"context"
	"fmt"
	"time"

	"sluice/internal/access"
	"sluice/internal/alerts"
	"sluice/internal/alerts/evaluate"
	"sluice/internal/database"
	"sluice/internal/tick"
	"sluice/internal/trouble"
)

const (
	// usesEvery is how often uses of tokens are looked at: the first use of a token is stored after at most this time.
	usesEvery = 10 * time.Second
	// usesTimeout bounds storing them, or the first questions of gateways, and so the wait at shutdown.
	usesTimeout = 3 * time.Second
)

var usesUnwritten = trouble.Declare(trouble.Condition{Code: "token_uses_unwritten",
	Starts: "when tokens were last used cannot be written to the rules database; it waits in memory",
	Ends:   "when tokens were last used is written to the rules database again"})

// tokenUses stores when this node last used each token.
type tokenUses struct {
	uses  *access.Uses
	store interface {
		WriteTokenUses(ctx context.Context, uses []access.Use) error
		Replica() bool
	}
	now     func() time.Time
	trouble *trouble.Registry
}

// openTokenUses starts storing the uses of tokens.
func openTokenUses(host *Host, keyring *access.Current, db *database.DB, stops *stops) {
	w := &tokenUses{uses: &keyring.Uses, store: db, now: host.Now, trouble: host.trouble}
	stops.add("uses of tokens", task(w.run))
}

// run stores uses until ctx ends, and then once more, whatever waits.
func (w *tokenUses) run(ctx context.Context) {
	for range tick.Every(ctx, usesEvery) {
		w.write(ctx, false)
	}
	w.write(context.WithoutCancel(ctx), true)
}

// write stores the uses that are due. After a failure they wait for the next call. A read replica stores none.
func (w *tokenUses) write(ctx context.Context, all bool) {
	now := w.now()
	due := w.uses.Due(now, all)
	if len(due) == 0 || w.store.Replica() {
		return
	}
	limited, cancel := context.WithTimeout(ctx, usesTimeout)
	defer cancel()
	err := w.store.WriteTokenUses(limited, due)
	if ctx.Err() == nil {
		w.trouble.Note(usesUnwritten, "", err, "waiting", len(due))
	}
	if err == nil {
		w.uses.Stored(due, now)
	}
}

// expiringTokens are the tokens that expire soon.
func expiringTokens(ring *access.Keyring, now time.Time) (out []evaluate.Sighting) {
	for _, t := range ring.ExpireSoon(now) {
		out = append(out, evaluate.Sighting{
			Subject: alerts.Subject{Kind: alerts.KindTokenExpiring, Level: tokenLevel(&t)}, State: alerts.On, Node: "tokens",
			LifeMS: nodeLinger.Milliseconds(), Details: evaluate.Details{Numbers: map[string]int64{"token": t.ID,
				"expires_at_ms": t.ExpiresAt.UnixMilli()}}})
	}
	return out
}

// tokenLevel names a token in the subject of an alert.
func tokenLevel(t *access.Token) string { return fmt.Sprintf("%d (%s)", t.ID, t.Name) }
