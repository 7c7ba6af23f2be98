package deploy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/localtoken"
	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// Prometheus scrapes a node that allows, denies and lets fail modes decide, with and without native histograms. Every
// expression of the dashboard then has data, every series that the alerts ask for exists, and those alerts fire that
// the traffic calls for.
func TestPrometheus_AnswersTheDashboardAndTheAlerts(t *testing.T) {
	n := serve(t)
	n.post("/ratelimit/rules", `{"name":"closed","scope":"user","limit":2,"window_ms":3600000,"fail_mode":"closed"}`)
	n.post("/ratelimit/rules", `{"name":"open","scope":"ip","limit":100,"window_ms":3600000,"fail_mode":"open"}`)
	servers := []*prometheus{n.scrape(t, true), n.scrape(t, false)}
	// A rate needs two scrapes of a series, and some series appear with what they count.
	for range 2 {
		n.traffic(20)
		n.awaitScrape(servers)
	}
	n.redis.Stop()
	for range 2 {
		n.traffic(20)
		n.awaitScrape(servers)
	}
	for _, p := range servers {
		t.Run(fmt.Sprintf("native histograms %v", p.native), func(t *testing.T) {
			p.has(t, `sluice:objective_missed:ratio_rate3d > 0`) // the rules were evaluated since
			for _, panel := range readDashboard(t) {
				for _, target := range panel.Targets {
					expr := strings.NewReplacer("$__rate_interval", "5m", "$job", ".+").Replace(target.Expr)
					if p.ask(t, expr) == 0 {
						t.Errorf("panel %q has no data: %s", panel.Title, expr)
					}
				}
			}
			fires := map[string]bool{"SluiceObjectiveFast": true, "SluiceObjectiveSlow": true,
				"SluiceObjectiveTicket": true, "SluiceDegraded": true}
			for _, r := range readAlerts(t) {
				found := p.ask(t, r.Expr) > 0
				if want := fires[r.Alert] || r.Record != ""; found != want && r.Alert != "SluiceBreakerOpen" { // half-open at times
					t.Errorf("%s%s has data: %v, want %v: %s", r.Alert, r.Record, found, want, r.Expr)
				}
				for _, selector := range selectors.FindAllString(r.Expr, -1) {
					// Their labels are those of what went wrong. Those of TLS exist with a certificate, and of regions with several.
					name, _, _ := strings.Cut(selector, "{")
					if !strings.HasPrefix(name, "sluice_tls_") && !strings.HasPrefix(name, "sluice_region_") && p.ask(t, name) == 0 {
						t.Errorf("%s%s asks for %s, which the node does not serve", r.Alert, r.Record, name)
					}
				}
			}
			count := `sum(sluice_check_duration_seconds_count)`
			if p.native {
				count = `sum(histogram_count(sluice_check_duration_seconds))`
			}
			if got, want := p.value(t, count), n.sum("sluice_check_duration_seconds_count"); got != want || want == 0 {
				t.Errorf("Prometheus counted %v checks, the node %v", got, want)
			}
		})
	}
}

var selectors = regexp.MustCompile(`sluice[_:]\w[\w:]*(\{[^}]*\})?`)

// server is a node that counts in Redis, and knows its password from a file.
type server struct {
	t     *testing.T
	addr  string
	data  string // its data directory
	redis *testenv.RedisServer
	sent  int
}

