package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/api/client"
	"sluice/internal/localtoken"
	"sluice/internal/testenv"
	"sluice/rules/rulefile"
)

// asSluice makes the test binary behave as sluice itself.
const asSluice = "SLUICE_TEST_AS_SLUICE"

func TestMain(m *testing.M) {
	if os.Getenv(asSluice) != "" {
		main()
	}
	goleak.VerifyTestMain(testenv.Wrap(m))
}

// running is a sluice process of its own.
type running struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	errs *bytes.Buffer
	done chan error
}

// launch starts a process and waits until it says where it listens.
//
// Commands of the test find the local token of the server, because they get its data directory.
func launch(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	for _, arg := range args {
		if dir, ok := strings.CutPrefix(arg, "--data-dir="); ok {
			t.Setenv("SLUICE_DATA_DIR", dir)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), asSluice+"=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	r := &running{t: t, cmd: cmd, errs: &bytes.Buffer{}, done: make(chan error, 1)}
	cmd.Stderr = r.errs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "sluice is listening on "); ok {
			r.url, _, _ = strings.Cut(rest, " ")
			break
		}
	}
	if r.url == "" {
		t.Fatalf("the server said nothing: %v\n%s", cmd.Wait(), r.errs)
	}
	go func() {
		_, _ = io.Copy(io.Discard, out)
		r.done <- cmd.Wait()
	}()
	return r
}

// terminate sends SIGTERM and wants a clean end.
func (r *running) terminate() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	select {
	case err := <-r.done:
		if err != nil {
			r.t.Errorf("ended with %v\n%s", err, r.errs)
		}
	case <-time.After(30 * time.Second):
		r.t.Fatalf("did not end\n%s", r.errs)
	}
}

// sluice runs one command in this process.
func sluice(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	p := &process{ctx: context.WithoutCancel(t.Context()), in: strings.NewReader(stdin), out: &out, errs: &errs,
		now: time.Now, user: "tester"}
	code = run(p, args)
	return code, out.String(), errs.String()
}

// dataDir is a data directory with a database that has the schema and nothing else.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	testenv.SQLiteFrom(t, filepath.Join(dir, "sluice.db"), func(path string) error {
		if code, _, errs := sluice(t, "", "migrate", "up", "--data-dir="+filepath.Dir(path)); code != exitDone {
			return fmt.Errorf("migrate exits %d: %s", code, errs)
		}
		return nil
	})
	return dir
}

func serveArgs(dir string) []string {
	return []string{"serve", "--listen=127.0.0.1:0", "--data-dir=" + dir}
}

func TestServe_EndsCleanlyOnSIGTERMAndKeepsItsCounters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for i, want := range []int{exitDone, exitNo} {
		r := launch(t, nil, serveArgs(dir)...)
		if code, _, errs := sluice(t, "", "healthcheck", "--server="+r.url); code != exitDone {
			t.Errorf("healthcheck exits %d: %s", code, errs)
		}
		code, out, errs := sluice(t, "", "check", "--server="+r.url, "--key=k", "--limit=1", "--window=24h")
		if code != want {
			t.Errorf("run %d: check exits %d, want %d: %s%s", i, code, want, out, errs)
		}
		r.terminate()
	}
}

// With JSON logs, programs read both outputs: standard error has one object a line, and standard output has nothing.
func TestServe_JSONLogsAreAllThatItWrites(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], serveArgs(dataDir(t))...)
	cmd.Env = append(os.Environ(), asSluice+"=1", "SLUICE_LOG_FORMAT=json")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := map[any]bool{}
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		var v map[string]any
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Errorf("log line %q: %v", lines.Text(), err)
		}
		said[v["msg"]] = true
		if v["msg"] == "the console has no account" { // the last line of the start
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if out.Len() > 0 || !said["listening"] || !said["the console has no account"] {
		t.Errorf("standard output: %q; messages: %v", out.String(), said)
	}
}

