package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"time"

	"sluice/api"
	"sluice/api/decide"
	"sluice/api/envoy"
	"sluice/api/envoy/quota"
	"sluice/api/gateway"
	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/internal/telemetry"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/web"
)

// stopTimeout bounds the shutdown after the last request.
const stopTimeout = 10 * time.Second

// Host is the environment of Run.
type Host struct {
	// Out receives the greeting: the addresses and a first request to try.
	Out io.Writer
	Log *slog.Logger
	// Now is the wall clock.
	Now func() time.Time
	// Clock is the time of the counters, in ms since the epoch. If nil, counters in
	// memory use the wall clock, and counters in Redis use the clock of Redis. Tests set
	// it together with Now.
	Clock func() int64
	// Listening, if not nil, is called with the address once the server accepts
	// requests.
	Listening func(net.Addr)
	// ListeningGRPC, if not nil, is called before Listening if the gRPC services are served.
	ListeningGRPC func(net.Addr)
	// Demo is what sluice demo adds to the server; nil elsewhere.
	Demo *Demo

	trouble *trouble.Registry // made by Run
}

// Demo is what sluice demo adds to a server with counters in memory. The server then detects hot keys too.
type Demo struct {
	// Board has the figures of the seconds before the start.
	Board history.Board
	// Tour leads through the console.
	Tour []web.TourStop
	// Traffic sends requests until the server stops.
	Traffic func(context.Context, *decide.Checker)
}

// errNoCredentials is the error of a server on a network address without tokens.
var errNoCredentials = errors.New("--listen (SLUICE_LISTEN) is not a loopback address and there is no valid " +
	`API token, so anyone could use and edit everything. Create a token first:

  sluice token create first-admin --scopes admin

with the same SLUICE_DATA_DIR or DATABASE_URL as this server, or listen on 127.0.0.1`)

// errNoGRPCCredentials is the same for gRPC.
var errNoGRPCCredentials = errors.New("--grpc-listen (SLUICE_GRPC_LISTEN) is not a loopback address and there is no " +
	`valid API token, so anyone could spend every limit. Create a token first:

  sluice token create envoy --scopes check

with the same SLUICE_DATA_DIR or DATABASE_URL as this server, or listen on 127.0.0.1`)

