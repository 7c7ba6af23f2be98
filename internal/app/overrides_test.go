package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/internal/database"
	"sluice/internal/rulecopy"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

// override makes an override of a rule and returns its path.
func (n *node) override(rule any, body string) string {
	n.t.Helper()
	path := fmt.Sprintf("/ratelimit/rules/%v/overrides", rule)
	status, doc := n.send("POST", path, body)
	if status != http.StatusCreated {
		n.t.Fatalf("override %s answered %d %v", body, status, doc)
	}
	return fmt.Sprintf("%s/%v", path, doc["id"])
}

func TestFleet_AnOverrideIsInForceOnTheOtherNodeByNotification(t *testing.T) {
	t.Parallel()
	p := standingPair(t, "on") // whose polls are too slow to be what is seen here
	a, b := p.nodes[0], p.nodes[1]
	by := func(user string) string { return fmt.Sprintf(`{"user":%q,"route":"/overridden"}`, user) }
	look := func(user string) string { return fmt.Sprintf(`{"user":%q,"route":"/overridden","weight":0}`, user) }
	rule := a.create(`{"name":"overridden","scope":"user","route":"/overridden","limit":3,"window_ms":86400000}`)
	path := a.override(rule["id"], `{"key":"bad-*","blocked":true}`)
	eventually(t, "the override is in force on b", func() bool { return !b.allowed(by("bad-1")) })
	if a.allowed(by("bad-2")) || !b.allowed(by("good")) {
		t.Error("the writer's node, or a stranger, is treated wrongly")
	}
	if status, doc := a.send("PUT", path, `{"limit":5}`); status != http.StatusOK {
		t.Fatalf("%d %v", status, doc)
	}
	eventually(t, "the edit is in force on b", func() bool { return b.allowed(look("bad-1")) })
	// Both nodes count the same five in one Redis.
	passed := 0
	for i := range 10 {
		if []*node{a, b}[i%2].allowed(by("bad-9")) {
			passed++
		}
	}
	if passed != 5 {
		t.Errorf("%d passed, want 5", passed)
	}
	if status, _ := a.send("DELETE", path, ""); status != http.StatusNoContent {
		t.Fatal(status)
	}
	eventually(t, "the deletion is in force on b",
		func() bool { return b.check(look("bad-9"))["limit"].(float64) == 3 })
	if v := b.metric("sluice_overrides"); v != 0 {
		t.Errorf("%v overrides on b, want 0", v)
	}
}

