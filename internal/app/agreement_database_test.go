package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/testenv"
	"sluice/internal/trouble"
	"sluice/rules"
)

// A node of another rules database does not start while a node of the stored one is live, and then takes the counters.
func TestAgreement_ANodeOfAnotherDatabaseIsRefusedWhileOneIsLive(t *testing.T) {
	t.Parallel()
	for name, ownDatabase := range map[string]func(cfg *config.Serve){
		"files":    func(*config.Serve) {}, // of the data directory
		"Postgres": func(cfg *config.Serve) { cfg.DatabaseURL.Value = testenv.Postgres(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			shared := sharedSettings(t)
			onOwn := func() config.Serve {
				cfg := emptySettings(t)
				cfg.RedisURL.Value, cfg.KeyPrefix = shared.RedisURL.Value, shared.KeyPrefix
				ownDatabase(&cfg)
				return cfg
			}
			cfg, other := onOwn(), onOwn()
			first := start(t, cfg)
			stored := redisOf(t, &cfg).HGet(t.Context(), cfg.KeyPrefix+"settings", "database").Val()
			_, err := tryStart(t, other)
			if err == nil {
				t.Fatal("a node of another database starts beside the first")
			}
			for _, want := range []string{stored, "DATABASE_URL", "SLUICE_KEY_PREFIX", "stop every node", "10s"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q: %v", want, err)
				}
			}
			if cfg.Postgres() {
				same := cfg
				same.DataDir = t.TempDir()
				second := start(t, same)
				first.stop()
				if _, err := tryStart(t, other); err == nil {
					t.Error("a node of another database starts beside the second")
				}
				second.stop()
			} else {
				first.stop()
			}
			late := start(t, other)
			if text := late.log.String(); !strings.Contains(text, "without a live node") || !strings.Contains(text, stored) {
				t.Errorf("the log does not say that the counters changed hands: %s", text)
			}
			if _, err := tryStart(t, cfg); err == nil {
				t.Error("a node of the former database starts beside one that has taken over")
			}
		})
	}
}

// ofDatabase is a follower of a rules database, and its log.
func ofDatabase(t *testing.T, url, id string) (*agreement, *buffer) {
	t.Helper()
	a, _ := follower(t, url, nil)
	log := &buffer{}
	a.log = slog.New(slog.NewTextHandler(log, nil))
	a.trouble = trouble.New(a.log, time.Now, nil)
	a.readID = func(context.Context) (string, error) { return id, nil }
	a.findID(t.Context())
	return a, log
}

// A node that started without Redis and without its database goes on when it learns that this is another one.
func TestAgreement_ANodeThatLearnsLateOfAnotherDatabaseGoesOn(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	first, _ := ofDatabase(t, server.URL(), "one")
	late, log := ofDatabase(t, server.URL(), "two")
	late.id = "" // its database has not answered yet
	server.Kill()
	if err := errors.Join(first.first(t.Context()), late.first(t.Context())); err != nil {
		t.Fatalf("without Redis: %v", err)
	}
	server.Restart()
	if err := first.compare(t.Context()); err != nil || first.differ.Load() != 0 {
		t.Fatalf("the first node: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		late.run(ctx, func(err error) { t.Errorf("the node ends: %v", err) })
	}()
	eventually(t, "it shows that it differs", func() bool { return late.differ.Load() == 1 })
	cancel()
	<-done
	if text := log.String(); !strings.Contains(text, "does not agree with the settings") ||
		!strings.Contains(text, "DATABASE_URL") {
		t.Errorf("the log does not say that the database differs: %s", text)
	}
	first.leave(t.Context())
	if err := late.compare(t.Context()); err != nil || late.differ.Load() != 0 {
		t.Errorf("once the other node has left: %v", err)
	}
	if err := first.compare(t.Context()); !errors.Is(err, errDiffers) || first.differ.Load() != 1 {
		t.Errorf("the first node, after the other has taken over: %v", err)
	}
}

// While the rules database is unavailable, a node starts and claims nothing.
func TestAgreement_AnUnavailableDatabaseIsComparedLater(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	first, _ := ofDatabase(t, url, "one")
	if err := first.compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, c := follower(t, url, nil)
	err := a.database(t.Context(), func(context.Context) (string, error) { return "", rules.ErrUnavailable })
	if got := c.HGet(t.Context(), "sl:settings", "database").Val(); err != nil || got != "one" {
		t.Errorf("the database is %q, %v", got, err)
	}
	if err := a.database(t.Context(), func(context.Context) (string, error) { return "two", nil }); !errors.Is(err,
		errDiffers) {
		t.Errorf("once the database answers: %v", err)
	}
}

// A node whose settings differ does not claim the counters.
func TestAgreement_ANodeThatIsRefusedClaimsNothing(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	first, c := follower(t, url, nil)
	if err := first.compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, _ := follower(t, url, func(cfg *config.Serve) { cfg.IPv4Prefix = 24 })
	err := a.database(t.Context(), func(context.Context) (string, error) { return "two", nil })
	if got := c.HGet(t.Context(), "sl:settings", "database").Val(); !errors.Is(err, errDiffers) || got != "" {
		t.Errorf("the database is %q, %v", got, err)
	}
}

// If another database takes the place of the one before, for example a restored one, its nodes take the counters along.
// A node that starts on it is not refused because of what they were told before.
func TestAgreement_ADatabaseThatIsReplacedIsNoticed(t *testing.T) {
	t.Parallel()
	url := testenv.Redis(t).URL()
	nodes, logs := [2]*agreement{}, [2]*buffer{}
	for i := range nodes {
		nodes[i], logs[i] = ofDatabase(t, url, "one")
		if err := nodes[i].compare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i, a := range nodes {
		a.readID = func(context.Context) (string, error) { return "", rules.ErrUnavailable }
		if a.findID(t.Context()); a.id != "one" {
			t.Errorf("while its database is unavailable node %d has the id %q, want that of before", i, a.id)
		}
		a.readID = func(context.Context) (string, error) { return "two", nil }
		a.findID(t.Context())
		if text := logs[i].String(); !strings.Contains(text, "the rules database was replaced by another one") {
			t.Errorf("node %d does not log it: %s", i, text)
		}
	}
	fresh, _ := ofDatabase(t, url, "two")
	for i, a := range append(nodes[:], fresh) {
		if err := a.compare(t.Context()); err != nil || a.differ.Load() != 0 {
			t.Errorf("node %d: %v", i, err)
		}
	}
	former, _ := ofDatabase(t, url, "one")
	if err := former.compare(t.Context()); !errors.Is(err, errDiffers) {
		t.Errorf("a node of the former database: %v", err)
	}
}
