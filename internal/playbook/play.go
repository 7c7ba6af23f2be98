package playbook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/localtoken"
	"sluice/internal/testenv"
)

// noon is the time at which every section begins.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// patience is how long a test waits for an event that is immediate on an idle machine.
const patience = 20 * time.Second

// Page runs a page with the counters in memory, each section as a subtest with its own server.
func Page(t *testing.T, file string) {
	t.Helper()
	page(t, file, Serve, nil)
}

// PageOnRedis runs a page with the counters in Redis, a separate one for each section. It skips
// sections in which more than the counters must use the test's clock.
func PageOnRedis(t *testing.T, file string, but ...string) {
	t.Helper()
	page(t, file, ServeOnRedis, but)
}

func page(t *testing.T, file string, serve func(*testing.T) *World, but []string) {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a test names its page
	if err != nil {
		t.Fatal(err)
	}
	sections, err := parsePage(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(sections) == 0 {
		t.Fatalf("%s has nothing to play", file)
	}
	for _, s := range sections {
		if slices.Contains(but, s.title) {
			continue
		}
		t.Run(s.title, func(t *testing.T) {
			w := serve(t)
			for _, b := range s.blocks {
				if err := w.block(b); err != nil {
					t.Fatalf("%s: %v", filepath.Base(file), err)
				}
			}
		})
	}
}

// World is a server without rules, and its clock.
type World struct {
	t        *testing.T
	url      string
	token    string       // the local token
	grpc     string       // host and port
	clock    atomic.Int64 // ms since the epoch
	client   *http.Client
	captured memory
	redis    *testenv.RedisServer // nil: the counters are in memory
	stopped  bool                 // redis was stopped
}

// Serve starts a server at noon, with its files in a directory of the test, and stops it with
// the test.
func Serve(t *testing.T) *World {
	t.Helper()
	return serve(t, nil)
}

// ServeOnRedis is Serve with the counters in a Redis of the test, which uses the same clock.
func ServeOnRedis(t *testing.T) *World {
	t.Helper()
	return serve(t, testenv.Redis(t))
}

// ServeOn is ServeOnRedis with a Redis that several servers may share.
func ServeOn(t *testing.T, redis *testenv.RedisServer) *World {
	t.Helper()
	return serve(t, redis)
}

// Token returns a token of the server that permits everything.
func (w *World) Token() string { return w.token }

// URL returns the address of the server.
func (w *World) URL() string { return w.url }

// GRPC returns host and port of the gRPC services that Envoy calls.
func (w *World) GRPC() string { return w.grpc }

func serve(t *testing.T, redis *testenv.RedisServer) *World {
	t.Helper()
	w := &World{t: t, redis: redis, captured: memory{},
		client: &http.Client{Transport: &http.Transport{}, Timeout: patience}}
	w.clock.Store(noon.UnixMilli())
	cfg := config.Serve{
		Listener: config.Listener{Listen: "127.0.0.1:0", ResetHeader: "epoch"},
		GRPC:     config.GRPC{GRPCListen: "127.0.0.1:0"},
		Storage:  storage(t),
		Counters: config.Counters{KeyPrefix: "sl:", StoreTimeout: 10 * time.Second},
		Matching: config.Matching{IPv4Prefix: 32, IPv6Prefix: 64, RouteCase: config.CaseKeep},
		Tuning:   config.Tuning{Loop: "on", MaxKeys: 100_000, DenyCache: "off", StatsDays: 90},
		Stats:    config.Stats{TenantAttribute: "tenant"},
		Fixed: config.Fixed{PollInterval: 100 * time.Millisecond, SnapshotInterval: time.Hour,
			DrainTimeout: patience},
		Records: config.Records{DecisionLog: []string{config.DecisionLogOff}},
		Log:     config.Log{LogLevel: "info", LogFormat: "text"},
	}
	if redis != nil {
		cfg.RedisURL.Value = redis.URL()
	}
	ctx, cancel := context.WithCancel(context.Background())
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, cfg, app.Host{
			Out: io.Discard, Log: slog.New(slog.DiscardHandler),
			Now:           func() time.Time { return time.UnixMilli(w.clock.Load()) },
			Clock:         w.clock.Load,
			Listening:     func(a net.Addr) { listening <- a },
			ListeningGRPC: func(a net.Addr) { w.grpc = a.String() },
		})
	}()
	t.Cleanup(func() {
		cancel()
		w.client.CloseIdleConnections()
		if err := <-done; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	select {
	case addr := <-listening:
		w.url = "http://" + addr.String()
		var err error
		if w.token, err = localtoken.Read(cfg.DataDir); err != nil {
			t.Fatal(err)
		}
	case err := <-done:
		done <- nil
		t.Fatalf("the server did not start: %v", err)
	}
	return w
}

// Now returns the time.
func (w *World) Now() time.Time { return time.UnixMilli(w.clock.Load()).UTC() }

// SetTime sets the time, which does not pass by itself.
func (w *World) SetTime(at time.Time) { w.clock.Store(at.UnixMilli()) }

// ageReports shortens the life of load reports, which end by the clock of Redis, by ARGV[1] ms.
const ageReports = `for _, key in ipairs(redis.call('KEYS', 'sl:load:*')) do
  redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1])
end
return 1`

// pass moves the time, also that of load reports.
func (w *World) pass(d time.Duration) error {
	if w.redis != nil && !w.stopped && d > 0 {
		_, err := w.redis.Command(w.t.Context(), "EVAL", ageReports, "0", strconv.FormatInt(d.Milliseconds(), 10))
		if err != nil {
			return err
		}
	}
	w.clock.Add(d.Milliseconds())
	return nil
}

// PutInForce replaces all rules and pools by those of a file.
func (w *World) PutInForce(file []byte) error {
	status, body, err := w.send(&request{
		times: 1, method: http.MethodPost, path: "/ratelimit/rules/import?prune=true", body: string(file),
		headerNames: []string{"Content-Type"}, headerLines: []string{"application/yaml"},
	})
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("the rules are refused: %d %s", status, body)
	}
	return err
}