func serve(t *testing.T) *server {
	t.Helper()
	dir := t.TempDir()
	n := &server{t: t, addr: testenv.FreeAddr(t), redis: testenv.Redis(t),
		data: filepath.Join(dir, "data")}
	address := filepath.Join(dir, "redis")
	if err := os.WriteFile(address, []byte(n.redis.URL()), 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Start(t, &testenv.Program{Path: testenv.Sluice(t), Addr: n.addr, Env: []string{"SLUICE_DRAIN_DELAY=0s"},
		Args: []string{"serve", "--no-console", "--listen", n.addr, "--data-dir", n.data, "--metrics-public",
			"--redis-url-file", address, "--decision-log", "file"}})
	return n
}

// traffic sends checks of one user, of which the rule closed allows 2, and as many that only the rule open is about.
func (n *server) traffic(checks int) {
	n.t.Helper()
	for i := range checks {
		n.post("/ratelimit/check", `{"user":"42"}`)
		n.post("/ratelimit/check", fmt.Sprintf(`{"ip":"192.0.2.%d"}`, i))
	}
	n.sent += 2 * checks
}

// awaitScrape waits until Prometheus knows of all traffic.
func (n *server) awaitScrape(servers []*prometheus) {
	n.t.Helper()
	for _, p := range servers {
		p.has(n.t, fmt.Sprintf("sum(sluice_account_requests_total) >= %d", n.sent))
	}
}

func (n *server) post(path, body string) {
	n.t.Helper()
	n.do(http.MethodPost, path, body)
}

func (n *server) do(method, path, body string) string {
	n.t.Helper()
	req, err := http.NewRequestWithContext(n.t.Context(), method, "http://"+n.addr+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	secret, err := localtoken.Read(n.data)
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	status, text := send(n.t, req)
	if status/100 != 2 {
		n.t.Fatalf("%s: %d %s", path, status, text)
	}
	return text
}

// sum adds up a series of the node over its labels.
func (n *server) sum(name string) (sum float64) {
	n.t.Helper()
	for line := range strings.Lines(n.do(http.MethodGet, "/metrics", "")) {
		if series, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(series, name+"{") {
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				n.t.Fatal(err)
			}
			sum += v
		}
	}
	return sum
}

// prometheus is Debian's, with alerts.yaml.
type prometheus struct {
	addr   string
	native bool
}

// scrape starts a Prometheus that scrapes the node.
func (n *server) scrape(t *testing.T, native bool) *prometheus {
	t.Helper()
	rules, err := filepath.Abs("alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yaml")
	text := fmt.Sprintf(`{global: {scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 500ms},
rule_files: [%q], scrape_configs: [{job_name: sluice, static_configs: [{targets: [%q]}]}]}`, rules, n.addr)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &prometheus{addr: testenv.FreeAddr(t), native: native}
	args := []string{"--config.file", file, "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.addr}
	if native {
		args = append(args, "--enable-feature=native-histograms")
	}
	testenv.Start(t, &testenv.Program{Path: testenv.Binary(t, "prometheus", "prometheus"), Args: args, Addr: p.addr})
	return p
}

// query evaluates an expression now.
func (p *prometheus) query(t *testing.T, expr string) []struct{ Value [2]any } {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+p.addr+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	status, text := send(t, req)
	var answer struct {
		Status string
		Data   struct {
			Result []struct{ Value [2]any }
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); status == http.StatusServiceUnavailable {
		return nil // it still starts
	} else if err != nil || answer.Status != "success" {
		t.Fatalf("%s: %d %s", expr, status, text)
	}
	return answer.Data.Result
}

// ask returns how many series an expression has.
func (p *prometheus) ask(t *testing.T, expr string) int {
	t.Helper()
	return len(p.query(t, expr))
}

// value returns the value of an expression that has one series.
func (p *prometheus) value(t *testing.T, expr string) float64 {
	t.Helper()
	found := p.query(t, expr)
	if len(found) != 1 {
		t.Fatalf("%s has %d series", expr, len(found))
	}
	v, err := strconv.ParseFloat(fmt.Sprint(found[0].Value[1]), 64)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return v
}

// has waits until an expression has data.
func (p *prometheus) has(t *testing.T, expr string) {
	t.Helper()
	const patience = 30 * time.Second
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); p.ask(t, expr) == 0; <-again.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s has no data after %s", expr, patience)
		}
	}
}

func send(t *testing.T, req *http.Request) (status int, body string) {
	t.Helper()
	req.Close = true
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}
