package app

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
)

const (
	sixth  = `{"key":"user:42","limit":5,"window_ms":86400000}`
	plenty = `{"key":"user:42","limit":1000000,"window_ms":86400000}`
)

func TestEmbedded_SixthRequestIsDenied(t *testing.T) {
	t.Parallel()
	n := standing(t)
	const body = `{"key":"sixth","limit":5,"window_ms":86400000}`
	for i := range 5 {
		if !n.allowed(body) {
			t.Fatalf("request %d was denied", i+1)
		}
	}
	doc := n.check(body)
	if doc["allowed"] != false || doc["status"] != float64(429) || doc["remaining"] != float64(0) {
		t.Errorf("sixth request: %v", doc)
	}
	if status, _ := n.send("GET", "/", ""); status != http.StatusOK {
		t.Errorf("the index answered %d", status)
	}
}

func TestEmbedded_RuleIsInForceBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.PollInterval = time.Minute
	n := start(t, cfg)
	n.create(`{"name":"one","scope":"user","limit":1,"window_ms":86400000}`)
	if !n.allowed(`{"user":"a"}`) || n.allowed(`{"user":"a"}`) {
		t.Error("the new rule did not decide the very next check")
	}
}

func TestEmbedded_DataDirIsPrivate(t *testing.T) {
	t.Parallel()
	cfg := emptySettings(t)
	start(t, cfg)
	info, err := os.Stat(cfg.DataDir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory %v, %v; want mode 0700", info.Mode(), err)
	}
}

func TestEmbedded_SecondServerOnTheSameDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	start(t, cfg)
	_, err := tryStart(t, cfg)
	if !errors.Is(err, errDataDirInUse) || !strings.Contains(err.Error(), "SLUICE_DATA_DIR") {
		t.Errorf("got %v, want a refusal that names the setting", err)
	}
}

func TestEmbedded_GreetingShowsARequestThatWorks(t *testing.T) {
	t.Parallel()
	n := standing(t)
	eventually(t, "a greeting", func() bool { return strings.Contains(n.out.String(), "API reference") })
	out := n.out.String()
	_, rest, _ := strings.Cut(out, "-d '")
	body, _, ok := strings.Cut(rest, "'")
	if !ok || !strings.Contains(out, n.url+"/ratelimit/check") {
		t.Fatalf("greeting lacks a sample request:\n%s", out)
	}
	if !n.allowed(body) {
		t.Errorf("the sample request %s was denied", body)
	}
}

func TestRestart_KeepsRulesAndCounters(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	n.create(`{"name":"two","scope":"user","limit":2,"window_ms":86400000}`)
	n.check(`{"user":"a"}`)
	n.check(`{"user":"a"}`)
	n.stop()
	n = start(t, cfg)
	if n.allowed(`{"user":"a"}`) {
		t.Error("the restart forgot what was spent")
	}
	if !n.allowed(`{"user":"b"}`) {
		t.Error("another user was denied")
	}
}

func TestCrash_LosesNoMoreThanTheLastInterval(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.SnapshotInterval = time.Second
	n := start(t, cfg)
	n.check(`{"key":"k","limit":1,"window_ms":86400000}`)
	saved := filepath.Join(t.TempDir(), "counters.snapshot")
	eventually(t, "a snapshot that holds the request", func() bool {
		data, err := os.ReadFile(cfg.SnapshotFile())
		return err == nil && len(data) > 0 && os.WriteFile(saved, data, 0o600) == nil &&
			strings.Contains(string(data), "{key:k}")
	})
	n.stop()
	// What a crash leaves: the snapshot of the interval, not the one of the stop.
	if err := os.Rename(saved, cfg.SnapshotFile()); err != nil {
		t.Fatal(err)
	}
	if start(t, cfg).allowed(`{"key":"k","limit":1,"window_ms":86400000}`) {
		t.Error("the request of the interval before was forgotten")
	}
}

