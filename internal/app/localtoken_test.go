package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/localtoken"
)

func TestLocalToken_ServesEverythingUntilTheFirstToken(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.PollInterval = time.Minute // the open mode ends sooner
	n := start(t, cfg)
	local, err := localtoken.Read(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	n.create(perUser)
	_, history := n.send(http.MethodGet, "/ratelimit/rules/1/history", "")
	if text := fmt.Sprint(history); !strings.Contains(text, "name:local") {
		t.Errorf("the history does not name the local token: %s", text)
	}
	n.token = ""
	if status, _ := n.send(http.MethodGet, "/ratelimit/rules", ""); status != http.StatusUnauthorized {
		t.Errorf("rules without a credential: %d, want 401", status)
	}
	if !n.allowed(plenty) {
		t.Error("a check without a credential is refused")
	}
	secret := makeToken(t, cfg, access.ScopeCheck)
	eventually(t, "the first token ends the open mode", func() bool {
		status, _ := n.send(http.MethodPost, "/ratelimit/check", plenty)
		return status == http.StatusUnauthorized
	})
	eventually(t, "the file is gone", func() bool { return localtoken.Missing(cfg.DataDir) })
	n.token = local
	if status, _ := n.send(http.MethodPost, "/ratelimit/check", plenty); status != http.StatusUnauthorized {
		t.Errorf("the local token after the first token: %d, want 401", status)
	}
	n.token = secret
	if !n.allowed(plenty) {
		t.Error("denied with a good token")
	}
	log := n.log.String()
	if strings.Contains(log, local) || strings.Count(log, "a proxy on this machine opens them") != 1 {
		t.Errorf("the log has the secret, or not one warning:\n%s", log)
	}
}

func TestLocalToken_EndsWithTheServer(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	var last string
	for range 2 {
		n := start(t, cfg)
		if n.token == "" || n.token == last {
			t.Errorf("the token of a start is %q, after %q", n.token, last)
		}
		last = n.token
		n.stop()
		if !localtoken.Missing(cfg.DataDir) {
			t.Error("a clean stop left the file")
		}
	}
	// What a killed server leaves.
	if err := localtoken.Write(cfg.DataDir, last); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	if n.token == last {
		t.Error("the token of a killed server is still in the file")
	}
	n.token = last
	if status, _ := n.send(http.MethodGet, "/ratelimit/rules", ""); status != http.StatusUnauthorized {
		t.Errorf("the token of a killed server: %d, want 401", status)
	}
	n.stop()
	makeToken(t, cfg, access.ScopeCheck)
	if err := localtoken.Write(cfg.DataDir, last); err != nil {
		t.Fatal(err)
	}
	n = start(t, cfg)
	if !localtoken.Missing(cfg.DataDir) {
		t.Error("a server with tokens left the file of a killed one")
	}
	if strings.Contains(n.log.String(), "no token exists") {
		t.Errorf("a server with tokens warns:\n%s", n.log)
	}
}

func TestLocalToken_AFileThatCannotBeWrittenIsAWarning(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	if err := os.MkdirAll(filepath.Join(localtoken.Path(cfg.DataDir), "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	n := start(t, cfg)
	if !n.allowed(plenty) {
		t.Error("a check without a credential is refused")
	}
	n.stop()
	if strings.Count(n.log.String(), "writing the local token failed") != 1 {
		t.Errorf("not one warning:\n%s", n.log)
	}
	if strings.Contains(n.out.String(), "local-token") {
		t.Errorf("the greeting shows a file that does not exist:\n%s", n.out)
	}
}

func TestLocalToken_TheGreetingShowsACommandThatWorks(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	cfg.DataDir = filepath.Join(t.TempDir(), "it's mine")
	n := start(t, cfg)
	out := n.out.String()
	shown := regexp.MustCompile(`\$\(cat (.*)\)"`).FindStringSubmatch(out)
	if shown == nil || !strings.Contains(out, n.url+"/ratelimit/rules") {
		t.Fatalf("the greeting has no command with the local token:\n%s", out)
	}
	if want := `'` + strings.ReplaceAll(localtoken.Path(cfg.DataDir), `'`, `'\''`) + `'`; shown[1] != want {
		t.Errorf("the greeting shows %s, want %s", shown[1], want)
	}
}

// Nodes with Postgres and Redis can share a data directory.
func TestLocalToken_OfServersWithOneDirectory(t *testing.T) {
	dir := t.TempDir()
	of := func(change func(*config.Serve)) *localToken {
		cfg := &config.Serve{Listener: config.Listener{Listen: "127.0.0.1:0"}, Storage: config.Storage{DataDir: dir}}
		change(cfg)
		return newLocalToken(cfg, slog.New(slog.DiscardHandler))
	}
	open := access.NewKeyring(nil)
	read := func() string {
		secret, _ := localtoken.Read(dir)
		return secret
	}
	first, second := of(func(*config.Serve) {}), of(func(*config.Serve) {})
	first.follow(open)
	second.follow(open)
	first.keep(open)
	if read() != second.secret {
		t.Error("the file is not that of the server that started last")
	}
	if err := second.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first.keep(open); read() != first.secret {
		t.Error("the first server does not write its file again")
	}
	if ring := first.follow(access.NewKeyring([]access.Token{{ID: 1}})); ring.Open() {
		t.Error("a keyring with a token is open")
	} else if first.keep(ring); !localtoken.Missing(dir) {
		t.Error("the file stays after the first token")
	}
	for name, change := range map[string]func(*config.Serve){
		"client certificates": func(cfg *config.Serve) { cfg.TLSClientScopes = "a=check" },
		"a network address":   func(cfg *config.Serve) { cfg.Listen = "0.0.0.0:0" },
	} {
		l := of(change)
		if ring := l.follow(open); l.secret != "" || ring != open || !localtoken.Missing(dir) {
			t.Errorf("with %s there is a local token", name)
		}
	}
}

// A database that is restored from before the first token, or created anew, has no tokens again.
func TestLocalToken_ASecretThatEndedStaysEnded(t *testing.T) {
	var log bytes.Buffer
	cfg := &config.Serve{Listener: config.Listener{Listen: "127.0.0.1:0"}, Storage: config.Storage{DataDir: t.TempDir()}}
	l := newLocalToken(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	none, one := access.NewKeyring(nil), access.NewKeyring([]access.Token{{ID: 1}})
	pass := func(ring *access.Keyring) *access.Keyring {
		ring = l.follow(ring)
		l.keep(ring)
		return ring
	}
	pass(none)
	ended, err := localtoken.Read(cfg.DataDir)
	if err != nil {
		t.Fatal(err)
	}
	if pass(one); !localtoken.Missing(cfg.DataDir) {
		t.Error("the file stays after the first token")
	}
	ring := pass(none)
	if _, err := ring.Find(ended, time.Now()); err == nil {
		t.Error("the secret that ended is valid again")
	}
	if now, err := localtoken.Read(cfg.DataDir); err != nil {
		t.Error(err)
	} else if _, err := ring.Find(now, time.Now()); err != nil {
		t.Errorf("the secret in the file: %v", err)
	}
	if n := strings.Count(log.String(), "no token exists"); n != 2 {
		t.Errorf("%d warnings for two times without a token:\n%s", n, &log)
	}

	log.Reset()
	l = newLocalToken(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	pass(one)
	if pass(none); strings.Count(log.String(), "no token exists") != 1 {
		t.Errorf("no warning after a start with a token:\n%s", &log)
	}
}
