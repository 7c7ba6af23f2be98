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
	"sluice/internal/heap"
	"sluice/internal/history/incident"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

// ruleDatabase is the part of the rules database that the reloader uses.
type ruleDatabase interface {
	Migrate(ctx context.Context) error
	Versions(ctx context.Context) (database.Versions, error)
	LoadRules(ctx context.Context) (rules.Source, error)
	LoadChanges(ctx context.Context, since database.Version) (match.Delta, database.Version, bool, error)
	LoadTokens(ctx context.Context) ([]access.Token, database.Version, error)
}

// Deadlines of the reloader's database calls.
const (
	pollTimeout = 2 * time.Second
	// startTimeout is how long a node waits for the database before it listens, and
	// startTimeoutWithCopy the same for a node that has a local copy. A load that is
	// under way ends when the database sends nothing more.
	startTimeout         = 30 * time.Second
	startTimeoutWithCopy = 5 * time.Second
	// inForceTimeout is how long a writer waits until its change is in force on this
	// node: the write timeout of its response, less the time of the write itself.
	inForceTimeout = writeTimeout - 2*time.Second
)

// reloader keeps the rule set and the keyring up to date with the database. One
// goroutine (run) loads; others notify it. notify, changed and changedTokens are safe
// for concurrent use.
type reloader struct {
	database  ruleDatabase
	sets      *match.Current
	access    *access.Current
	options   match.Options
	metrics   *ruleMetrics
	series    *telemetry.Metrics // of rules
	readiness *readiness
	log       *slog.Logger
	now       func() time.Time
	// checkTokens is called once, before the first keyring is in force. Its error stops
	// the server.
	checkTokens func(*access.Keyring) error
	// local is the secret of this run while no token exists.
	local *localToken
	// fatal is called with an error that a retry cannot resolve.
	fatal func(error)
	// trace, if not nil, begins the span of a load.
	trace   func(ctx context.Context, what string) (inner context.Context, end func(error))
	trouble *trouble.Registry
	// overrideDatabase loads overrides and overrideCopies saves and loads the local copy
	// of them; both are nil without overrides.
	overrideDatabase overrideDatabase
	overrideCopies   *overrideCopies
	// saveCopy saves what is in force to the local copy, at once if it changed. loadCopy
	// loads the copy of an earlier run; its error is fs.ErrNotExist if there is none.
	saveCopy func(f inForce, changed bool)
	loadCopy func() (*rulecopy.Copy, error)

	notified chan struct{}
	ended    chan struct{} // closed when run ends

	mu      sync.Mutex
	waiting []*writer // that no pass has answered yet

	// The fields below are owned by run. The loaded versions are those loaded from the
	// database, NoVersion before the first load. refused is the version of the rules that
	// did not compile, so that it is not tried again, or NoVersion. server identifies the
	// database server that they come from.
	loadedRules, loadedTokens, loadedOverrides, refused database.Version
	server                                              string
	migrated                                            bool
	// behind is true if the last pass did not put the content of the database in force.
	behind bool
	// loadFailed is true if a load of the current pass failed.
	loadFailed bool
	// origin is the source of the set in force, stamp the stamp of its version, and confirmed the time when the
	// database last confirmed it. tokens are the tokens in force. copyOutdated is true if the set or the tokens were
	// not passed to saveCopy yet. copyTried is true once the local copy was tried.
	origin, stamp           string
	confirmed               time.Time
	tokens                  []access.Token
	copyOutdated, copyTried bool
	// overrides are the overrides in force; nil before the first load.
	overrides *override.Table
}

// writer waits for its change to be in force here.
type writer struct {
	tokens  bool      // it changed tokens, so it does not matter whether the rules compile
	inForce chan bool // receives once whether the change is in force; buffered
}

func newReloader(r *reloader) *reloader {
	r.notified, r.ended = make(chan struct{}, 1), make(chan struct{})
	if r.trace == nil {
		r.trace = func(ctx context.Context, _ string) (context.Context, func(error)) { return ctx, func(error) {} }
	}
	if r.local == nil {
		r.local = &localToken{}
	}
	r.forget()
	return r
}

// forget makes the next pass load everything. What is in force stays until then.
func (r *reloader) forget() {
	r.loadedRules, r.loadedTokens, r.loadedOverrides, r.refused = database.NoVersion, database.NoVersion,
		database.NoVersion, database.NoVersion
}

