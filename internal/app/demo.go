package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"sluice/api/decide"
	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/tick"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// demoInterval is the average time between two synthetic requests.
const demoInterval = 50 * time.Millisecond

// Demo runs the server with default settings in a temporary directory that is deleted at
// the end, with sample rules and synthetic traffic. The traffic calls the Checker
// directly and does not leave the process.
func Demo(ctx context.Context, door config.Listener, log config.Log, host Host) (err error) {
	dir, err := os.MkdirTemp("", "sluice-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg := config.Serve{
		Listener: door,
		Storage:  config.Storage{DataDir: filepath.Join(dir, "data")},
		Counters: config.Counters{KeyPrefix: "sl:", StoreTimeout: decide.DefaultTimeout},
		Tuning:   config.Tuning{Loop: "on", MaxKeys: 100_000, DenyCache: "on", StatsDays: 90},
		Matching: config.Matching{IPv4Prefix: 32, IPv6Prefix: 64, RouteCase: config.CaseKeep},
		Stats:    config.Stats{TenantAttribute: "tenant"},
		Records:  config.Records{DecisionLog: []string{config.DecisionLogOff}},
		Console:  config.Console{Console: true, SessionIdle: 12 * time.Hour},
		Log:      log,
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	if err := seedDemo(ctx, &cfg); err != nil {
		return fmt.Errorf("sample rules: %w", err)
	}
	host.Traffic = demoTraffic
	fmt.Fprintf(host.Out, "Demo: sample rules and about %[2]d requests per second from synthetic users demo-user-1 to "+
		"demo-user-%[1]d.\nAll data is in %[3]s and is deleted when the demo stops.\n\n",
		demoUsers, time.Second/demoInterval, dir)
	return Run(ctx, cfg, host)
}

func seedDemo(ctx context.Context, cfg *config.Serve) error {
	return withDatabase(ctx, cfg.Storage, func(ctx context.Context, db *database.DB) error {
		if err := db.Migrate(ctx); err != nil {
			return err
		}
		plan := rules.MakePlan(nil, demoRules(), false)
		return db.ApplyPlan(ctx, rules.Actor{Kind: "system", Name: "demo"}, plan)
	})
}

// demoRules show different scopes, algorithms and modes.
func demoRules() []rules.Rule {
	text := func(s string) *string { return &s }
	list := []rules.Rule{
		{Name: "demo-charges-per-user", Description: "Sample: 20 charges per minute per user.", Scope: "user",
			Route: text("/v1/charges"), Method: text("POST"), Limit: 20, WindowMS: 60_000},
		{Name: "demo-search-per-user", Description: "Sample: one search per second on average, bursts up to 5.",
			Scope: "user", Route: text("/v1/search"), Algorithm: "token_bucket", Limit: 1, WindowMS: 1000, Burst: new(int64(5))},
		{Name: "demo-logins-per-address", Description: "Sample: at most 5 logins in any 5 minutes per IP address.",
			Scope: "ip", Route: text("/v1/login"), Method: text("POST"), Algorithm: "sliding_window_log", Limit: 5,
			WindowMS: 300_000},
		{Name: "demo-everything-per-tenant", Description: "Sample: a daily quota per calendar day.", Scope: "attr:tenant",
			Algorithm: "fixed_window", Limit: 100_000, WindowMS: 86_400_000},
		{Name: "demo-tighter-charges", Description: "Sample: a shadow rule. It counts but does not deny.", Scope: "user",
			Route: text("/v1/charges"), Limit: 10, WindowMS: 60_000, Mode: rules.ModeShadow},
	}
	for i := range list {
		list[i].IsActive = true
		list[i].Normalize()
	}
	return list
}

// demoUsers is the number of synthetic users; the first ones send more requests.
const demoUsers = 12

var demoRoutes = []struct{ method, route string }{
	{"POST", "/v1/charges"}, {"POST", "/v1/charges"}, {"GET", "/v1/search"}, {"GET", "/v1/search"}, {"POST", "/v1/login"},
	{"GET", "/v1/invoices"},
}

// demoTraffic checks synthetic requests until ctx ends.
func demoTraffic(ctx context.Context, checker *decide.Checker) {
	var answer decide.Answer
	for range tick.Every(ctx, demoInterval) {
		q := demoQuestion(rand.IntN)
		// The Checker counts errors; the next request may succeed.
		_ = checker.Do(ctx, &q, &answer)
	}
}

// demoQuestion returns a random request. pick returns a number in [0, n).
func demoQuestion(pick func(n int) int) decide.Question {
	user := 1 + min(pick(demoUsers), pick(demoUsers))
	request := demoRoutes[pick(len(demoRoutes))]
	return decide.Question{
		Op: limiter.OpTake,
		Descriptor: match.Descriptor{
			Method: request.method, Route: request.route, User: fmt.Sprintf("demo-user-%d", user),
			// Addresses reserved for documentation.
			IP:         netip.AddrFrom4([4]byte{203, 0, 113, byte(user)}),
			Attributes: map[string]string{"tenant": fmt.Sprintf("demo-tenant-%d", user%3)},
		},
		Weight: 1,
	}
}
