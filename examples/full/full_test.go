// Package full_test runs the whole example without containers, and the tutorial that builds it step by step.
package full_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.yaml.in/yaml/v4"

	"sluice/internal/config"
	"sluice/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testenv.Wrap(m)) }

// patience is for a busy machine; only a failure uses it.
const patience = 3 * time.Minute

// lasting is a program that the test started, with what it printed so far.
type lasting struct {
	cmd *exec.Cmd
	out output
}

// output is what a program prints. It is safe for concurrent use.
type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	until string        // a text
	seen  chan struct{} // is closed when the text was printed
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.text.Write(p)
	if o.until != "" && strings.Contains(o.text.String(), o.until) {
		o.until = ""
		close(o.seen)
	}
	return n, err
}

// String is all that was printed so far.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start prepares bash, which runs until the test ends. What it starts itself ends with its process group.
func start(t *testing.T, dir string, env []string, args ...string) *lasting {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	l := &lasting{cmd: exec.CommandContext(ctx, "bash", args...)}
	l.cmd.Stdout, l.cmd.Stderr = &l.out, &l.out
	l.cmd.Dir, l.cmd.Env = dir, append(os.Environ(), env...)
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	l.cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() {
		_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
		cancel()
		if t.Failed() {
			t.Logf("it printed:\n%s", l.out.String())
			logs, _ := filepath.Glob(filepath.Join(dir, "*", "*.log"))
			for _, path := range logs {
				text, _ := os.ReadFile(path)
				t.Logf("%s:\n%s", path, text)
			}
		}
	})
	return l
}

// codes sends six requests of one key to the gateway.
func codes(t *testing.T, url, key string) string {
	t.Helper()
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	var out []string
	for range 6 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", key)
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		out = append(out, fmt.Sprint(res.StatusCode))
	}
	return strings.Join(out, " ")
}

// sixCodes are the answers to six requests of which a limit admits five.
const sixCodes = "200 200 200 200 200 429"

// freePorts returns the first of seven ports in a row that nobody listens on.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		_, port, _ := net.SplitHostPort(testenv.FreeAddr(t))
		var first int
		if _, err := fmt.Sscan(port, &first); err != nil || first > 65_000 {
			continue
		}
		free := true
		for i := range 7 {
			l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
			if err != nil {
				free = false
				break
			}
			l.Close()
		}
		if free {
			return first
		}
	}
	t.Fatal("there are no seven free ports in a row")
	return 0
}

// The script starts everything, the limit holds over both nodes, Prometheus reads them, and a signal stops it all.
func TestRun_StartsTheWholeExample(t *testing.T) {
	t.Parallel()
	parent, err := os.MkdirTemp("", "full-") // a folder of the test itself would be closed to the user postgres
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(parent); err != nil {
			t.Error(err)
		}
	})
	dir := filepath.Join(parent, "data")
	if err := errors.Join(os.Chmod(parent, 0o711), os.Mkdir(dir, 0o711)); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	program, err := os.ReadFile(testenv.Sluice(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sluice"), program, 0o755); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	port := freePorts(t)
	l := start(t, parent, nil, filepath.Join(here, "run"), dir, fmt.Sprint(port))
	l.out.until, l.out.seen = "Stop everything", make(chan struct{})
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.cmd.Wait() }()
	select {
	case <-l.out.seen:
	case err := <-ended:
		t.Fatalf("it ended: %v", err)
	}
	if got := codes(t, fmt.Sprintf("http://127.0.0.1:%d/orders", port), "k1"); got != sixCodes {
		t.Errorf("the gateway answered %s", got)
	}
	if up := scraped(t, port+6); up != 2 {
		t.Errorf("Prometheus reads %d nodes", up)
	}
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after the signal: %v", err)
	}
	for i := range 7 {
		address := fmt.Sprintf("127.0.0.1:%d", port+i)
		if c, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", address); err == nil {
			c.Close()
			t.Errorf("something still listens on %s", address)
		}
	}
}