func TestRules_WarnOfWhatLooksWrong(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	const file = "rules:\n- {name: a, scope: user, method: GET, limit: 1, window_ms: 1000}\n- {name: b, scope: user, " +
		"method: PSOT, limit: 1, window_ms: 1000}\n- {name: c, scope: user, algorithm: sliding_window_log, limit: 10001, " +
		"window_ms: 1000}\n- {name: d, scope: user, algorithm: gcra, limit: 5001, window_ms: 1000, burst: 5}\n"
	const want = "warning: -: rules[1].method: PSOT is not a registered HTTP method"
	for _, args := range [][]string{{"validate"}, {"validate", "--json"}, {"plan", "--server=" + r.url},
		{"apply", "--server=" + r.url}} {
		code, out, errs := sluice(t, file, append(append([]string{"rules"}, args...), "-f", "-")...)
		if code != exitDone || strings.Count(errs, "warning") != 3 || !strings.HasPrefix(errs, want) ||
			!strings.Contains(errs, "warning: -: rules[2].limit: sliding_window_log may store") ||
			!strings.Contains(errs, "warning: -: rules[3].burst: The rate of 5,001 per second cannot be reached") ||
			strings.Contains(out, "warning") {
			t.Errorf("%v: exits %d: %s%s", args, code, out, errs)
		}
	}
}

