package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/internal/database"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/rules"
	"sluice/rules/override"
)

// catalog is what the reloader needs of the rule database.
type catalog interface {
	Migrate(ctx context.Context) error
	Versions(ctx context.Context) (database.Versions, error)
	LoadRules(ctx context.Context) (rules.Source, error)
	LoadChanges(ctx context.Context, since database.Version) (rules.Delta, database.Version, bool, error)
	LoadTokens(ctx context.Context) ([]access.Token, database.Version, error)
}

// Deadlines of the reloader's database calls.
const (
	pollTimeout = 2 * time.Second
	// firstTimeout is how long a node waits for the database before it listens, and
	// copiedTimeout how long if it has a copy to start with. Loads end by themselves
	// when the database sends nothing more.
	firstTimeout  = 30 * time.Second
	copiedTimeout = 5 * time.Second
	// changedTimeout is how long a writer waits for its own change to be in
	// force here: what the deadline of its answer leaves after the write.
	changedTimeout = writeTimeout - 2*time.Second
)

// reloader keeps the rule set and the keyring in step with the database. One
// goroutine (run) loads; everyone else asks it to.
type reloader struct {
	from      catalog
	sets      *rules.Current
	access    *access.Current
	options   rules.Options
	metrics   *telemetry.Metrics
	source    *telemetry.RuleSource
	readiness *readiness
	log       *slog.Logger
	now       func() time.Time
	// admit is called once, when the first keyring is in force; its error ends
	// the server.
	admit func(*access.Keyring) error
	// fatal hears an error that no retry can mend.
	fatal func(error)
	// overridesFrom gives overrides, copiedOverrides keeps and recalls the copy of
	// them; both nil without overrides.
	overridesFrom   overrideCatalog
	copiedOverrides *overrideCopies
	// keep takes what is in force for the copy on disk, at once if it changed;
	// recall gives the copy of an earlier run, else fs.ErrNotExist or why not.
	keep   func(f inForce, changed bool)
	recall func() (*rulecopy.Copy, error)

	notified chan struct{}
	ended    chan struct{} // closed when run ends

	mu      sync.Mutex
	waiting []*writer // whom no pass has served yet

	// Owned by run. Held versions are those loaded from the database, NoVersion
	// before the first load. refused is the version of the rules that did not
	// compile, so that it is not tried again; NoVersion for none. server is the one
	// that gave them.
	heldRules, heldTokens, heldOverrides, refused database.Version
	server                                        string
	migrated, away                                bool
	// behind: the last pass could not put in force what the database holds.
	behind bool
	// loadFailed: a load of the present pass failed.
	loadFailed bool
	// origin and confirmed say where the set in force came from and when the
	// database last confirmed it. tokens are those in force. changedHere: one of
	// them is not handed to keep yet. recalled: the copy was tried.
	origin, stamp         string // stamp is of the set's version
	confirmed             time.Time
	tokens                []access.Token
	changedHere, recalled bool
	// overrides are those in force, nil before there are any.
	overrides *override.Table
}

// writer waits for its change to be in force here.
type writer struct {
	tokens  bool      // it changed those: rules that do not compile are no matter
	inForce chan bool // hears once whether it is; buffered
}

func newReloader(r *reloader) *reloader {
	r.notified, r.ended = make(chan struct{}, 1), make(chan struct{})
	r.forget()
	return r
}

// forget has the next pass load everything. What is in force stays until then.
func (r *reloader) forget() {
	r.heldRules, r.heldTokens, r.heldOverrides, r.refused = database.NoVersion, database.NoVersion, database.NoVersion, database.NoVersion
}