// scraped is how many nodes Prometheus reads, as soon as it has read two.
func scraped(t *testing.T, port int) (up int) {
	t.Helper()
	client := &http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(100 * time.Millisecond); up < 2; {
		select {
		case <-ctx.Done():
			return up
		case <-tick.C:
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet,
			fmt.Sprintf("http://127.0.0.1:%d/api/v1/query?query=up", port), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		up = bytes.Count(body, []byte(`"1"]`))
	}
	return up
}

var block = regexp.MustCompile("(?sm)^```sh\n(.*?)^```$")

// Every command of docs/production.md does what the page says, one after the other in one shell. Only the addresses are
// others.
func TestProduction_EveryCommandOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{}
	for _, port := range []string{"8000", "8080", "8081", "9000", "9090"} {
		addresses["127.0.0.1:"+port] = testenv.FreeAddr(t)
	}
	node := addresses["127.0.0.1:8080"]
	addresses["redis://127.0.0.1:6379"] = testenv.Redis(t).URL()
	addresses["postgres://sluice:password@127.0.0.1:5432/sluice?sslmode=disable"] = testenv.Postgres(t)
	var pairs, sed []string
	for from, to := range addresses {
		pairs, sed = append(pairs, from, to), append(sed, "-e 's|"+from+"|"+to+"|'")
	}
	script := "set -euo pipefail\ntrap 'kill $(jobs -p) $(cat nginx.pid 2>/dev/null) 2>/dev/null || true; wait' EXIT\n"
	blocks := block.FindAllSubmatch(page, -1)
	for i, b := range blocks {
		commands := strings.NewReplacer(pairs...).Replace(string(b[1]))
		commands = strings.Replace(commands, `nginx.conf" nginx.conf`,
			`nginx.conf" nginx.conf; sed -i `+strings.Join(sed, " ")+" nginx.conf", 1)
		script += fmt.Sprintf("echo '== %d'\n%s", i, commands)
	}
	home := t.TempDir()
	l := start(t, top, []string{"HOME=" + home, "SLUICE_LISTEN=" + node, "SLUICE_SERVER=http://" + node, "CGO_ENABLED=0",
		"GOPATH=" + goEnv(t, "GOPATH"), "GOCACHE=" + goEnv(t, "GOCACHE"), "PATH=" + os.Getenv("PATH") + ":/usr/sbin",
	}, "-c", script)
	if err := l.cmd.Run(); err != nil {
		t.Fatal(err)
	}
	printed := strings.Split(l.out.String(), "== ")[1:]
	if len(printed) != len(blocks) {
		t.Fatalf("%d blocks of %d ran", len(printed), len(blocks))
	}
	var answers []string // of the blocks that ask, in order
	for _, text := range printed {
		if allowed := strings.Count(text, `{"allowed":true`); allowed > 0 {
			answers = append(answers, fmt.Sprintf("%d allowed, %d denied", allowed, strings.Count(text, `{"allowed":false`)))
		}
		if got := regexp.MustCompile(`(?m)^(\d{3})$`).FindAllStringSubmatch(text, -1); got != nil {
			line := ""
			for _, m := range got {
				line += " " + m[1]
			}
			answers = append(answers, strings.TrimSpace(line))
		}
	}
	want := []string{"5 allowed, 1 denied", sixCodes, sixCodes, "429"}
	if strings.Join(answers, "|") != strings.Join(want, "|") {
		t.Errorf("the answers are %q, want %q", answers, want)
	}
	for _, said := range []string{"requests-per-key", "2 to create", "SUCCESS"} {
		if !strings.Contains(l.out.String(), said) {
			t.Errorf("nothing says %q", said)
		}
	}
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// The containers get settings that exist and files that exist, and a configuration that nginx takes.
func TestCompose_IsWhatTheProgramsTake(t *testing.T) {
	text, err := os.ReadFile("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Build       map[string]string `yaml:"build"`
			Environment map[string]string `yaml:"environment"`
			Volumes     []string          `yaml:"volumes"`
			Ports       []string          `yaml:"ports"`
		} `yaml:"services"`
		Volumes map[string]any `yaml:"volumes"`
	}
	if err := yaml.Load(text, &file); err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, s := range config.Settings(config.Serve{}, config.Client{}) {
		known[s.Env] = true
	}
	nodes := 0
	for name, s := range file.Services {
		if len(s.Build) > 0 {
			nodes++
			for variable := range s.Environment {
				if !known[variable] {
					t.Errorf("%s: %s is no setting", name, variable)
				}
			}
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			if _, named := file.Volumes[from]; !named {
				if _, err := os.Stat(from); err != nil {
					t.Errorf("%s mounts a file that does not exist: %v", name, err)
				}
			}
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is open to other machines: %s", name, p)
			}
		}
	}
	if nodes != 3 {
		t.Errorf("%d services are built from this repository", nodes)
	}
	dir := t.TempDir()
	conf, err := exec.CommandContext(t.Context(), "sh", "gateway", "../../deploy/gateways/nginx/nginx.conf",
		"127.0.0.1:18000", "127.0.0.1:9000", "127.0.0.1:18001", "127.0.0.1:18002").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"listen 127.0.0.1:18000;", "server 127.0.0.1:18001 ", "server 127.0.0.1:18002 "} {
		if !bytes.Contains(conf, []byte(want)) {
			t.Errorf("the configuration of nginx lacks %q", want)
		}
	}
	for name, content := range map[string][]byte{"nginx.conf": conf, "sluice-token.conf": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nginx := testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx")
	check := exec.CommandContext(t.Context(), nginx, "-t", "-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e",
		filepath.Join(dir, "error.log"), "-g", "pid nginx.pid;")
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("nginx: %v\n%s", err, out)
	}
}