func TestDemo_MakesTrafficAndLeavesNothingBehind(t *testing.T) {
	tmp := t.TempDir()
	r := launch(t, []string{"TMPDIR=" + tmp}, "demo", "--listen=127.0.0.1:0")
	tokens, err := filepath.Glob(filepath.Join(tmp, "*", "data", "local-token"))
	if err != nil || len(tokens) != 1 {
		t.Fatalf("local tokens %q, %v", tokens, err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		code, out, errs := sluice(t, "", "check", "--server="+r.url, "--data-dir="+filepath.Dir(tokens[0]),
			"--user=user-1", "--method=POST", "--route=/v1/charges", "--explain", "--json")
		if code == exitError {
			t.Fatalf("explain: %s", errs)
		}
		var e client.Explanation
		if err := json.Unmarshal([]byte(out), &e); err != nil {
			t.Fatal(err)
		}
		if e.ActiveRules != 6 {
			t.Fatalf("%d sample rules, want 6", e.ActiveRules)
		}
		if l := e.Decision.Limits; len(l) > 0 && l[0].Remaining != nil && *l[0].Remaining < *l[0].Limit {
			break // somebody else has spent from the bucket
		}
		if time.Now().After(deadline) {
			t.Fatal("no synthetic traffic")
		}
	}
	r.terminate()
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestRules_ValidatePlanApplyExport(t *testing.T) {
	dir := t.TempDir()
	r := launch(t, nil, serveArgs(dataDir(t))...)
	file := filepath.Join(dir, "rules.yaml")
	text := "rules:\n  - name: charges-per-user\n    owner: payments\n    scope: user\n    limit: 1\n    window_ms: " +
		"86400000\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		stdin string
		args  []string
		code  int
		want  string
	}{
		{args: []string{"rules", "validate", "-f", file}, want: "is valid; rules: 1"},
		{args: []string{"rules", "validate", "-f", file, "--fail-defaults=GET=closed"},
			want: "charges-per-user: fail_mode open (no entry of SLUICE_FAIL_DEFAULTS matches)"},
		{args: []string{"rules", "plan", "--server=" + r.url, "-f", file}, want: "+ charges-per-user"},
		{args: []string{"rules", "apply", "--server=" + r.url, "-f", file, "--reason=the sale begins"}, want: "1 to create"},
		{args: []string{"rules", "plan", "--server=" + r.url, "-f", file, "--json"}, want: `"unchanged":[{`},
		{args: []string{"rules", "export", "--server=" + r.url}, want: text},
		{args: []string{"rules", "export", "--server=" + r.url, "--owner=payments"}, want: text},
		{args: []string{"rules", "export", "--server=" + r.url, "--owner=search"}, want: "rules: []\n"},
		{args: []string{"check", "--server=" + r.url, "--user=u"}, want: "allowed"},
		{args: []string{"check", "--server=" + r.url, "--user=u"}, code: exitNo, want: "denied (429)"},
		{args: []string{"check", "--server=" + r.url, "--user=u", "--explain"}, code: exitNo, want: "* charges-per-user"},
		{args: []string{"check", "--server=" + r.url, "--user=v", "--weight=2"}, code: exitNo, want: "waiting does not help"},
		{args: []string{"check", "--server=" + r.url, "--user=v", "--weight=2"}, code: exitNo, want: "never"},
		{stdin: "rules: []", args: []string{"rules", "apply", "--server=" + r.url, "-f", "-", "--prune"},
			want: "1 to delete"},
		{args: []string{"check", "--server=" + r.url, "--user=u"}, want: "no rule applies"},
	}
	for _, s := range steps {
		code, out, errs := sluice(t, s.stdin, s.args...)
		if code != s.code || !strings.Contains(out, s.want) {
			t.Errorf("%q exits %d, want %d\n%s%s", s.args, code, s.code, out, errs)
		}
	}
	if past, err := clientOf(t, r.url).Do(t.Context(), "GET", "/ratelimit/rules/1/history", "", nil); err != nil ||
		!strings.Contains(string(past), `"reason":"the sale begins"`) {
		t.Errorf("the reason is lost: %s, %v", past, err)
	}
	if code, _, errs := sluice(t, "rules: []", "rules", "apply", "--server="+r.url, "-f", "-",
		"--reason=two\nlines"); code == exitDone || !strings.Contains(errs, "--reason") {
		t.Errorf("a reason of two lines exits %d: %s", code, errs)
	}
	r.terminate()
}

func TestCheck_AsAGatewayWithAProfile(t *testing.T) {
	r := launch(t, nil, serveArgs(dataDir(t))...)
	defer r.terminate()
	const file = `
rules: [{name: users, scope: user, route: "/users/{id}", limit: 1, window_ms: 86400000}]
profiles:
  - name: shop
    facts: {user: [{header: X-User}, {cookie: uid}], attributes: {tenant: [{header: X-Tenant}]}}
    routes: ["/users/{id}"]
    missing: {user: deny}
    weight: {header: X-Weight}
`
	if code, out, errs := sluice(t, file, "rules", "apply", "--server="+r.url, "-f", "-"); code != exitDone ||
		!strings.Contains(out, "+ profile shop: facts: 2, routes: 1") {
		t.Fatalf("exits %d\n%s%s", code, out, errs)
	}
	if code, out, _ := sluice(t, "", "rules", "export", "--server="+r.url); code != exitDone ||
		!strings.Contains(out, "profiles:\n  - name: shop\n") {
		t.Errorf("the export: %d\n%s", code, out)
	}
	steps := []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--header=x-user: 42", "GET", "/users/17?a=b"}, exitDone, "allowed"},
		{[]string{"--header=Cookie: uid=42", "/users//18"}, exitNo, "denied (429)"},
		{[]string{"--explain", "--header=X-User: 43", "--header=X-Forwarded-For: 203.0.113.7", "--header=X-Tenant: a,b",
			"--header=Host: Shop.example", "GET", "/users/17"}, exitDone, "profile shop, version 1, reads\n" +
			"  method       GET\n  route        /users/{id}\n  host         shop.example\n" +
			"  ip           203.0.113.7\n  user         43\n" +
			"  attr:host    shop.example\n  attr:tenant  a,b\n  weight       1\n\nwould be allowed"},
		{[]string{"OPTIONS", "/users/17"}, exitDone, "allowed: the profile skips the method OPTIONS"},
		{[]string{"GET", "/users/17"}, exitNo, "denied (403): the profile denies requests without the fact user"},
		{[]string{"--json", "GET", "/users/17"}, exitNo, `{"allowed":false,"status":403}`},
		{[]string{"--json", "--header=X-User: 44", "GET", "/users/17"}, exitDone, `"rule":"users"`},
	}
	for _, s := range steps {
		args := append([]string{"check", "--server=" + r.url, "--profile=shop"}, s.args...)
		code, out, errs := sluice(t, "", args...)
		if code != s.code || !strings.Contains(out, s.want) {
			t.Errorf("%q exits %d, want %d\n%s%s", s.args, code, s.code, out, errs)
		}
	}
	for want, args := range map[string][]string{
		"404":                    {"--profile=gone", "GET", "/"},
		"--profile reads":        {"--profile=shop", "--user=u", "GET", "/"},
		"--profile requires":     {"--profile=shop"},
		"--header must be":       {"--profile=shop", "--header=X-User", "GET", "/"},
		"require --profile":      {"GET", "/users/17"},
		"X-Weight must be a who": {"--profile=shop", "--header=X-User: 1", "--header=X-Weight: many", "GET", "/users/1"},
	} {
		code, out, errs := sluice(t, "", append([]string{"check", "--server=" + r.url}, args...)...)
		if code != exitError || !strings.Contains(errs, want) {
			t.Errorf("%q exits %d\n%s%s", args, code, out, errs)
		}
	}
}

func TestRulesValidate_NamesEveryBadField(t *testing.T) {
	bad := "rules:\n  - name: Bad Name\n    scope: nobody\n    limit: -1\n    window_ms: 1000\n"
	code, _, errs := sluice(t, bad, "rules", "validate", "-f", "-")
	if code != exitNo {
		t.Errorf("exits %d, want %d", code, exitNo)
	}
	for _, field := range []string{"rules[0].name", "rules[0].scope", "rules[0].limit"} {
		if !strings.Contains(errs, field) {
			t.Errorf("%s is not named in\n%s", field, errs)
		}
	}
}