func TestSnapshots_FailWithoutADataDirectoryAndGoOnWithIt(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.SnapshotInterval = 50 * time.Millisecond
	n := start(t, cfg)
	elsewhere := cfg.DataDir + "-elsewhere"
	if err := os.Rename(cfg.DataDir, elsewhere); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the failure is logged and counted", func() bool {
		return strings.Contains(n.log.String(), "saving the counter snapshot failed") &&
			n.metric(`sluice_snapshots_total{outcome="failed"}`) > 0
	})
	if !n.allowed(`{"key":"k","limit":1,"window_ms":86400000}`) {
		t.Error("a check was denied")
	}
	if status, _ := n.send("GET", "/readyz", ""); status != http.StatusOK {
		t.Errorf("not ready: %d", status)
	}
	if err := os.Rename(elsewhere, cfg.DataDir); err != nil {
		t.Fatal(err)
	}
	saved := n.metric(`sluice_snapshots_total{outcome="saved"}`)
	eventually(t, "counters are saved again",
		func() bool { return n.metric(`sluice_snapshots_total{outcome="saved"}`) > saved })
}

func TestTornSnapshot_IsRefusedAndServingGoesOn(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	n.check(`{"key":"k","limit":1,"window_ms":86400000}`)
	n.stop()
	data, err := os.ReadFile(cfg.SnapshotFile())
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string][]byte{
		"torn": data[:len(data)-3], "empty": nil, "foreign": []byte("not a snapshot at all"),
		"flipped": append(append([]byte(nil), data[:len(data)/2]...),
			append([]byte{data[len(data)/2] ^ 1}, data[len(data)/2+1:]...)...),
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(cfg.SnapshotFile(), damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			n := start(t, cfg)
			if !strings.Contains(n.log.String(), "counter snapshot was rejected") {
				t.Errorf("no log line about the refusal:\n%s", n.log)
			}
			if !n.allowed(`{"key":"k","limit":1,"window_ms":86400000}`) {
				t.Error("a refused snapshot still counted")
			}
			n.stop()
		})
	}
}

func TestOffLoopback_NeedsAToken(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.Listen = "0.0.0.0:0"
	if _, err := tryStart(t, cfg); !errors.Is(err, errNoCredentials) ||
		!strings.Contains(err.Error(), "sluice token create") {
		t.Fatalf("got %v, want a refusal that says what to do", err)
	}
	_, secret, err := CreateToken(t.Context(), cfg.Storage,
		NewToken{Name: "ops", Scopes: []access.Scope{access.ScopeAdmin}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	n.url = strings.Replace(n.url, "[::]", "127.0.0.1", 1)
	n.url = strings.Replace(n.url, "0.0.0.0", "127.0.0.1", 1)
	if status, _ := n.send("POST", "/ratelimit/check", sixth); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d, want 401", status)
	}
	n.token = secret
	if !n.allowed(sixth) {
		t.Error("denied with a good token")
	}
}

func TestTokens_FollowWithoutARestart(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	if !n.allowed(plenty) {
		t.Fatal("open mode on loopback asks for a token")
	}
	tok, secret, err := CreateToken(t.Context(), cfg.Storage,
		NewToken{Name: "gateway", Scopes: []access.Scope{access.ScopeCheck}, By: "test"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first token ends the open mode", func() bool {
		status, _ := n.send("POST", "/ratelimit/check", plenty)
		return status == http.StatusUnauthorized
	})
	n.token = secret
	if !n.allowed(plenty) {
		t.Error("denied with a good token")
	}
	if status, _ := n.send("GET", "/ratelimit/rules", ""); status != http.StatusForbidden {
		t.Errorf("a check token may list rules: %d, want 403", status)
	}
	if _, err := RevokeToken(t.Context(), cfg.Storage, tok.Name, "test"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the revoked token is refused", func() bool {
		status, _ := n.send("POST", "/ratelimit/check", plenty)
		return status == http.StatusUnauthorized
	})
	if strings.Contains(n.log.String(), secret) {
		t.Error("the log holds a secret")
	}
	list, err := Tokens(t.Context(), cfg.Storage)
	if err != nil || len(list) != 1 || list[0].RevokedAt == nil {
		t.Errorf("tokens %v, %v; want one, revoked", list, err)
	}
}