// Play runs a play. The error names the line.
func (w *World) Play(play string) error { return w.block(block{language: "play", text: play, line: 1}) }

func (w *World) block(b block) error {
	if b.language == "yaml" {
		if err := w.PutInForce([]byte(b.text)); err != nil {
			return fmt.Errorf("line %d: %w", b.line, err)
		}
		return nil
	}
	if b.language == playRedis && w.redis == nil {
		return nil
	}
	steps, err := parsePlay(b)
	if err != nil {
		return err
	}
	for i := range steps {
		if err := w.step(&steps[i]); err != nil {
			return fmt.Errorf("line %d: %w", steps[i].line, err)
		}
	}
	return nil
}

func (w *World) step(s *step) error {
	switch {
	case s.stops && w.redis == nil:
		return errors.New("there is no Redis here to stop")
	case s.stops:
		w.redis.Kill()
		w.stopped = true
		return nil
	case s.request == nil && s.after > 0:
		return w.pass(s.after)
	case s.request == nil:
		return w.pass(s.at.Sub(w.Now()))
	}
	for n := range s.request.times {
		status, body, err := w.send(s.request)
		if err != nil {
			return err
		}
		if err := w.answered(s.expected, status, body); err != nil {
			if s.request.times > 1 {
				return fmt.Errorf("request %d of %d: %w", n+1, s.request.times, err)
			}
			return err
		}
	}
	return nil
}

func (w *World) answered(e *expected, status int, body string) error {
	if status != e.status {
		return fmt.Errorf("status %d, the page says %d: %s", status, e.status, body)
	}
	if strings.TrimSpace(e.body) == "" {
		return nil
	}
	want, err := decode(e.body)
	if err != nil {
		return fmt.Errorf("the printed answer: %w", err)
	}
	got, err := decode(body)
	if err != nil {
		return fmt.Errorf("the answer %q: %w", body, err)
	}
	return w.captured.compare("answer", want, got)
}
