package manifests

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	registry "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/storage"
)

// published is the configuration of Prometheus in docs/metrics.md, which reads strictly.
func published(t *testing.T, replace ...string) *config.Config {
	t.Helper()
	page, err := os.ReadFile("../../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	for i := 0; i+1 < len(replace); i += 2 {
		if !strings.Contains(text, replace[i]) {
			t.Fatalf("the configuration has no %s:\n%s", replace[i], text)
		}
	}
	cfg, err := config.Load(strings.NewReplacer(replace...).Replace(text), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(cfg.ScrapeConfigs) != 1 {
		t.Fatalf("%d scrape configurations", len(cfg.ScrapeConfigs))
	}
	return cfg
}

func TestPrometheus_AMistakeIsFound(t *testing.T) {
	if _, err := config.Load("scrape_configs: [{job_name: a, scrape_native_histogram: true}]", nil); err == nil {
		t.Error("a field that does not exist is accepted")
	}
}

// The newest Prometheus, with the configuration of the docs, stores the durations of a node's checks as a native
// histogram. Without its setting it would not.
func TestPrometheus_ScrapesNativeHistograms(t *testing.T) {
	addr, data := serve(t)
	check, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/ratelimit/check",
		strings.NewReader(`{"key":"k","limit":1,"window_ms":1000}`))
	if err != nil {
		t.Fatal(err)
	}
	check.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(check)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the check: %s", res.Status)
	}
	token := filepath.Join(data, "local-token")
	for _, native := range []bool{true, false} {
		cfg := published(t, "sluice-1:8080", addr, "/etc/prometheus/sluice-token", token, ", sluice-2:8080", "")
		if !native {
			cfg = published(t, "sluice-1:8080", addr, "/etc/prometheus/sluice-token", token, ", sluice-2:8080", "",
				"scrape_native_histograms: true", "scrape_native_histograms: false")
		}
		if got := scrapeOnce(t, cfg); got != native {
			t.Errorf("scrape_native_histograms %v: a native histogram was stored: %v", native, got)
		}
	}
}

// serve starts a node, with a free port and a data directory.
func serve(t *testing.T) (addr, data string) {
	t.Helper()
	dir := t.TempDir()
	bin, data := filepath.Join(dir, "sluice"), filepath.Join(dir, "data")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./cmd/sluice")
	build.Dir, build.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	node := exec.CommandContext(context.WithoutCancel(t.Context()), bin, "serve", "--no-console", "--listen",
		"127.0.0.1:0", "--data-dir", data)
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = node.Process.Signal(syscall.SIGTERM)
		if err := node.Wait(); err != nil {
			t.Errorf("the node: %v", err)
		}
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "listening on http://"); ok {
			addr, _, _ = strings.Cut(rest, " ")
			go func() {
				for lines.Scan() { // so that the node never waits for a reader
				}
			}()
			return addr, data
		}
	}
	t.Fatal("the node does not listen")
	return "", ""
}

// scrapeOnce scrapes the targets of a configuration, and reports whether the durations of checks are native histograms.
func scrapeOnce(t *testing.T, cfg *config.Config) (native bool) {
	t.Helper()
	job := cfg.ScrapeConfigs[0]
	job.ScrapeInterval, job.ScrapeTimeout = model.Duration(time.Second), model.Duration(time.Second)
	s := &stored{found: make(chan bool, 1)}
	opt := &scrape.Options{DiscoveryReloadInterval: model.Duration(10 * time.Millisecond)}
	m, err := scrape.NewManager(opt, nil, nil, nil, s, registry.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := m.ApplyConfig(cfg); err != nil {
		t.Fatal(err)
	}
	targets := make(chan map[string][]*targetgroup.Group)
	ended := make(chan error, 1)
	go func() { ended <- m.Run(targets) }()
	defer func() {
		m.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	groups, ok := job.ServiceDiscoveryConfigs[0].(discovery.StaticConfig)
	if !ok {
		t.Fatalf("the targets are a %T", job.ServiceDiscoveryConfigs[0])
	}
	targets <- map[string][]*targetgroup.Group{job.JobName: groups}
	select {
	case native = <-s.found:
	case <-t.Context().Done():
		t.Fatal("nothing was scraped")
	}
	return native
}

// stored receives what Prometheus would store. Of the first scrape with the durations of a check, found has whether
// they are a native histogram.
type stored struct{ found chan bool }

func (s *stored) AppenderV2(context.Context) storage.AppenderV2 { return s }

func (s *stored) Append(_ storage.SeriesRef, ls labels.Labels, _, _ int64, v float64, h *histogram.Histogram,
	_ *histogram.FloatHistogram, _ storage.AppendV2Options,
) (storage.SeriesRef, error) {
	switch name := ls.Get(model.MetricNameLabel); {
	case name == "sluice_check_duration_seconds" && h != nil && h.Count > 0:
		s.report(true)
	case name == "sluice_check_duration_seconds_count" && v > 0:
		s.report(false)
	}
	return 1, nil
}

func (s *stored) report(native bool) {
	select {
	case s.found <- native:
	default:
	}
}

func (s *stored) Commit() error   { return nil }
func (s *stored) Rollback() error { return nil }