// first makes the pass before the server listens. With a copy at hand it does
// not wait long for a database that is slow, or in which another node migrates:
// run goes on with that.
func (r *reloader) first(ctx context.Context, copied bool) error {
	timeout := firstTimeout
	if copied {
		timeout = copiedTimeout
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.pass(limited)
}

// run makes a pass whenever it is notified, or every interval. However many
// writers wait, one pass serves them all. It returns when ctx ends or after
// telling fatal.
func (r *reloader) run(ctx context.Context, every time.Duration) {
	defer close(r.ended)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.notified:
		}
		r.mu.Lock()
		served := r.waiting
		r.waiting = nil
		r.mu.Unlock()
		err := r.pass(ctx)
		if r.behind { // they go on waiting for a pass that succeeds
			r.mu.Lock()
			r.waiting = append(served, r.waiting...)
			r.mu.Unlock()
		} else {
			for _, w := range served {
				w.inForce <- w.tokens || r.refused == database.NoVersion
			}
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

// changed waits until this node decides by what the database held when it was
// called, so that whoever wrote a rule meets it in its next check, and reports
// whether it does. It gives up, with a log line, when ctx or changedTimeout ends,
// and at once where the rules do not compile, because waiting does not help then.
func (r *reloader) changed(ctx context.Context) bool { return r.await(ctx, false) }

// changedTokens is changed for whoever wrote tokens.
func (r *reloader) changedTokens(ctx context.Context) bool { return r.await(ctx, true) }

func (r *reloader) await(ctx context.Context, tokens bool) bool {
	ctx, cancel := context.WithTimeout(ctx, changedTimeout)
	defer cancel()
	w := &writer{tokens: tokens, inForce: make(chan bool, 1)}
	r.mu.Lock()
	r.waiting = append(r.waiting, w)
	r.mu.Unlock()
	r.notify()
	why := "the rules do not compile"
	select {
	case inForce := <-w.inForce:
		if inForce {
			return true
		}
	case <-r.ended:
		why = "the node is shutting down"
	case <-ctx.Done():
		why = "the request timed out"
	}
	r.mu.Lock()
	r.waiting = slices.DeleteFunc(r.waiting, func(other *writer) bool { return other == w })
	r.mu.Unlock()
	r.log.Warn("a change was saved but is not in force on this node yet", "why", why)
	return false
}

// pass brings the schema up to date if that is still to do, asks for the versions
// and loads what differs. Nothing in force changes unless the new one is
// complete. It returns only what no retry can mend.
func (r *reloader) pass(ctx context.Context) error {
	defer r.publish()
	r.behind, r.loadFailed = true, false // until everything is seen to be in force
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
	v, err := r.versions(ctx)
	if err != nil {
		r.unreachable(ctx, err)
		return nil
	}
	if r.away {
		r.away = false
		r.log.Info("the rules database is available again")
	}
	if v.Server != r.server {
		if r.server != "" {
			r.log.Info("the rules database was restarted or is a different server; loading everything again")
			r.forget()
		}
		r.server = v.Server
	}
	if v.Tokens != r.heldTokens {
		if err := r.loadTokens(ctx); err != nil {
			return err
		}
	}
	known := r.followOverrides(ctx, v.Overrides)
	if known && v.Rules != r.heldRules && v.Rules != r.refused {
		if err := r.loadRules(ctx); err != nil {
			r.failed("rules", err)
		}
	}
	// A pass may load more than v says, because someone wrote meanwhile. Numbers say
	// nothing after a load that failed: another history may have reached the same.
	r.behind = r.loadFailed && r.refused == database.NoVersion ||
		v.Tokens.N > r.heldTokens.N || r.overridesFrom != nil && v.Overrides.N > r.heldOverrides.N ||
		v.Rules.N > max(r.heldRules.N, r.refused.N)
	current := v.Rules == r.heldRules
	if current {
		r.refused, r.confirmed = database.NoVersion, r.now()
		r.metrics.Confirmed(r.confirmed)
	}
	r.fallBack()
	r.save(current)
	return nil
}

func (r *reloader) versions(ctx context.Context) (database.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return r.from.Versions(ctx)
}

// loadRules loads what changed since the version held, or everything where that
// cannot be done.
func (r *reloader) loadRules(ctx context.Context) error {
	if loaded, err := r.loadChanges(ctx); loaded || err != nil {
		return err
	}
	source, err := r.from.LoadRules(ctx)
	if err != nil {
		return err
	}
	version := database.Version{N: source.Version, Stamp: source.Stamp}
	set, err := rules.CompileSource(source, r.options)
	if err != nil {
		r.refused = version
		return fmt.Errorf("version %d of the rules was rejected; the previous version stays in force: %w", version.N, err)
	}
	r.putInForce(set, version)
	return nil
}

// loadChanges reports whether what changed is in force. Changes that cannot be
// applied are left to a load of everything, which says what is wrong.
func (r *reloader) loadChanges(ctx context.Context) (bool, error) {
	set := r.sets.Load()
	if set == nil || r.heldRules == database.NoVersion {
		return false, nil
	}
	delta, version, ok, err := r.from.LoadChanges(ctx, r.heldRules)
	if err != nil || !ok {
		return false, err
	}
	delta.PoolsChanged = !slices.EqualFunc(delta.Pools, set.Pools(), func(is rules.Pool, was *rules.CompiledPool) bool { return is == was.Pool })
	next, err := set.Apply(delta)
	if err != nil {
		r.log.Warn("applying the changed rules failed; loading all rules", "version", version.N, "error", err)
		return false, nil
	}
	r.putInForce(next, version)
	return true, nil
}

func (r *reloader) putInForce(set *rules.Set, version database.Version) {
	namePatterns(r.log, r.sets.Load(), set)
	r.sets.Store(set.WithOverrides(r.overrides))
	r.heldRules, r.refused = version, database.NoVersion
	r.origin, r.stamp, r.confirmed, r.changedHere = telemetry.FromDatabase, version.Stamp, r.now(), true
	r.metrics.Swapped(set)
	r.log.Info("rule set in force", "version", version.N, "rules", set.Len())
}

// loadTokens returns only the refusal of admit.
func (r *reloader) loadTokens(ctx context.Context) error {
	tokens, version, err := r.from.LoadTokens(ctx)
	if err != nil {
		r.failed("tokens", err)
		return nil
	}
	ring := access.NewKeyring(tokens)
	if r.access.Load() == nil {
		if err := r.admit(ring); err != nil {
			return err
		}
	}
	r.access.Store(ring)
	r.heldTokens, r.tokens, r.changedHere = version, tokens, true
	r.log.Info("tokens in force", "version", version.N, "tokens", ring.Live(r.now()))
	return nil
}

func (r *reloader) failed(what string, err error) {
	r.loadFailed = true
	r.metrics.ReloadFailed(what)
	r.log.Error("reload failed; nothing changed", "what", what, "error", err)
}

// unreachable reports a database that went away once, not every second.
func (r *reloader) unreachable(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	r.metrics.ReloadFailed("database")
	r.fallBack()
	switch {
	case r.away:
	case r.sets.Load() == nil:
		r.log.Warn("the rules database is unavailable; this node is not ready until it is back; retrying", "error", err)
	default:
		r.log.Warn("the rules database is unavailable; checks use the rules last loaded; retrying", "error", err)
	}
	r.away = true
}