// A file cut at the bound could be valid, and mean something else.
func TestRulesValidate_RefusesAFileAboveTheBoundWhole(t *testing.T) {
	long := "rules: []\n" + strings.Repeat(" ", rulefile.MaxFile)
	code, _, errs := sluice(t, long, "rules", "validate", "-f", "-")
	if code != exitNo || !strings.Contains(errs, "64 MiB") {
		t.Errorf("exits %d\n%s", code, errs)
	}
}

func TestToken_CreateListRotateRevokeWhileServing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := launch(t, nil, serveArgs(dir)...)
	code, secret, errs := sluice(t, "", "token", "create", "gateway", "--data-dir="+dir, "--scopes=check")
	if code != exitDone || !strings.HasPrefix(secret, "slk_") || strings.Count(secret, "\n") != 1 {
		t.Fatalf("exits %d with %q\n%s", code, secret, errs)
	}
	if !strings.Contains(errs, "set SLUICE_TOKEN.") {
		t.Errorf("the message does not say where the secret goes:\n%s", errs)
	}
	_, _, errs = sluice(t, "", "token", "create", "regions", "--data-dir="+dir, "--scopes=regions")
	if !strings.Contains(errs, "set SLUICE_REGION_TOKEN.") {
		t.Errorf("the message does not say where the secret of a region goes:\n%s", errs)
	}
	if code, _, errs := sluice(t, "", "token", "create", "gateway", "--data-dir="+dir); code != exitError {
		t.Errorf("a second live token of one name: exits %d %s", code, errs)
	}
	_, out, _ := sluice(t, "", "token", "list", "--data-dir="+dir, "--json")
	if !strings.Contains(out, `"created_by": "tester"`) || strings.Contains(out, strings.TrimSpace(secret)) {
		t.Errorf("list:\n%s", out)
	}
	code, next, errs := sluice(t, "", "token", "rotate", "gateway", "--data-dir="+dir, "--overlap=1h")
	if code != exitDone || !strings.HasPrefix(next, "slk_") || next == secret ||
		!strings.Contains(errs, "The new token has the id 3. The old one, with the id 1, is valid until 20") {
		t.Errorf("rotate exits %d with %q\n%s", code, next, errs)
	}
	if code, _, errs := sluice(t, "", "token", "rotate", "gateway", "--data-dir="+dir, "--overlap=0s"); code == exitDone ||
		!strings.Contains(errs, "--overlap must be between") {
		t.Errorf("no overlap: exits %d: %s", code, errs)
	}
	if _, out, _ := sluice(t, "", "token", "list", "--data-dir="+dir); strings.Count(out, "rotated") != 1 ||
		!strings.Contains(out, "LAST USED") {
		t.Errorf("after the rotation:\n%s", out)
	}
	if code, out, _ := sluice(t, "", "token", "revoke", "gateway", "--data-dir="+dir); code != exitDone ||
		!strings.Contains(out, "(id 3) was revoked") || !strings.Contains(out, "sluice token revoke 1\n") {
		t.Errorf("revoke exits %d: %s", code, out)
	}
	if code, _, errs := sluice(t, "", "token", "revoke", "gateway", "--data-dir="+dir); code != exitError ||
		!strings.Contains(errs, "not found") {
		t.Errorf("revoking twice exits %d: %s", code, errs)
	}
	r.terminate()
}

func TestMigrate_StatusAndUp(t *testing.T) {
	dir := "--data-dir=" + filepath.Join(t.TempDir(), "data")
	if _, out, _ := sluice(t, "", "migrate", "status", dir); !strings.Contains(out, "pending") {
		t.Errorf("status of an empty database:\n%s", out)
	}
	if code, out, errs := sluice(t, "", "migrate", "up", dir); code != exitDone || strings.Contains(out, "pending") {
		t.Errorf("up exits %d:\n%s%s", code, out, errs)
	}
	if _, out, _ := sluice(t, "", "migrate", "status", dir); strings.Contains(out, "pending") {
		t.Errorf("status after up:\n%s", out)
	}
}

