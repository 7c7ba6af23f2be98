package demo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/api/decide"
	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/history"
)

// Demo says how the demo runs.
type Demo struct {
	Listener config.Listener
	Log      config.Log
	// FirstFlood is how long after the start the first flood begins. Others are every floodMinutes before and after it.
	FirstFlood time.Duration
}

// FirstFlood is how long after its start sluice demo has its first flood: long enough to open the console.
const FirstFlood = 20 * time.Second

// Run runs the server with a past in a temporary directory that is deleted at the end. Its requests call the Checker
// directly and do not leave the process.
func (d *Demo) Run(ctx context.Context, host app.Host) (err error) {
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := d.settings(filepath.Join(dir, "data"))
	if err := cfg.Validate(); err != nil {
		return err
	}
	asked := cfg.Listen
	if cfg.Listen, err = freeAddress(ctx, asked); err != nil {
		return err
	}
	host.Demo, err = d.prepare(ctx, &cfg, host.Now, host.Log)
	if err != nil {
		return fmt.Errorf("sample data: %w", err)
	}
	t := &traffic{now: host.Now, first: d.FirstFlood, rng: rand.New(rand.NewPCG(seed, 0))} //nolint:gosec // not a secret
	host.Demo.Traffic = func(ctx context.Context, checker *decide.Checker) { t.run(ctx, checker) }
	if cfg.Listen != asked && !anyPort(asked) {
		fmt.Fprintf(host.Out, "Another program listens on %s, so the demo listens on %s.\n", asked, cfg.Listen)
	}
	fmt.Fprintf(host.Out, "Demo: a shop that does not exist, with %d hours of history and up to %d requests a second. "+
		"Every %d minutes\n%s tries passwords.\nAll data is in %s and is deleted when the demo stops.\n\n",
		pastHours, perSecond, floodMinutes, flooder, dir)
	return app.Run(ctx, cfg, host)
}

// settings returns the settings of the demo.
func (d *Demo) settings(dataDir string) config.Serve {
	cfg := config.Serve{
		Listener: d.Listener,
		Storage:  config.Storage{DataDir: dataDir},
		Counters: config.Counters{KeyPrefix: "sl:", StoreTimeout: decide.DefaultTimeout},
		Tuning:   config.Tuning{Loop: "on", MaxKeys: 100_000, DenyCache: "on", StatsDays: 90},
		Matching: config.Matching{IPv4Prefix: 32, IPv6Prefix: 64, RouteCase: config.CaseKeep},
		Stats:    config.Stats{TenantAttribute: "tenant"},
		Records: config.Records{DecisionLog: []string{config.DecisionLogFile}, MaxLogBytes: 64 << 20, LogRate: 100,
			LogClientIP: "whole"},
		Alerts:  config.Alerts{WebhookAllow: []string{"127.0.0.0/8", "::1/128"}}, // to try webhooks
		Console: config.Console{Console: true, SessionIdle: 12 * time.Hour},
		Log:     d.Log,
	}
	cfg.HotKeyRate = hotRate
	return cfg
}

// prepare writes rules and a past into the data directory.
func (d *Demo) prepare(ctx context.Context, cfg *config.Serve, now func() time.Time, log *slog.Logger) (out *app.Demo,
	err error) {
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, err
	}
	clock := &settable{at: now()}
	db, err := database.Open(ctx, database.Options{DSN: cfg.Database(), Now: clock.now, Log: log})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := db.Migrate(ctx); err != nil {
		return nil, err
	}
	byName, err := writeRules(ctx, db, clock, now())
	if err != nil {
		return nil, fmt.Errorf("rules: %w", err)
	}
	clock.at = now()
	before := newPast(db, clock.at, d.FirstFlood, cfg.Listen, byName)
	if err := before.write(ctx); err != nil {
		return nil, err
	}
	var board *history.Memory
	if board, err = before.board(ctx, now); err != nil {
		return nil, err
	}
	return &app.Demo{Board: board, Tour: tour(byName)}, nil
}

// freeAddress returns the address to listen on: the given address, or an address with a free port if another program
// already listens there.
func freeAddress(ctx context.Context, address string) (string, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, splitErr := net.SplitHostPort(address)
		if splitErr != nil {
			return "", splitErr
		}
		l, err = listen.Listen(ctx, "tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return "", fmt.Errorf("--listen (SLUICE_LISTEN): %w", err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String(), nil
}

// anyPort reports whether an address leaves the port to the system.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0"
}
