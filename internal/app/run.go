package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"sluice/api"
	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/telemetry"
	"sluice/rules"
	"sluice/web"
)

// pollInterval is how often the rule database is asked for changes, beside its
// notifications.
const pollInterval = time.Second

// stopTimeout bounds everything that is stopped after the last request.
const stopTimeout = 10 * time.Second

// Host is what the process gives to Run.
type Host struct {
	// Out gets what is printed for people: the address and how to try it.
	Out io.Writer
	Log *slog.Logger
	// Now is the wall clock.
	Now func() time.Time
	// Clock is the time of the counters, in ms since the epoch; nil is the wall
	// clock's in memory, and Redis's own there. Tests set it together with Now.
	Clock func() int64
	// Listening, if not nil, is called with the address once requests are
	// accepted.
	Listening func(net.Addr)
	// Traffic, if not nil, runs beside the server until it stops; sluice demo
	// makes its requests with it.
	Traffic func(context.Context, *decide.Checker)
}

// errNoCredentials refuses to serve a network without any credentials.
var errNoCredentials = errors.New(`--listen (SLUICE_LISTEN) is not a loopback address and there is no valid API token, so anyone could use and edit everything. Create a token first:

  sluice token create first-admin --scopes admin

with the same SLUICE_DATA_DIR or DATABASE_URL as this server, or listen on 127.0.0.1`)