func TestBadUsage_SaysWhatIsWrong(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"fly"}, "fly"},
		{[]string{"serve", "--store-timeout=soon"}, "--store-timeout"},
		{[]string{"serve", "--reset-header=iso"}, "SLUICE_RESET_HEADER"},
		{[]string{"serve", "--max-keys=1"}, "SLUICE_MAX_KEYS"},
		{[]string{"check", "--key=k"}, "--limit"},
		{[]string{"check", "--key=k", "--limit=1", "--window=1m", "--user=u"}, "--user"},
		{[]string{"check", "--key=k", "--limit=1", "--window=1us"}, "--window"},
		{[]string{"check", "--limit=1"}, "--key"},
		{[]string{"check", "--key=k", "--limit=1", "--window=1m", "--explain"}, "--explain"},
		{[]string{"check", "--server=localhost", "--user=u"}, "SLUICE_SERVER"},
		{[]string{"check", "--server=http://127.0.0.1:1", "--user=u"}, "sluice serve"},
		{[]string{"rules", "apply", "-f", "/nowhere/at/all"}, "--file"},
		{[]string{"rules", "plan"}, "--file"},
		{[]string{"token", "create", "t", "--scopes=fly", "--data-dir=" + t.TempDir()}, "--scopes"},
		{[]string{"token", "create", "t", "--expires=-1h", "--data-dir=" + t.TempDir()}, "--expires"},
		{[]string{"migrate", "up", "--database-url=mysql://x"}, "DATABASE_URL"},
	}
	for _, tt := range tests {
		code, _, errs := sluice(t, "", tt.args...)
		if code != exitError || !strings.Contains(errs, tt.want) {
			t.Errorf("%q exits %d with %q; want 2, naming %s", tt.args, code, errs, tt.want)
		}
	}
}

// Settings that cannot be read at all stand beside those whose value is refused.
func TestServe_NamesEveryBadSettingAtOnce(t *testing.T) {
	t.Setenv("SLUICE_STORE_TIMEOUT", "soon")
	t.Setenv("SLUICE_MAX_KEYS", "many")
	t.Setenv("SLUICE_DENY_CACHE", "maybe")
	code, _, errs := sluice(t, "", "serve", "--data-dir="+t.TempDir(), "--reset-header=iso")
	for _, want := range []string{"SLUICE_STORE_TIMEOUT", "SLUICE_MAX_KEYS", "SLUICE_DENY_CACHE", "SLUICE_RESET_HEADER"} {
		if code != exitError || strings.Count(errs, want) != 1 {
			t.Errorf("exits %d, names %s %d times:\n%s", code, want, strings.Count(errs, want), errs)
		}
	}
}

func TestFlags_NamesEveryBadOneAtOnce(t *testing.T) {
	t.Setenv("SLUICE_STATS_DAYS", "many")
	for _, tt := range []struct{ args, want []string }{
		{
			[]string{"serve", "--decision-log-max-bytes=much", "--store-timeout", "soon", "--max-keys=many",
				"--decision-log-max-bytes=more"},
			[]string{"--decision-log-max-bytes: must be a number of bytes", "--store-timeout", "--max-keys: must be auto",
				"SLUICE_STATS_DAYS"},
		},
		{[]string{"check", "--key=k", "--limit=a", "--window=b"}, []string{"--limit", "--window"}},
		{[]string{"check", "--key=k", "--limit=a", "--nope"}, []string{"--limit", "--nope"}},
	} {
		code, _, errs := sluice(t, "", tt.args...)
		for _, want := range tt.want {
			if code != exitError || strings.Count(errs, want) != 1 {
				t.Errorf("%q exits %d, names %s %d times:\n%s", tt.args, code, want, strings.Count(errs, want), errs)
			}
		}
		if strings.Contains(errs, "missing flags") {
			t.Errorf("%q: %s", tt.args, errs)
		}
	}
}

func TestHelp_ShowsDefaultsAndEnvironment(t *testing.T) {
	code, out, _ := sluice(t, "", "serve", "--help")
	text := strings.Join(strings.Fields(out), " ")
	if code != exitDone || !strings.Contains(text, "default 25ms, $SLUICE_STORE_TIMEOUT") {
		t.Errorf("exits %d:\n%s", code, out)
	}
	if code, out, _ := sluice(t, ""); code != exitDone || !strings.Contains(out, "serve") {
		t.Errorf("no arguments: exits %d:\n%s", code, out)
	}
}

func TestVersion_SaysWhichBuild(t *testing.T) {
	code, out, _ := sluice(t, "", "version", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(out), &v); err != nil || code != exitDone || v["go"] == "" {
		t.Errorf("exits %d: %s", code, out)
	}
}

// clientOf is a client of a server that is running, with its local token.
func clientOf(t *testing.T, url string) *client.Client {
	t.Helper()
	secret, err := localtoken.Read(os.Getenv("SLUICE_DATA_DIR"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(url, client.Options{CallTimeout: callTimeout, Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}
