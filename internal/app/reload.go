package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/telemetry"
	"sluice/rules"
)

// catalog is what the reloader needs of the rule database.
type catalog interface {
	Migrate(ctx context.Context) error
	Versions(ctx context.Context) (database.Versions, error)
	LoadRules(ctx context.Context) ([]rules.Rule, int64, error)
	LoadTokens(ctx context.Context) ([]access.Token, error)
}

// Deadlines of the reloader's database calls.
const (
	pollTimeout = 2 * time.Second
	loadTimeout = 30 * time.Second
	// changedTimeout is how long a writer waits for its own change to be in
	// force here before it gets its answer all the same.
	changedTimeout = time.Second
)

// reloader keeps the rule set and the keyring in step with the database. One
// goroutine (run) loads; everyone else asks it to.
type reloader struct {
	from      catalog
	sets      *rules.Current
	access    *access.Current
	options   rules.Options
	metrics   *telemetry.Metrics
	readiness *readiness
	log       *slog.Logger
	now       func() time.Time
	// admit is called once, when the first keyring is in force; its error ends
	// the server.
	admit func(*access.Keyring) error
	// fatal hears an error that no retry can mend.
	fatal func(error)

	asked    chan chan struct{}
	notified chan struct{}

	// Owned by run. Versions are -1 before the first load. refused is the
	// version of the rules that did not compile, so that it is not tried again.
	rulesVersion, tokensVersion, refused int64
	migrated, away                       bool
}

func newReloader(r reloader) *reloader {
	r.asked = make(chan chan struct{})
	r.notified = make(chan struct{}, 1)
	r.rulesVersion, r.tokensVersion, r.refused = -1, -1, -1
	return &r
}

// run makes a pass whenever it is asked, notified, or every interval. It returns
// when ctx ends or after telling fatal.
func (r *reloader) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var done chan struct{}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.notified:
		case done = <-r.asked:
		}
		err := r.pass(ctx)
		if done != nil {
			close(done)
		}
		if err != nil && ctx.Err() == nil {
			r.fatal(err)
			return
		}
	}
}

// notify asks for a pass soon and returns at once.
func (r *reloader) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // one is pending already, and has not begun
	}
}

// changed asks for a pass and waits for it, for at most changedTimeout, so that
// whoever wrote a rule meets it in its next check.
func (r *reloader) changed() {
	limit := time.NewTimer(changedTimeout)
	defer limit.Stop()
	done := make(chan struct{})
	select {
	case r.asked <- done:
	case <-limit.C:
		r.notify()
		return
	}
	select {
	case <-done:
	case <-limit.C:
	}
}

// pass brings the schema up to date if that is still to do, asks for the versions
// and loads what differs. Nothing in force changes unless the new one is
// complete. It returns only what no retry can mend.
func (r *reloader) pass(ctx context.Context) error {
	defer r.readiness.publish()
	if !r.migrated {
		if err := r.from.Migrate(ctx); err != nil {
			if !errors.Is(err, rules.ErrUnavailable) {
				return err
			}
			r.unreachable(ctx, err)
			return nil
		}
		r.migrated = true
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	v, err := r.versions(ctx)
	if err != nil {
		r.unreachable(ctx, err)
		return nil
	}
	if r.away {
		r.away = false
		r.log.Info("rule database is back")
	}
	if v.Tokens != r.tokensVersion {
		if err := r.loadTokens(ctx, v.Tokens); err != nil {
			return err
		}
	}
	if v.Rules != r.rulesVersion && v.Rules != r.refused {
		if err := r.loadRules(ctx); err != nil {
			r.failed("rules", err)
		}
	}
	if v.Rules == r.rulesVersion {
		r.metrics.Confirmed(r.now())
	}
	return nil
}

func (r *reloader) versions(ctx context.Context) (database.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return r.from.Versions(ctx)
}

func (r *reloader) loadRules(ctx context.Context) error {
	active, version, err := r.from.LoadRules(ctx)
	if err != nil {
		return err
	}
	set, err := rules.Compile(active, version, r.options)
	if err != nil {
		r.refused = version
		return fmt.Errorf("set version %d is refused, version %d stays in force: %w", version, r.rulesVersion, err)
	}
	r.sets.Store(set)
	r.rulesVersion, r.refused = version, -1
	r.metrics.Swapped(version, set.Len())
	r.log.Info("rule set in force", "version", version, "rules", set.Len())
	return nil
}

// loadTokens returns only the refusal of admit.
func (r *reloader) loadTokens(ctx context.Context, version int64) error {
	tokens, err := r.from.LoadTokens(ctx)
	if err != nil {
		r.failed("tokens", err)
		return nil
	}
	ring := access.NewKeyring(tokens)
	if r.tokensVersion < 0 {
		if err := r.admit(ring); err != nil {
			return err
		}
	}
	r.access.Store(ring)
	r.tokensVersion = version
	r.log.Info("tokens in force", "version", version, "tokens", ring.Live(r.now()))
	return nil
}

func (r *reloader) failed(what string, err error) {
	r.metrics.ReloadFailed(what)
	r.log.Error("reload changed nothing", "what", what, "error", err)
}

// unreachable reports a database that went away once, not every second.
func (r *reloader) unreachable(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	r.metrics.ReloadFailed("database")
	switch {
	case r.away:
	case r.sets.Load() == nil:
		r.log.Warn("rule database unavailable; not ready until it answers, retrying", "error", err)
	default:
		r.log.Warn("rule database unavailable; checks go on with the set in force, retrying", "error", err)
	}
	r.away = true
}
