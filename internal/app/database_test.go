package app

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/testenv"
)

const perUser = `{"name":"r","scope":"user","limit":1,"window_ms":86400000}`

// onPostgres are the settings of a node on a server of the test's own.
func onPostgres(t *testing.T) (config.Serve, *testenv.PostgresServer) {
	t.Helper()
	server := testenv.PrivatePostgres(t)
	cfg := settings(t)
	cfg.DatabaseURL.Value = server.DSN("postgres")
	return cfg, server
}

// metric reads one series.
func (n *node) metric(series string) float64 {
	n.t.Helper()
	_, rest, ok := strings.Cut("\n"+n.text("/metrics"), "\n"+series+" ")
	if !ok {
		n.t.Fatalf("no series %s", series)
	}
	value, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(value, 64)
	if err != nil {
		n.t.Fatal(err)
	}
	return v
}

// ruleState is what /readyz tells about the rules; the node must be ready.
func (n *node) ruleState() map[string]any {
	n.t.Helper()
	status, doc := n.send(http.MethodGet, "/readyz", "")
	state, ok := doc["rules"].(map[string]any)
	if status != http.StatusOK || !ok {
		n.t.Fatalf("/readyz answered %d %v\n%s", status, doc, n.log)
	}
	return state
}

// limitOf is the limit that decides for a user nobody has used; 0 for none.
func (n *node) limitOf() float64 {
	n.t.Helper()
	limit, _ := n.check(`{"user":"probe","weight":0}`)["limit"].(float64)
	return limit
}

