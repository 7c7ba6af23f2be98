package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/config"
	"sluice/internal/database"
	"sluice/internal/localtoken"
	"sluice/internal/testenv"
)

// TestMain shortens what tests of regions would wait for.
//
// A proxy of toxiproxy whose toxics are removed while it passes data on may leave a goroutine behind.
func TestMain(m *testing.M) {
	cutAlert, cutLinger, shareSkew = time.Second, time.Second, 500*time.Millisecond
	goleak.VerifyTestMain(testenv.Wrap(&whole{m: m}),
		goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/toxics.(*LatencyToxic).Pipe"),
		goleak.IgnoreTopFunction("github.com/Shopify/toxiproxy/v2/toxics.(*NoopToxic).Pipe"))
}

// buffer collects output of several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// settings are the defaults, on a free port and a directory of the test's own.
// The store's deadline is generous, because a test machine may be slow.
func settings(t testing.TB) config.Serve {
	t.Helper()
	cfg := emptySettings(t)
	testenv.SQLiteFrom(t, cfg.Database(), migrated)
	return cfg
}

// withSchema is a database of the common Postgres with the schema in it.
func withSchema(t testing.TB) (dsn string) {
	t.Helper()
	return testenv.PostgresFrom(t, "sluice_schema", migrated)
}

func migrated(dsn string) error {
	ctx := context.Background()
	db, err := database.Open(ctx, database.Options{DSN: dsn})
	if err != nil {
		return err
	}
	return errors.Join(db.Migrate(ctx), db.Close())
}

// emptySettings is settings with a data directory that is not there yet.
func emptySettings(t testing.TB) config.Serve {
	t.Helper()
	return config.Serve{
		Listener: config.Listener{Listen: "127.0.0.1:0", ResetHeader: "epoch"},
		Storage:  config.Storage{DataDir: filepath.Join(t.TempDir(), "data")},
		Counters: config.Counters{KeyPrefix: "sl:", StoreTimeout: 5 * time.Second},
		Tuning:   config.Tuning{Loop: "on", MaxKeys: 100_000, DenyCache: "on", StatsDays: 90},
		Matching: config.Matching{IPv4Prefix: 32, IPv6Prefix: 64, RouteCase: config.CaseKeep},
		Stats:    config.Stats{TenantAttribute: "tenant"},
		Fixed:    config.Fixed{PollInterval: 100 * time.Millisecond, SnapshotInterval: time.Hour},
		Records:  config.Records{DecisionLog: []string{config.DecisionLogOff}},
		Log:      config.Log{LogLevel: "info", LogFormat: "text"},
	}
}

// node is one server in this process.
type node struct {
	t        testing.TB
	url      string
	token    string
	out, log *buffer
	client   *http.Client
	cancel   context.CancelFunc
	done     chan error
}

// idleClient is shorter than readHeaderTimeout: a connection that a client opened
// and did not use yet is closed by the server after that, and a POST that meets
// the closing fails with EOF.
const idleClient = readHeaderTimeout / 2

// start runs a server and waits until it listens. The test's end stops it.
func start(t testing.TB, cfg config.Serve) *node {
	t.Helper()
	n, err := tryStart(t, cfg)
	if err != nil {
		t.Fatalf("start: %v\n%s", err, n.log)
	}
	return n
}

// tryStart is start for servers that may refuse; its error is Run's.
func tryStart(t testing.TB, cfg config.Serve) (*node, error) {
	t.Helper()
	return tryStartAt(t, cfg, time.Now, nil)
}

// tryStartAt is tryStart with clocks of the test's own, as in Host.
func tryStartAt(t testing.TB, cfg config.Serve, now func() time.Time, clock func() int64) (*node, error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	n := &node{t: t, out: &buffer{}, log: &buffer{}, cancel: cancel, done: make(chan error, 1),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: idleClient},
			Timeout: 20 * time.Second}}
	t.Cleanup(n.client.CloseIdleConnections)
	listening := make(chan net.Addr, 1)
	go func() {
		n.done <- Run(ctx, cfg, Host{
			Out: n.out, Log: slog.New(slog.NewTextHandler(n.log, nil)), Now: now, Clock: clock,
			Listening: func(a net.Addr) { listening <- a },
		})
		close(n.done)
	}()
	select {
	case addr := <-listening:
		n.url = "http://" + addr.String()
		if secret, err := localtoken.Read(cfg.DataDir); err == nil {
			n.token = secret // no other exists yet
		}
		t.Cleanup(func() {
			n.client.CloseIdleConnections() // else the drain waits for them
			cancel()
			if err := <-n.done; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
		return n, nil
	case err := <-n.done:
		cancel()
		return n, err
	}
}

// stop ends the server as SIGTERM does and waits for it.
func (n *node) stop() {
	n.t.Helper()
	n.client.CloseIdleConnections()
	n.cancel()
	if err, ok := <-n.done; ok && err != nil {
		n.t.Errorf("the server ended with %v", err)
	}
}

// send makes one request and returns its status and JSON body.
func (n *node) send(method, path, body string) (int, map[string]any) {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		n.t.Error(err)
		return 0, nil
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if n.token != "" {
		req.Header.Set("Authorization", "Bearer "+n.token)
	}
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Error(err)
		return 0, nil
	}
	var doc map[string]any
	_ = json.Unmarshal(raw, &doc) // not every answer is JSON; those have a nil doc
	return res.StatusCode, doc
}

// check asks for one decision, which must be made.
func (n *node) check(body string) map[string]any {
	n.t.Helper()
	status, doc := n.send("POST", "/ratelimit/check", body)
	if status != http.StatusOK {
		n.t.Errorf("check %s answered %d %v", body, status, doc)
	}
	return doc
}

func (n *node) allowed(body string) bool {
	n.t.Helper()
	ok, _ := n.check(body)["allowed"].(bool)
	return ok
}

// create makes a rule and returns it.
func (n *node) create(rule string) map[string]any {
	n.t.Helper()
	status, doc := n.send("POST", "/ratelimit/rules", rule)
	if status != http.StatusCreated {
		n.t.Fatalf("create %s answered %d %v", rule, status, doc)
	}
	return doc
}

// eventually polls until ok, for at most 20 s. The pauses grow to a tenth of the time that has passed, so that a long
// wait leaves the processor to what it waits for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	const least, most = 5 * time.Millisecond, 100 * time.Millisecond
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for began := time.Now(); !ok(); {
		select {
		case <-limit.C:
			t.Fatalf("never happened: %s", what)
		case <-time.After(min(max(least, time.Since(began)/10), most)):
		}
	}
}

// text gets a page as it is.
func (n *node) text(path string) string {
	n.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, n.url+path, http.NoBody)
	if err != nil {
		n.t.Error(err)
		return ""
	}
	if n.token != "" {
		req.Header.Set("Authorization", "Bearer "+n.token)
	}
	res, err := n.client.Do(req)
	if err != nil {
		n.t.Error(err)
		return ""
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		n.t.Error(err)
	}
	return string(raw)
}