func TestFleet_AnOverrideIsInForceOnTheOtherNodeByThePoll(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "one")
	a := start(t, cfg)
	rule := a.create(`{"name":"r","scope":"user","limit":3,"window_ms":86400000}`)
	// Another process on the same file, which notifies nobody.
	db, err := database.Open(t.Context(), database.Options{DSN: cfg.Database()})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	o := rules.Override{RuleID: int64(rule["id"].(float64)), Key: "user:bad", Blocked: true}
	if _, err := db.CreateOverride(t.Context(), rules.Actor{Kind: "system", Name: "test"}, o,
		match.Options{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the override is in force", func() bool { return !a.allowed(`{"user":"bad"}`) })
}

func TestDatabaseDownAtStart_OverridesOfTheLastRunAreInForce(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	n := start(t, cfg)
	rule := n.create(perUser)
	n.override(rule["id"], `{"key":"bad","blocked":true}`)
	n.override(rule["id"], `{"key":"vip-*","limit":3}`)
	n.stop()
	postgres.Stop()
	n = start(t, cfg)
	if n.allowed(`{"user":"bad"}`) {
		t.Error("who is blocked passes while the database is away")
	}
	if limit := n.check(`{"user":"vip-1"}`)["limit"]; limit != 3.0 {
		t.Errorf("limit %v, want that of the override", limit)
	}
	if log := n.log.String(); !strings.Contains(log, "saved copy of the overrides") {
		t.Errorf("no log line says so:\n%s", log)
	}
	postgres.Restart()
	eventually(t, "the database's overrides are in force", func() bool {
		status, _ := n.send("POST", fmt.Sprintf("/ratelimit/rules/%v/overrides", rule["id"]), `{"key":"late","blocked":true}`)
		return status == http.StatusCreated && !n.allowed(`{"user":"late"}`)
	})
	if n.allowed(`{"user":"bad"}`) {
		t.Error("who is blocked passes after the database came back")
	}
}

// ledge is a catalog of overrides whose content and failures a test sets.
type ledge struct {
	mu    sync.Mutex
	rows  []override.Row
	since []int64
	err   error
}

func (l *ledge) LoadOverrides(_ context.Context, since database.Version, begin func(bool),
	each func(override.Row)) (database.Version, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = append(l.since, since.N)
	if l.err != nil {
		return database.NoVersion, l.err
	}
	begin(since.N < 0)
	for i, row := range l.rows {
		if int64(i) >= since.N {
			each(row)
		}
	}
	return at(int64(len(l.rows))), nil
}

func (l *ledge) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

func blockedRow(user string) override.Row {
	return override.Row{RuleID: 1, ID: 1, Match: "{user:" + user + "}", Blocked: true, Limit: -1, Burst: -1}
}

// limitFor is what the set in force allows a user.
func limitFor(r *reloader, user string) int64 {
	ms := r.sets.Load().Match(&match.Descriptor{User: user}, 1, r.now(), nil)
	return ms[0].Limit.Count
}

func overriddenReloader(t *testing.T, s *shelf, l *ledge) (*reloader, *buffer) {
	t.Helper()
	r, log := reloaderOf(s)
	r.overrideDatabase = l
	r.overrideCopies = newOverrideCopies(filepath.Join(t.TempDir(), "overrides.copy"), elsewhere, r.trouble, r.metrics,
		time.Now)
	return r, log
}

func TestReload_OverridesComeBeforeRulesAndOnlyChangesAfterThat(t *testing.T) {
	s := &shelf{rules: []rules.Rule{goodRule(1, "r")}, versions: database.Versions{Rules: at(1), Overrides: at(1)}}
	l := &ledge{rows: []override.Row{blockedRow("a")}, err: rules.ErrUnavailable}
	r, log := overriddenReloader(t, s, l)
	pass(t, r)
	if r.sets.Load() != nil || r.readiness.ready() == nil || !strings.Contains(log.String(), "what=overrides") {
		t.Errorf("rules are in force without their overrides\n%s", log)
	}
	l.fail(nil)
	pass(t, r)
	if limitFor(r, "a") != 0 || limitFor(r, "b") != 5 {
		t.Errorf("limits %d and %d", limitFor(r, "a"), limitFor(r, "b"))
	}
	l.rows = append(l.rows, blockedRow("b"))
	s.set(func(s *shelf) { s.versions.Overrides = at(2) })
	l.fail(errors.New("no"))
	pass(t, r)
	if limitFor(r, "a") != 0 || limitFor(r, "b") != 5 {
		t.Error("a failed load changed what is in force")
	}
	l.fail(nil)
	pass(t, r)
	pass(t, r)
	if limitFor(r, "a") != 0 || limitFor(r, "b") != 0 || fmt.Sprint(l.since) != "[-1 -1 1 1]" {
		t.Errorf("limits %d and %d, loaded since %v", limitFor(r, "a"), limitFor(r, "b"), l.since)
	}
	// New rules keep the overrides.
	s.set(func(s *shelf) { s.versions.Rules = at(2) })
	pass(t, r)
	if limitFor(r, "a") != 0 {
		t.Error("a reload of the rules lost the overrides")
	}
}

func TestOverrideCopies_TheLatestIsOnDiskInTheEnd(t *testing.T) {
	log := &buffer{}
	metrics := newRuleMetrics(prometheus.NewRegistry(), time.Now)
	c := newOverrideCopies(filepath.Join(t.TempDir(), "made", "overrides.copy"), elsewhere,
		trouble.New(slog.New(slog.NewTextHandler(log, nil)), time.Now, nil), metrics, time.Now)
	stop := task(c.run)
	o := override.New()
	for i := range 50 {
		e := o.Edit()
		e.Add(blockedRow(fmt.Sprint(i)))
		o = e.Done(int64(i), 0)
		c.save(o)
	}
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := c.load()
	if err != nil || got.Seq() != 49 || got.Len() != 50 {
		t.Fatalf("got %+v, %v", got, err)
	}
	good, err := os.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(good); n += 7 {
		flipped := append([]byte(nil), good...)
		flipped[n] ^= 4
		for _, bad := range [][]byte{good[:n], flipped} {
			if err := os.WriteFile(c.path, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := c.load(); !errors.Is(err, rulecopy.ErrDamaged) {
				t.Fatalf("damage at %d: %v", n, err)
			}
		}
	}
	if err := os.WriteFile(c.path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rulecopy.LoadOverrides(c.path, "another"); !errors.Is(err, rulecopy.ErrForeign) {
		t.Errorf("of another database: %v", err)
	}
	// No overrides any more, no file.
	c.save(override.New())
	c.writeLatest(withoutPause)
	if _, err := os.Stat(c.path); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
}

func TestFallBack_DamagedOverridesDoNotStopTheRules(t *testing.T) {
	s := &shelf{migrate: rules.ErrUnavailable}
	r, log, _ := recalling(s)
	r.overrideDatabase = &ledge{}
	path := filepath.Join(t.TempDir(), "overrides.copy")
	r.overrideCopies = newOverrideCopies(path, elsewhere, r.trouble, r.metrics, time.Now)
	if err := os.WriteFile(path, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	pass(t, r)
	if r.readiness.ready() != nil || limitFor(r, "a") != 5 ||
		!strings.Contains(log.String(), "copy of the overrides was rejected") {
		t.Errorf("not ready, or silent:\n%s", log)
	}
}

// broom counts cleanings; the first two leave something.
type broom struct {
	mu    sync.Mutex
	calls int
}

func (b *broom) CleanOverrides(context.Context) (bool, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls++
	return b.calls < 3, nil
}

func (b *broom) CleanHistory(context.Context) error { return nil }

func TestCleanOverrides_GoesOnWhileThereIsMore(t *testing.T) {
	b := &broom{}
	stop := task(func(ctx context.Context) { cleanOverrides(ctx, b, time.Millisecond, slog.New(slog.DiscardHandler)) })
	eventually(t, "cleaned", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.calls > 4
	})
	if err := stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