func makeToken(t *testing.T, cfg config.Serve, scopes ...access.Scope) string {
	t.Helper()
	_, secret, err := CreateToken(t.Context(), cfg.Storage,
		NewToken{Name: fmt.Sprint("t", scopes), Scopes: scopes, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func TestDatabaseDownAtStart_TheSavedCopyDecides(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	secret := makeToken(t, cfg, access.ScopeAdmin)
	n := start(t, cfg)
	n.token = secret
	n.create(perUser)
	n.stop()
	// An edit that the copy cannot know.
	other := settings(t)
	other.DatabaseURL.Value = cfg.DatabaseURL.Value
	m := start(t, other)
	m.token = secret
	if status, doc := m.send(http.MethodPatch, "/ratelimit/rules/1", `{"limit":3}`); status != http.StatusOK {
		t.Fatalf("edit answered %d %v", status, doc)
	}
	m.stop()
	postgres.Stop()

	n = start(t, cfg)
	n.token = secret
	if state := n.ruleState(); state["source"] != "copy" || state["version"] != float64(1) {
		t.Errorf("/readyz tells %v", state)
	}
	if !n.allowed(anyUser) || n.allowed(anyUser) {
		t.Error("the saved rule does not decide")
	}
	if n.metric(`sluice_set_source{source="copy"}`) != 1 ||
		n.metric(`sluice_rule_copies_total{outcome="restored"}`) != 1 ||
		n.metric("sluice_set_age_seconds") <= 0 || n.metric("sluice_ready") != 1 {
		t.Error("the metrics do not tell that the copy decides")
	}
	if log := n.log.String(); !strings.Contains(log, "started with the saved copy of the rules") ||
		!strings.Contains(log, "age=") {
		t.Errorf("no log line tells, or not how old it is:\n%s", log)
	}
	if status, _ := n.send(http.MethodPost, "/ratelimit/rules", perUser); status != http.StatusServiceUnavailable {
		t.Errorf("a write answered %d, want 503", status)
	}
	if status, _ := n.send(http.MethodGet, "/ratelimit/rules", ""); status != http.StatusServiceUnavailable {
		t.Errorf("a listing answered %d, want 503", status)
	}
	n.token = "slk_" + strings.Repeat("x", 43)
	if status, _ := n.send(http.MethodPost, "/ratelimit/check", anyUser); status != http.StatusUnauthorized {
		t.Errorf("an unknown token got %d: the tokens of the copy are not in force", status)
	}
	n.token = ""
	if status, _ := n.send(http.MethodPost, "/ratelimit/check", anyUser); status != http.StatusUnauthorized {
		t.Errorf("no token got %d: the copy's tokens do not end the open mode", status)
	}

	n.token = secret
	postgres.Restart()
	eventually(t, "the edit made meanwhile is in force", func() bool { return n.limitOf() == 3 })
	eventually(t, "/readyz shows the rules of the database", func() bool { // the rules are in force a moment earlier
		state := n.ruleState()
		return state["source"] == "database" && state["version"] == float64(2)
	})
	if status, doc := n.send(http.MethodPatch, "/ratelimit/rules/1", `{"limit":4}`); status != http.StatusOK {
		t.Errorf("a write answered %d %v after the database came back", status, doc)
	}
}

func TestDatabaseHangsAtRunTime_ChecksGoOnAndTheAgeGrows(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	n := start(t, cfg)
	n.create(perUser)
	postgres.Pause()
	eventually(t, "the rules' age grows", func() bool {
		n.limitOf() // a check that fails ends the test
		return n.metric("sluice_set_age_seconds") > 1
	})
	// The database accepts connections and answers nothing: only a deadline of
	// ours can end this, before the client's own.
	if status, _ := n.send(http.MethodPost, "/ratelimit/rules",
		strings.Replace(perUser, `"r"`, `"s"`, 1)); status != http.StatusServiceUnavailable {
		t.Errorf("a write answered %d, want 503", status)
	}
	if !n.allowed(anyUser) || n.allowed(anyUser) {
		t.Error("the rule does not decide")
	}
	if state := n.ruleState(); state["source"] != "database" || state["age_ms"].(float64) < 1000 {
		t.Errorf("/readyz tells %v", state)
	}
	postgres.Resume()
	eventually(t, "the rules are confirmed again", func() bool { return n.metric("sluice_set_age_seconds") < 1 })
}

func TestDatabaseHangsAtStart_TheSavedCopyDecides(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	n := start(t, cfg)
	n.create(perUser)
	n.stop()
	postgres.Pause()
	defer postgres.Resume()
	n = start(t, cfg)
	if state := n.ruleState(); state["source"] != "copy" || n.limitOf() != 1 {
		t.Errorf("/readyz tells %v", state)
	}
}

func TestDatabaseDownAtStart_ATornCopyIsRefusedAndTheNodeWaits(t *testing.T) {
	t.Parallel()
	cfg, postgres := onPostgres(t)
	n := start(t, cfg)
	n.create(perUser)
	n.stop()
	postgres.Stop()
	data, err := os.ReadFile(cfg.CopyFile())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cfg.CopyFile(), data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	n = start(t, cfg)
	if status, _ := n.send(http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz answered %d with half a copy", status)
	}
	if log := n.log.String(); !strings.Contains(log, "copy of the rules was rejected") ||
		!strings.Contains(log, "incomplete") {
		t.Errorf("no log line says why:\n%s", log)
	}
	postgres.Restart()
	eventually(t, "ready, and the copy is whole again", func() bool {
		status, _ := n.send(http.MethodGet, "/readyz", "")
		again, err := os.ReadFile(cfg.CopyFile())
		return status == http.StatusOK && err == nil && len(again) >= len(data)
	})
}

func TestDataDirectoryUnwritable_ServesAllTheSame(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	blocked := filepath.Join(t.TempDir(), "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.DataDir = filepath.Join(blocked, "data")
	secret := makeToken(t, cfg, access.ScopeAdmin)
	n := start(t, cfg)
	n.token = secret // there is no local token
	n.create(perUser)
	if !n.allowed(anyUser) || n.allowed(anyUser) {
		t.Error("the rule does not decide")
	}
	eventually(t, "the failure is counted",
		func() bool { return n.metric(`sluice_rule_copies_total{outcome="failed"}`) > 0 })
	if !strings.Contains(n.log.String(), "saving the local copy of the rules failed") {
		t.Errorf("the log does not say so:\n%s", n.log)
	}
}

// sql runs statements behind the service's back.
func sql(t *testing.T, dsn, statements string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	if _, err := conn.Exec(ctx, statements); err != nil {
		t.Fatal(err)
	}
}

func TestPoisonedRow_TheLastGoodSetStaysEvenThroughARestart(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.DatabaseURL.Value = withSchema(t)
	n := start(t, cfg)
	n.create(perUser)
	n.create(`{"name":"bad","scope":"ip","limit":1,"window_ms":1000}`)
	sql(t, cfg.DatabaseURL.Value, `UPDATE rules SET scope = 'moon' WHERE name = 'bad'`)
	poisoned := func(source string) {
		t.Helper()
		eventually(t, "the refusal shows", func() bool { return n.metric(`sluice_trouble{code="set_refused"}`) == 1 })
		state := n.ruleState()
		if state["source"] != source || state["version"] != float64(2) || state["refused_version"] != float64(3) {
			t.Errorf("/readyz tells %v", state)
		}
		if !strings.Contains(n.log.String(), `bad`) {
			t.Errorf("the log does not name the rule:\n%s", n.log)
		}
		if n.limitOf() != 1 {
			t.Error("the good rule does not decide")
		}
	}
	poisoned("database")
	n.stop()
	n = start(t, cfg)
	poisoned("copy")

	status, doc := n.send(http.MethodPatch, "/ratelimit/rules/2", `{"scope":"ip"}`)
	if status != http.StatusOK {
		t.Fatalf("the repair answered %d %v", status, doc)
	}
	eventually(t, "the repaired rules are in force", func() bool {
		state := n.ruleState()
		return state["source"] == "database" && state["version"] == float64(4) && state["refused_version"] == nil
	})
	if n.metric(`sluice_trouble{code="set_refused"}`) != 0 {
		t.Error("the refusal still shows")
	}
}

func TestEditsRaceFromSeveralNodes_ExactlyOneWinsEachVersion(t *testing.T) {
	t.Parallel()
	cfg := sharedSettings(t)
	nodes := []*node{start(t, cfg), start(t, cfg), start(t, cfg)}
	nodes[0].create(perUser)
	patch := func(n *node, version, limit int) int {
		body := strings.NewReader(fmt.Sprintf(`{"limit":%d}`, limit))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, n.url+"/ratelimit/rules/1", body)
		if err != nil {
			t.Error(err)
			return 0
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("If-Match", fmt.Sprintf(`"%d"`, version))
		req.Header.Set("Authorization", "Bearer "+n.token)
		res, err := n.client.Do(req)
		if err != nil {
			t.Error(err)
			return 0
		}
		res.Body.Close()
		return res.StatusCode
	}
	const rounds, editors = 8, 3
	want := 0
	for version := 1; version <= rounds; version++ {
		var mu sync.Mutex
		got := map[int]int{}
		var wg sync.WaitGroup
		for i, n := range nodes {
			for e := range editors {
				limit := version*100 + i*10 + e
				wg.Go(func() {
					status := patch(n, version, limit)
					mu.Lock()
					defer mu.Unlock()
					if got[status]++; status == http.StatusOK {
						want = limit
					}
				})
			}
		}
		wg.Wait()
		if got[http.StatusOK] != 1 || got[http.StatusPreconditionFailed] != len(nodes)*editors-1 {
			t.Fatalf("version %d: answers %v, want one 200 and the rest 412", version, got)
		}
	}
	_, doc := nodes[1].send(http.MethodGet, "/ratelimit/rules/1", "")
	if doc["version"] != float64(rounds+1) || doc["limit"] != float64(want) {
		t.Errorf("the rule is at version %v with limit %v, want %d with the last winner's %d", doc["version"], doc["limit"],
			rounds+1, want)
	}
	for i, n := range nodes {
		eventually(t, fmt.Sprintf("node %d decides by the last winner", i),
			func() bool { return n.limitOf() == float64(want) })
	}
}
