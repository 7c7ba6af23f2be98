package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

const callers = "../../docs/callers"

// runCaller runs a caller and returns its exit code and what it wrote.
func runCaller(t *testing.T, env []string, args ...string) (code int, out string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(text)
}

// Each caller of docs/callers.md passes what Sluice admits, denies what it denies, and passes what it does not answer.
func TestCallers_DecideAsSluiceDoes(t *testing.T) {
	dir := t.TempDir()
	r := launch(t, nil, serveArgs(dataDir(t))...)
	file := filepath.Join(dir, "rules.yaml")
	rules := `{"rules": [{"name": "reports", "scope": "user", "route": "/reports", "method": "POST", "limit": 2,
		"algorithm": "fixed_window", "align": "first_hit", "window_ms": 86400000}]}`
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := sluice(t, "", "rules", "apply", "--server="+r.url, "-f", file); code != 0 {
		t.Fatal(errs)
	}
	compiled, plain := filepath.Join(dir, "caller"), []string{"CGO_ENABLED=0"}
	if code, out := runCaller(t, plain, "go", "build", "-o", compiled, callers+"/caller.go"); code != 0 {
		t.Fatal(out)
	}
	var token atomic.Value
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token.Store(r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer broken.Close()
	for name, command := range map[string][]string{
		"go": {compiled}, "python": {"python3", callers + "/caller.py"}, "node": {"node", callers + "/caller.mjs"},
		"curl": {"sh", callers + "/caller.sh"},
	} {
		env := []string{"SLUICE_SERVER=" + r.url, "TIMEOUT=20"}
		command = append(command, "user-of-"+name)
		for i, want := range []string{"allowed, 1 left\n", "allowed, 0 left\n", "denied with 429 - wait 86"} {
			if code, out := runCaller(t, env, command...); code != i/2 || !strings.HasPrefix(out, want) {
				t.Errorf("%s, %d: exit %d, %q; want %q", name, i, code, out, want)
			}
		}
		code, out := runCaller(t, append(env, "SLUICE_TOKEN=wrong"), command...)
		if code == 0 || strings.Contains(out, "allowed") {
			t.Errorf("%s with a wrong token: exit %d, %q", name, code, out)
		}
		env[0] = "SLUICE_SERVER=" + broken.URL
		code, out = runCaller(t, append(env, "SLUICE_TOKEN=of-"+name), command...)
		if code != 0 || out != "allowed, Sluice did not answer\n" || token.Load() != "Bearer of-"+name {
			t.Errorf("%s without an answer: exit %d, %q, sent %q", name, code, out, token.Load())
		}
	}
	r.terminate()
}

// retry.py of docs/for-api-consumers.md waits and tries again, and gives up on other errors.
func TestCallers_RetryWhatIsDenied(t *testing.T) {
	var asked atomic.Int64
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		switch {
		case r.URL.Path == "/gone":
			w.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/never":
			w.Header().Set("Retry-After", "86400")
			w.WriteHeader(http.StatusTooManyRequests)
		case r.URL.Path == "/useless":
			w.WriteHeader(http.StatusTooManyRequests)
		case n == 1:
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			fmt.Fprint(w, "done")
		}
	}))
	defer api.Close()
	code, out := runCaller(t, nil, "python3", callers+"/retry.py", api.URL)
	if code != 0 || out != "done after 2 attempts\n" {
		t.Errorf("exit %d, %q", code, out)
	}
	for _, path := range []string{"/gone", "/never", "/useless"} {
		asked.Store(0)
		if code, out := runCaller(t, nil, "python3", callers+"/retry.py", api.URL+path); code == 0 || asked.Load() != 1 {
			t.Errorf("%s: exit %d after %d attempts, %q", path, code, asked.Load(), out)
		}
	}
}

// The pages show every file of docs/callers completely.
func TestCallers_ThePagesShowTheFiles(t *testing.T) {
	shown := map[string]string{}
	for _, page := range []string{"../../docs/callers.md", "../../docs/for-api-consumers.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?s)\\(callers/([A-Za-z.]+)\\)\n\n```[a-z]+\n(.*?)```").FindAllStringSubmatch(
			string(text), -1) {
			shown[m[1]] = m[2]
		}
	}
	files, err := os.ReadDir(callers)
	if err != nil || len(files) != 7 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(filepath.Join(callers, f.Name())); err != nil || string(text) != shown[f.Name()] {
			t.Errorf("%s is not shown as it is (%v)", f.Name(), err)
		}
	}
}