// Run serves until ctx ends. It then drains and stops everything that it started, in
// reverse order, as it does after a failure during the start.
func Run(ctx context.Context, cfg config.Serve, host Host) (err error) {
	if err := cfg.Validate(); err != nil {
		return err
	}
	cfg.Fill()
	failed := make(chan error, 1)
	fatal := func(err error) {
		select {
		case failed <- err:
		default: // only the first failure is reported
		}
	}
	stops := &stops{log: host.Log}
	defer func() {
		wait, cancel := context.WithTimeout(context.Background(), cfg.DrainDelay+cfg.DrainTimeout+stopTimeout)
		defer cancel()
		err = errors.Join(err, stops.unwind(wait))
	}()
	stops.add("memory budget", applyMemoryBudget(garbageBudget))
	build := telemetry.ReadBuild()
	metrics := telemetry.New(build)
	incidents := watchTrouble(&host, cfg.Region)
	metrics.MustRegister(host.trouble)
	spans, err := openTraces(&host, build, metrics, stops)
	if err != nil {
		return err
	}

	certificates, err := openCertificates(&cfg, &host, stops)
	if err != nil {
		return err
	}
	files, err := openSecretFiles(&cfg, host.Log, host.Now)
	if err != nil {
		return err
	}
	files.publish(&cfg, metrics)
	if cfg.NeedsDataDir() {
		if err := createDataDir(cfg.DataDir); err != nil {
			return err
		}
		unlock, err := lockDataDir(cfg.DataDir)
		if err != nil {
			return err
		}
		stops.add("data directory lock", func(context.Context) error { return unlock() })
	}
	warnOfOpenDataDir(cfg.DataDir, host.Log)
	removeLeftovers(&cfg, cfg.NeedsDataDir(), host.Now(), host.Log)

	meter := openMeter(metrics, stops)
	sets := &match.Current{}

	where := databaseOptions(&cfg.Storage, files[&cfg.DatabaseURL])
	where.SignOnIssuer, where.Now, where.Log = cfg.OIDCIssuer, host.Now, host.Log
	where.Trouble = host.trouble
	where.Trace = spans.Database()
	db, err := database.Open(ctx, where)
	if err != nil {
		return err
	}
	db.Register(metrics)
	stops.add("rules database", func(context.Context) error { return db.Close() })

	events := incident.NewWriter(incidents, db, host.trouble)
	stops.add("incidents", task(events.Run))

	identity, err := db.Identity()
	if err != nil {
		return err
	}
	published := newRuleMetrics(metrics, host.Now)
	copies := newRuleCopies(cfg.CopyFile(), identity, host.trouble, published, host.Now)
	stops.add("copy of the rules", task(func(ctx context.Context) { copies.run(ctx, copyInterval) }))

	overrideCopies := newOverrideCopies(cfg.OverridesFile(), identity, host.trouble, published, host.Now)
	stops.add("copy of the overrides", task(overrideCopies.run))

	keyring := &access.Current{}
	local := newLocalToken(&cfg, host.Log)
	stops.add("local token", local.close)
	ready := &readiness{sets: sets, access: keyring, now: host.Now}
	ready.register(metrics)
	options := cfg.Options()
	options.Regions, options.Now = regionCount(&cfg), host.Now
	options.ConditionFailed, options.ConditionTook = metrics.ConditionFailed, metrics.ConditionTook
	reload := newReloader(&reloader{
		database: db, sets: sets, access: keyring, metrics: published, series: metrics, readiness: ready, log: host.Log,
		now: host.Now, options: options,
		checkTokens: func(k *access.Keyring) error { return checkTokens(&cfg, k, host.Now()) }, local: local,
		fatal: fatal, trouble: host.trouble, trace: spans.Root(),
		saveCopy: copies.save, loadCopy: copies.load, overrideDatabase: db, overrideCopies: overrideCopies,
	})
	if err := reload.first(ctx, copies.exists()); err != nil {
		if ctx.Err() != nil {
			return nil // stopped during the start
		}
		return err
	}
	// The counters are opened after the schema: a stop rewrites the counters and figures of the data directory, and a
	// directory with a refused database must stay unchanged.
	buckets, err := openCounters(ctx, &cfg, &host, files, sets, metrics, spans, meter, stops)
	if err != nil {
		return err
	}
	if err := buckets.agree(ctx, db, stops, fatal); err != nil {
		return err
	}
	localFile := local.file()
	openTokenUses(&host, keyring, db, stops)
	stops.add("reload loop", task(func(ctx context.Context) { reload.run(ctx, cfg.PollInterval) }))
	stops.add("override cleanup", task(func(ctx context.Context) { cleanOverrides(ctx, db, cleanEvery, host.Log) }))
	if err := db.Listen(ctx, reload.notify); err != nil {
		return err
	}

	figures := newFleetReporter(host.Now, cfg.TenantAttribute, build.Version, ready, buckets)
	var dial func() *tls.Config
	if buckets.home != nil {
		dial = buckets.home.dial
	}
	store := newFigureStore(db, cfg.PrimaryURL, current(cfg.RegionToken, files[&cfg.RegionToken]), dial)
	past := figures.keep(&cfg.Tuning, store, cfg.UnsentFile(), metrics, host.trouble, host.Log, stops)
	deferred, err := openQueue(&cfg, &host, files[&cfg.RedisURL], sets, metrics, stops)
	if err != nil {
		return err
	}
	secrets, err := openSecrets(&cfg, &host, files[&cfg.RedisURL], stops)
	if err != nil {
		return err
	}
	reservations, err := openReservations(&cfg, &host, files[&cfg.RedisURL], stops)
	if err != nil {
		return err
	}
	followPoolLoads(buckets.loads, sets, stops)
	observers := decide.Observers{metrics, &outageLog{log: host.Log, now: host.Now, incidents: incidents}, figures}
	recorded, err := openDecisionLogs(&cfg, &host, db, files[&cfg.KafkaPassword], metrics, figures.node, stops)
	if err != nil {
		return err
	}
	accounts := accountsOf(recorded)
	for _, log := range recorded {
		observers = append(observers, log)
	}
	openStarvedWatch(&host, meter, metrics, stops)
	refused := newRefusedWatch(&host, metrics,
		slices.Concat(api.Endpoints(), gateway.Faces(), envoy.Endpoints()))
	sensor := openSensor(&host, db, ready, figures, buckets.home, accounts, cfg.Region, refused, stops)
	observers = append(observers, sensor)
	regions, err := openRegions(&cfg, &host, files[&cfg.RegionToken], buckets, sets, metrics, stops)
	if err != nil {
		return err
	}
	withdrawals := decide.NewWithdrawals(deferred)
	stops.add("withdrawals of deferred requests", func(context.Context) error { withdrawals.Close(); return nil })
	statements := openUsage(&host, buckets, db, sets, metrics, stops)
	deciding := decide.CheckerOptions{
		Deferred: deferred, Withdrawals: withdrawals, Secrets: secrets, Open: reservations, Loads: buckets.loads,
		Sets: sets, Store: statements.Watch(spans.Store(buckets.store)), Local: buckets.local, Ledger: buckets.ledger,
		Timeout: cfg.StoreTimeout, Lost: meter.Lost, Now: host.Now, Observe: observers,
		Trace: spans.Decisions(),
	}
	regions.decides(&cfg, buckets, sets, &deciding)
	holders := &quotaHolders{}
	deciding.Held = holders.held
	checker, err := decide.NewChecker(deciding)
	if err != nil {
		return err
	}
	metrics.Reservations(reservations)
	stops.add("open reservations", task(checker.RunReservations))
	trusted, err := cfg.TrustedNetworks()
	if err != nil {
		return err
	}
	failDefaults, err := rules.ParseFailDefaults(cfg.FailDefaults)
	if err != nil {
		return err
	}
	if options.FoldRoute {
		failDefaults = failDefaults.Folded()
	}
	hooks, worker, err := openWebhooks(&cfg.Alerts, options.NAT64, &host, db, build.Version, metrics)
	if err != nil {
		return err
	}
	board := openAlerts(&cfg, &host, db, sets, keyring, figures, past, sensor, worker, statements, metrics, stops)
	deps := web.Deps{
		Alerts: web.Alerts{Board: board, Events: db, Webhooks: hooks, Silences: db},
		Trials: past, Watching: buckets.hot != nil,
		Headers: headersOf(cfg.ResetHeader == "delta"),
		Replays: openReplays(&cfg, &host, files[&cfg.KafkaPassword], stops),
		Pools:   poolDeps(checker, db), Inspect: inspectDeps(&cfg, checker, deciding.Regions, db),
		Profiles: web.Profiles{Store: db.Profiles(), Gateways: db, Tokens: db, TokensChanged: reload.changedTokens},
		People:   web.People{People: db, Tokens: db, Audit: db, TokensChanged: reload.changedTokens}, Transfer: db,
	}
	deps.Stats, deps.Statements, deps.DecisionLogs = past, db, accounts
	var messages api.Regions // nil without regions
	if regions != nil {
		messages, deps.Regions = regions, regions.Overview
	}
	deps.Incidents = incident.NewReader(incidents, db, host.Now)
	deps.Sets, deps.Changed, deps.FailDefaults = sets, reload.changed, failDefaults
	if host.Demo != nil {
		deps.Tour = host.Demo.Tour
	}
	pages, err := openConsole(ctx, &cfg, &host, files[&cfg.OIDCClientSecret], deps, db, figures, stops)
	if err != nil {
		return err
	}
	clients, err := cfg.ClientScopes()
	if err != nil {
		return err
	}
	metrics.Questions(gateway.Faces(), gateway.Results())
	metrics.EnvoyCalls(envoy.Faces(), envoy.Results(), envoy.Floods())
	metrics.EnvoyQuota(quota.Units(), quota.Refusals())
	calls, err := envoy.New(envoy.Deps{
		Checker: checker, Access: keyring, OpenMode: cfg.GRPCLoopback(), Certificates: clients, Ready: ready.ready,
		Now: host.Now, ResetDelta: cfg.ResetHeader == "delta", LimitHeaders: cfg.GRPCLimitHeaders,
		Quotas: buckets.quotas, MaxAge: cfg.GRPCMaxAge,
		Observe: metrics, Refused: refused.refused, Trace: spans.GRPC(envoy.Services()...), Panicked: metrics.CountPanic,
		Logger: host.Log, Loop: cfg.Loop == "on",
	})
	if err != nil {
		return err
	}
	holders.server.Store(calls)
	handler, direct, err := newHandler(api.Deps{
		Checker: checker, Rules: db, Writer: db, History: db, Pools: db.Pools(), Profiles: db.Profiles(), Overrides: db,
		OverrideWriter: db, FailDefaults: failDefaults, Access: keyring, RLS: calls.RLS,
		OpenMode: cfg.Loopback(), Certificates: clients, Refused: refused.refused,
		Changed: reload.changed, Ready: ready.ready, RuleState: ready.ruleState, Trouble: host.trouble.Codes,
		Hot:           buckets.hot,
		HotEverywhere: figures.hotEverywhere, Metrics: metrics.Handler(), MetricsPublic: cfg.MetricsPublic,
		ResetDelta: cfg.ResetHeader == "delta", TrustedProxies: trusted, Panicked: metrics.CountPanic, Logger: host.Log,
		Checked: metrics.CountHTTPCheck, LargeRefused: metrics.CountLargeRefused, WriteTimeout: writeTimeout,
		Now: host.Now, Stats: past, Figures: db, Usage: db, UsageRestorer: statements, DecisionLogs: accounts,
		Incidents: deps.Incidents, Webhooks: hooks, Alerts: board, Silences: db, Regions: messages,
	}, pages, metrics.CountQuestion, noteFirstQuestions(&host, db, stops), spans)
	if err != nil {
		return err
	}
	checks, err := openPlain(direct, ready, metrics, spans, &host, stops)
	if err != nil {
		return err
	}
	open := &listeners{}
	stops.add("listeners", open.close)
	grpcAddr, grpcListener, err := serveGRPC(ctx, &cfg, &host, grpcServer{
		calls: calls, tls: grpcTLS(certificates), readiness: ready, lost: lostNow(meter),
	}, open, fatal)
	if err != nil {
		return err
	}
	server, addr, err := listen(ctx, cfg.Listen, handler, httpServer{
		tls: serverTLS(certificates), plain: checks, loops: loops(&cfg, spans),
		// socket deadlines use the clock of the machine
		readiness: ready, delay: cfg.DrainDelay, timeout: cfg.DrainTimeout, log: host.Log, now: time.Now,
		lost: lostNow(meter),
	}, fatal)
	if err != nil {
		return fmt.Errorf("--listen (SLUICE_LISTEN): %w", err)
	}
	open.closes = append(open.closes, server.close)
	publishTLS(metrics, certificates, append(grpcListener, server.listener)...)
	figures.address.Store(addr.String())
	incidents.Started(addr.String())
	if host.Demo != nil {
		stops.add("traffic of the demo", task(func(ctx context.Context) { host.Demo.Traffic(ctx, checker) }))
	}

	host.Log.Info("listening", "address", addr.String(), "version", build.Version, "revision", build.Revision)
	if cfg.LogFormat == "json" { // programs read the output
		pages.logWelcome(host.Log)
	} else {
		printGreeting(host.Out, &cfg, addr, grpcAddr, keyring, localFile)
		pages.printGreeting(host.Out, &cfg, addr)
	}
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

// serveGRPC starts the gRPC listener, if there is one.
func serveGRPC(ctx context.Context, cfg *config.Serve, host *Host, g grpcServer, open *listeners, fatal func(error)) (
	net.Addr, []*firstByteListener, error) {
	if cfg.GRPCListen == "" {
		return nil, nil, nil
	}
	g.delay, g.timeout, g.log = cfg.DrainDelay, cfg.DrainTimeout, host.Log
	server, addr, err := listenGRPC(ctx, cfg.GRPCListen, g, fatal)
	if err != nil {
		return nil, nil, fmt.Errorf("--grpc-listen (SLUICE_GRPC_LISTEN): %w", err)
	}
	open.closes = append(open.closes, server.close)
	host.Log.Info("listening for gRPC", "address", addr.String())
	if host.ListeningGRPC != nil {
		host.ListeningGRPC(addr)
	}
	return addr, []*firstByteListener{server.listener}, nil
}

// checkTokens returns errNoCredentials if the keyring has no valid token, no client
// certificate has scopes, and an address is not a loopback address.
func checkTokens(cfg *config.Serve, k *access.Keyring, now time.Time) error {
	switch {
	case k.Live(now) > 0 || cfg.TLSClientScopes != "":
		return nil
	case !cfg.Loopback():
		return errNoCredentials
	case !cfg.GRPCLoopback():
		return errNoGRPCCredentials
	}
	return nil
}