// Run serves until ctx ends, then drains and stops everything it started, last
// in first out. A failure half way through the start unwinds the same way.
func Run(ctx context.Context, cfg config.Serve, host Host) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	failed := make(chan error, 1)
	fatal := func(err error) {
		select {
		case failed <- err:
		default: // the first failure is the one to report
		}
	}
	stops := &stops{log: host.Log}
	defer func() {
		wait, cancel := context.WithTimeout(context.Background(), cfg.DrainDelay+cfg.DrainTimeout+stopTimeout)
		defer cancel()
		err = errors.Join(err, stops.unwind(wait))
	}()
	stops.add("memory budget", collectLess(garbageBudget))
	build := telemetry.ReadBuild()
	metrics := telemetry.New(build, host.Now)

	if cfg.NeedsDataDir() {
		if err := makeDataDir(cfg.DataDir); err != nil {
			return err
		}
		unlock, err := lockDataDir(cfg.DataDir)
		if err != nil {
			return err
		}
		stops.add("data directory lock", func(context.Context) error { return unlock() })
	}
	removeLeftovers(&cfg, cfg.NeedsDataDir(), host.Now(), host.Log)

	buckets, err := openCounters(ctx, &cfg, &host, metrics, stops, fatal)
	if err != nil {
		return err
	}

	db, err := database.Open(ctx, database.Options{DSN: cfg.Database(), SignOnIssuer: cfg.OIDCIssuer, Now: host.Now, Log: host.Log})
	if err != nil {
		return err
	}
	metrics.Disk(db.DiskFailing)
	stops.add("rules database", func(context.Context) error { return db.Close() })

	identity, err := db.Identity()
	if err != nil {
		return err
	}
	source := metrics.RuleSource()
	saved := newCopies(cfg.CopyFile(), identity, host.Log, source, host.Now)
	stops.add("copy of the rules", task(func(ctx context.Context) { saved.run(ctx, copyInterval) }))

	savedOverrides := newOverrideCopies(cfg.OverridesFile(), identity, host.Log, source, host.Now)
	stops.add("copy of the overrides", task(savedOverrides.run))

	sets, keyring := &rules.Current{}, &access.Current{}
	ready := &readiness{sets: sets, access: keyring, metrics: metrics, now: host.Now}
	reload := newReloader(&reloader{
		from: db, sets: sets, access: keyring, metrics: metrics, source: source, readiness: ready, log: host.Log, now: host.Now,
		options: rules.Options{IPv4Prefix: cfg.IPv4Prefix, IPv6Prefix: cfg.IPv6Prefix,
			ConditionFailed: metrics.ConditionFailed, ConditionTook: metrics.ConditionTook, Now: host.Now},
		admit: func(k *access.Keyring) error { return admit(&cfg, k, host.Now()) },
		fatal: fatal,
		keep:  saved.keep, recall: saved.load, overridesFrom: db, copiedOverrides: savedOverrides,
	})
	if err := reload.first(ctx, saved.exists()); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop while starting
		}
		return err
	}
	stops.add("reload loop", task(func(ctx context.Context) { reload.run(ctx, cmp.Or(cfg.PollInterval, pollInterval)) }))
	stops.add("override cleanup", task(func(ctx context.Context) { cleanOverrides(ctx, db, cleanEvery, host.Log) }))
	if err := db.Listen(ctx, reload.notify); err != nil {
		return err
	}

	figures := newFigures(host.Now, build.Version, ready, buckets)
	figures.publish(buckets.board, host.Log, stops)
	waiting, err := openQueue(&cfg, &host, sets, metrics, stops)
	if err != nil {
		return err
	}
	secrets, err := openSecrets(&cfg, &host, stops)
	if err != nil {
		return err
	}
	followLoads(buckets.loads, sets, stops)
	checker, err := decide.NewChecker(decide.CheckerOptions{
		Deferred: waiting, Secrets: secrets, Loads: buckets.loads,
		Sets: sets, Store: buckets.store, Local: buckets.local, Ledger: buckets.ledger, Timeout: cfg.StoreTimeout, Now: host.Now,
		Observe: decide.Observers{metrics, &outageLog{log: host.Log, now: host.Now}, figures},
	})
	if err != nil {
		return err
	}
	trusted, err := cfg.TrustedNetworks()
	if err != nil {
		return err
	}
	shown := web.Deps{
		RulePages: rulePages(&cfg, db, buckets, checker, figures.reader), Inspect: inspecting(checker, db),
		People: web.People{People: db, Tokens: db, Audit: db, TokensChanged: reload.changedTokens}, Transfer: db,
	}
	shown.Sets, shown.Changed = sets, reload.changed
	pages, err := openConsole(ctx, &cfg, &host, shown, db, figures, stops)
	if err != nil {
		return err
	}
	handler, err := newHandler(api.Deps{
		Checker: checker, Rules: db, Writer: db, History: db, Pools: db, Overrides: db, OverrideWriter: db, Access: keyring, OpenMode: cfg.Loopback(),
		Changed: reload.changed, Ready: ready.ready, RuleState: ready.ruleState, Hot: buckets.hot, HotEverywhere: figures.hotEverywhere, Metrics: metrics.Handler(), MetricsPublic: cfg.MetricsPublic,
		ResetDelta: cfg.ResetHeader == "delta", TrustedProxies: trusted, Panicked: metrics.CountPanic, Logger: host.Log, Now: host.Now,
	}, pages)
	if err != nil {
		return err
	}
	door, addr, err := listen(ctx, cfg.Listen, handler, frontDoor{
		readiness: ready, delay: cfg.DrainDelay, timeout: cfg.DrainTimeout, log: host.Log, now: time.Now, // sockets go by the machine's clock
	}, fatal)
	if err != nil {
		return fmt.Errorf("--listen (SLUICE_LISTEN): %w", err)
	}
	figures.address.Store(addr.String())
	if host.Traffic != nil {
		stops.add("traffic", task(func(ctx context.Context) { host.Traffic(ctx, checker) }))
	}
	stops.add("listener", door.close)

	host.Log.Info("listening", "address", addr.String(), "version", build.Version, "revision", build.Revision)
	greet(host.Out, &cfg, addr, keyring)
	pages.greet(host.Out, &cfg, addr)
	if host.Listening != nil {
		host.Listening(addr)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

// admit refuses a keyring without live tokens on an address that others reach.
func admit(cfg *config.Serve, k *access.Keyring, now time.Time) error {
	if cfg.Loopback() || k.Live(now) > 0 {
		return nil
	}
	return errNoCredentials
}
