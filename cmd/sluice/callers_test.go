package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/testenv"
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

// callerRules make the second limit allow what the first one denies: answers then have both words.
const callerRules = `{"rules": [
	{"name": "reports", "scope": "user", "route": "/reports", "method": "POST", "limit": 2,
		"algorithm": "fixed_window", "align": "first_hit", "window_ms": 86400000},
	{"name": "gate", "scope": "ip", "route": "/gate", "limit": 2,
		"algorithm": "fixed_window", "align": "first_hit", "window_ms": 86400000},
	{"name": "all", "scope": "global", "limit": 1000000, "window_ms": 60000}]}`

// ruledNode starts a node that asks for a token, and returns a token that may check.
func ruledNode(t *testing.T) (node *running, token string) {
	t.Helper()
	dir := dataDir(t)
	secrets := map[string]string{}
	for _, scopes := range []string{"admin", "check"} {
		code, out, errs := sluice(t, "", "token", "create", scopes, "--data-dir="+dir, "--scopes="+scopes)
		if code != exitDone {
			t.Fatal(errs)
		}
		secrets[scopes] = strings.TrimSpace(out)
	}
	node = launch(t, nil, serveArgs(dir)...)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(callerRules), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := sluice(t, "", "rules", "apply", "--server="+node.url, "--token="+secrets["admin"], "-f", file)
	if code != exitDone {
		t.Fatal(errs)
	}
	return node, secrets["check"]
}

// faulty is a server that fails on each check, or below /hung does not answer it. It keeps the last check's credential.
func faulty(t *testing.T) (url string, credential *atomic.Value) {
	t.Helper()
	credential = &atomic.Value{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/livez") {
			return
		}
		credential.Store(fmt.Sprint(r.Header["Authorization"]))
		if strings.HasPrefix(r.URL.Path, "/hung/") {
			_, _ = io.Copy(io.Discard, r.Body) // the server sees that a client leaves once the body is read
			<-r.Context().Done()
			return
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(s.Close)
	return s.URL, credential
}

// Each caller of docs/callers.md passes what Sluice admits, denies what it denies, and passes what it does not answer.
func TestCallers_DecideAsSluiceDoes(t *testing.T) {
	dir := t.TempDir()
	node, token := ruledNode(t)
	defer node.terminate()
	bare := launch(t, nil, serveArgs(dataDir(t))...)
	defer bare.terminate()
	broken, credential := faulty(t)
	compiled := filepath.Join(dir, "caller")
	for _, build := range [][]string{
		{"go", "build", "-o", compiled, callers + "/caller.go"}, {"javac", "-d", dir, callers + "/Caller.java"},
	} {
		if code, out := runCaller(t, []string{"CGO_ENABLED=0"}, build...); code != 0 {
			t.Fatal(out)
		}
	}
	for name, command := range map[string][]string{
		"go": {compiled}, "python": {"python3", callers + "/caller.py"}, "node": {"node", callers + "/caller.mjs"},
		"curl": {"sh", callers + "/caller.sh"}, "java": {"java", "-XX:TieredStopAtLevel=1", "-cp", dir, "Caller"},
	} {
		command = append(command, "user-of-"+name)
		const late, soon = "20", "0.1" // seconds: the first never ends a check, the second ends it soon
		unanswered := "allowed, Sluice did not answer\n"
		for _, tt := range []struct {
			is, server, token, timeout string
			code                       int
			out, sent                  string
		}{
			{"first", node.url, token, late, 0, "allowed, 1 left\n", ""},
			{"second", node.url, token, late, 0, "allowed, 0 left\n", ""},
			{"third", node.url, token, late, 1, "denied with 429 - wait 86", ""},
			{"a node without tokens or rules", bare.url, "", late, 0, "allowed, no limit applies\n", ""},
			{"a failing server", broken, "of-" + name, late, 0, unanswered, "[Bearer of-" + name + "]"},
			{"a failing server, no token", broken, "", late, 0, unanswered, "[]"},
			{"a server that does not answer", broken + "/hung", "", soon, 0, unanswered, ""},
			{"no server", "http://" + testenv.FreeAddr(t), token, late, 0, unanswered, ""},
		} {
			env := []string{"SLUICE_SERVER=" + tt.server, "SLUICE_TOKEN=" + tt.token, "TIMEOUT=" + tt.timeout}
			code, out := runCaller(t, env, command...)
			if code != tt.code || !strings.HasPrefix(out, tt.out) {
				t.Errorf("%s, %s: exit %d, %q; want %q", name, tt.is, code, out, tt.out)
			}
			if tt.sent != "" && credential.Load() != tt.sent {
				t.Errorf("%s, %s: sent %v, want %s", name, tt.is, credential.Load(), tt.sent)
			}
		}
		for _, wrong := range []string{"wrong", ""} {
			env := []string{"SLUICE_SERVER=" + node.url, "SLUICE_TOKEN=" + wrong, "TIMEOUT=" + late}
			if code, out := runCaller(t, env, command...); code == 0 || strings.Contains(out, "allowed") {
				t.Errorf("%s with the token %q: exit %d, %q", name, wrong, code, out)
			}
		}
	}
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
	if err != nil || len(files) != 8 {
		t.Errorf("%d files, %v", len(files), err)
	}
	for _, f := range files {
		if text, err := os.ReadFile(filepath.Join(callers, f.Name())); err != nil || string(text) != shown[f.Name()] {
			t.Errorf("%s is not shown as it is (%v)", f.Name(), err)
		}
	}
}