// first runs the pass before the server listens. With a local copy it does not wait
// long for a database that is slow or is being migrated by another node; run retries.
func (r *reloader) first(ctx context.Context, copied bool) error {
	timeout := startTimeout
	if copied {
		timeout = startTimeoutWithCopy
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.pass(limited)
}

// openInterval is the longest interval between passes while no token exists, so that the open mode ends within a second
// of the first one.
const openInterval = 500 * time.Millisecond

// run starts a pass whenever it is notified, and at every interval, or at openInterval while no token exists. One pass
// answers all waiting writers. It returns when ctx ends or after a call of fatal.
func (r *reloader) run(ctx context.Context, every time.Duration) {
	defer close(r.ended)
	interval := func() time.Duration {
		if r.local.open(r.access.Load()) {
			return min(every, openInterval)
		}
		return every
	}
	current := interval()
	tick := time.NewTicker(current)
	defer tick.Stop()
	for {
		if next := interval(); next != current {
			current = next
			tick.Reset(current)
		}
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
		if r.behind { // they wait for the next pass
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

// notify requests a pass and returns at once.
func (r *reloader) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // a pass is pending and has not begun
	}
}

// changed waits until what the database held at the time of the call is in force on
// this node, so that the next check of a client that wrote a rule applies it. It
// reports whether it is in force. It gives up, with a log line, when ctx or
// inForceTimeout ends, and at once if the rules do not compile.
func (r *reloader) changed(ctx context.Context) bool { return r.await(ctx, false) }

// changedTokens is like changed, for writers of tokens.
func (r *reloader) changedTokens(ctx context.Context) bool { return r.await(ctx, true) }

func (r *reloader) await(ctx context.Context, tokens bool) bool {
	ctx, cancel := context.WithTimeout(ctx, inForceTimeout)
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

// pass migrates the schema if that was not done yet, reads the versions, and loads the changed parts. Only a complete
// successor replaces rules, tokens or overrides in force. pass returns only errors that a retry cannot resolve.
func (r *reloader) pass(ctx context.Context) error {
	defer func() {
		r.local.keep(r.access.Load())
		r.publish()
	}()
	r.behind, r.loadFailed = true, false // until everything is known to be in force
	if !r.migrated {
		if err := r.database.Migrate(ctx); err != nil {
			if !errors.Is(err, rules.ErrUnavailable) {
				return err
			}
			r.unavailable(ctx, err)
			return nil
		}
		r.migrated = true
	}
	v, err := r.versions(ctx)
	if err != nil {
		r.unavailable(ctx, err)
		return nil
	}
	r.trouble.Clear(databaseUnavailable, "")
	if v.Server != r.server {
		if r.server != "" {
			r.log.Info("the rules database was restarted or is a different server; loading everything again")
			r.forget()
		}
		r.server = v.Server
	}
	if v.Tokens != r.loadedTokens {
		if err := r.traced(ctx, "reload tokens", r.loadTokens); err != nil {
			return err
		}
	}
	known := r.followOverrides(ctx, v.Overrides)
	if known && v.Rules != r.loadedRules && v.Rules != r.refused {
		if err := r.traced(ctx, "reload rules", r.loadRules); err != nil {
			r.failed("rules", err)
		}
	}
	// A pass may load later versions than v, because of writes in between. After a load
	// that failed the numbers are not comparable: another history may have reached them.
	r.behind = r.loadFailed && r.refused == database.NoVersion ||
		v.Tokens.N > r.loadedTokens.N || r.overrideDatabase != nil && v.Overrides.N > r.loadedOverrides.N ||
		v.Rules.N > max(r.loadedRules.N, r.refused.N)
	current := v.Rules == r.loadedRules
	if current {
		r.trouble.Clear(loadFailing, "rules")
		r.refused, r.confirmed = database.NoVersion, r.now()
		r.metrics.confirmed.Store(r.confirmed.UnixMilli())
	}
	r.startWithCopy()
	r.save(current)
	return nil
}

// traced calls load in a new span.
func (r *reloader) traced(ctx context.Context, what string, load func(context.Context) error) error {
	ctx, end := r.trace(ctx, what)
	err := load(ctx)
	end(err)
	return err
}

func (r *reloader) versions(ctx context.Context) (database.Versions, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	return r.database.Versions(ctx)
}

// loadRules loads the changes since the loaded version, or everything if that is not
// possible.
func (r *reloader) loadRules(ctx context.Context) error {
	if loaded, err := r.loadChanges(ctx); loaded || err != nil {
		return err
	}
	source, err := r.database.LoadRules(ctx)
	if err != nil {
		return err
	}
	version := database.Version{N: source.Version, Stamp: source.Stamp}
	set, err := match.CompileSource(source, r.options)
	if err != nil {
		r.refused = version
		return fmt.Errorf("version %d of the rules was rejected; the previous version stays in force: %w", version.N, err)
	}
	r.putInForce(set, version, len(source.Rules))
	return nil
}

// loadChanges loads the changes since the loaded version and reports whether they are
// in force. If they cannot be applied, the caller loads everything, which reports what
// is wrong.
func (r *reloader) loadChanges(ctx context.Context) (bool, error) {
	set := r.sets.Load()
	if set == nil || r.loadedRules == database.NoVersion {
		return false, nil
	}
	delta, version, ok, err := r.database.LoadChanges(ctx, r.loadedRules)
	if err != nil || !ok {
		return false, err
	}
	delta.PoolsChanged = !slices.EqualFunc(delta.Pools, set.Pools(),
		func(is rules.Pool, was *match.CompiledPool) bool { return is == was.Pool })
	next, err := set.Apply(delta)
	if err != nil {
		r.log.Warn("applying the changed rules failed; loading all rules", "version", version.N, "error", err)
		return false, nil
	}
	r.putInForce(next, version, len(delta.Changed)+len(delta.Removed))
	return true, nil
}

// largeLoad is from how many rules on the memory of a load is returned to the system.
const largeLoad = 10_000

// putInForce puts a set in force, for which so many rules were loaded.
func (r *reloader) putInForce(set *match.Set, version database.Version, loaded int) {
	logOversizedPatterns(r.log, r.sets.Load(), set)
	r.sets.Store(set.WithOverrides(r.overrides))
	r.loadedRules, r.refused = version, database.NoVersion
	r.origin, r.stamp, r.confirmed, r.copyOutdated = fromDatabase, version.Stamp, r.now(), true
	r.metrics.swapped(set)
	r.series.Swapped(set)
	r.log.Info("rule set in force", "version", version.N, "rules", set.Len())
	if loaded >= largeLoad {
		heap.Release()
	}
}

// loadTokens returns only the error of checkTokens.
func (r *reloader) loadTokens(ctx context.Context) error {
	tokens, version, err := r.database.LoadTokens(ctx)
	if err != nil {
		r.failed("tokens", err)
		return nil
	}
	ring := access.NewKeyring(tokens)
	if r.access.Load() == nil {
		if err := r.checkTokens(ring); err != nil {
			return err
		}
	}
	r.access.Store(r.local.follow(ring))
	r.loadedTokens, r.tokens, r.copyOutdated = version, tokens, true
	r.trouble.Clear(loadFailing, "tokens")
	r.log.Info("tokens in force", "version", version.N, "tokens", ring.Live(r.now()))
	return nil
}

var (
	loadFailing = trouble.Declare(trouble.Condition{Code: "reload_failing",
		Advice: "the attribute error says why; checks go on with the last rules", Of: "what", Severe: true, EachReason: true,
		Starts: "reload failed; nothing changed", Ends: "reloading works again"})
	// rulesRefused is logged as a failure to load them.
	rulesRefused = trouble.Declare(trouble.Condition{Code: "set_refused",
		Advice: "correct the rule that the attribute error names", Severe: true,
		Banner: "The stored rules do not compile. The previous version stays in force."})
)

// failed notes a failure to load rules, tokens or overrides. Each pass tries again, but what does not compile.
func (r *reloader) failed(what string, err error) {
	r.loadFailed = true
	r.metrics.failures.WithLabelValues(what).Inc()
	r.trouble.Note(loadFailing, what, err)
}

var databaseUnavailable = trouble.Declare(trouble.Condition{Code: "rules_database_unavailable",
	Advice:   "see to the rules database; checks go on with the last rules, and edits fail",
	Incident: incident.Database, EachReason: true,
	Starts: "the rules database is unavailable; retrying", Ends: "the rules database is available again"})

// unavailable notes an outage of the database.
func (r *reloader) unavailable(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	r.metrics.failures.WithLabelValues("database").Inc()
	r.startWithCopy()
	meanwhile := "checks use the rules last loaded"
	if r.sets.Load() == nil {
		meanwhile = "this node is not ready until it is back"
	}
	r.trouble.Note(databaseUnavailable, "", err, "meanwhile", meanwhile)
}
