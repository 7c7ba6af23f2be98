package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/testenv"
)

// luaNginx runs nginx with docs/callers/nginx.conf and caller.lua in front of upstream. change are pairs of texts of
// the file and what replaces them.
func luaNginx(t *testing.T, upstream string, env []string, change ...string) (url string, run *testenv.Running) {
	t.Helper()
	dir := t.TempDir()
	library, err := filepath.Abs("testdata/lua")
	if err != nil {
		t.Fatal(err)
	}
	own := "http {\naccess_log off;\nlua_package_path \"" + library + "/?.lua;;\";\n"
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		own += kind + "_temp_path " + filepath.Join(dir, kind) + ";\n"
	}
	addr := testenv.FreeAddr(t)
	change = append(change, "http {\n", own, "127.0.0.1:8000", addr, "http://127.0.0.1:3000", upstream)
	for _, name := range []string{"nginx.conf", "caller.lua"} {
		text, err := os.ReadFile(filepath.Join(callers, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "nginx.conf" {
			text = []byte(strings.NewReplacer(change...).Replace(string(text)))
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run = testenv.Start(t, &testenv.Program{Path: testenv.Binary(t, "nginx", "nginx-light", "/usr/sbin/nginx"), Env: env,
		Addr: addr, Args: []string{"-p", dir, "-c", filepath.Join(dir, "nginx.conf"), "-e", "stderr", "-g",
			"daemon off; master_process off; pid " + filepath.Join(dir, "pid") + ";"}})
	return "http://" + addr, run
}

// caller.lua passes and denies in nginx as Sluice says, sends a token only if there is one, and passes what it does
// not answer.
func TestCallers_LuaDecidesInNginx(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "served")
	}))
	defer upstream.Close()
	node, token := ruledNode(t)
	defer node.terminate()
	bare := launch(t, nil, serveArgs(dataDir(t))...)
	defer bare.terminate()
	broken, credential := faulty(t)
	type want struct {
		status    int
		remaining string
	}
	passed, wrong := []want{{200, ""}}, []want{{500, ""}}
	for _, tt := range []struct {
		is, server, token, timeout string
		want                       []want
		sent, logged               string
		change                     []string
	}{
		{is: "a token", server: node.url, token: token, timeout: "20", want: []want{{200, "1"}, {200, "0"}, {429, "0"}}},
		{is: "a wrong token", server: node.url, token: "wrong", timeout: "20", want: wrong, logged: "the question is wrong"},
		{is: "no token", server: node.url, timeout: "20", want: wrong, logged: "the question is wrong"},
		{is: "a node without tokens or rules", server: bare.url, timeout: "20", want: passed},
		{is: "a failing server", server: broken, token: "lua", timeout: "20", want: passed, sent: "[Bearer lua]",
			logged: "Sluice did not answer: status 503"},
		{is: "a failing server, no token", server: broken, timeout: "20", want: passed, sent: "[]",
			logged: "Sluice did not answer: status 503"},
		{is: "a server that does not answer", server: broken + "/hung", timeout: "0.1", want: passed,
			logged: "Sluice did not answer: timeout"},
		{is: "no server", server: "http://" + testenv.FreeAddr(t), timeout: "20", want: passed,
			logged: "Sluice did not answer: connection refused"},
		{is: "no env lines", server: node.url, token: token, timeout: "20", want: passed,
			logged: "SLUICE_SERVER is not set", change: []string{"env ", "# env "}},
	} {
		t.Run(tt.is, func(t *testing.T) {
			env := []string{"SLUICE_SERVER=" + tt.server, "SLUICE_TOKEN=" + tt.token, "TIMEOUT=" + tt.timeout}
			gate, run := luaNginx(t, upstream.URL, env, tt.change...)
			for i, want := range tt.want {
				res, err := http.Get(gate + "/gate") //nolint:noctx // the test ends with its deadline
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != want.status || res.Header.Get("X-RateLimit-Remaining") != want.remaining {
					t.Errorf("request %d: %v, %v %s, %v", i, err, res.Status, body, res.Header)
				}
				problem := res.Header.Get("Content-Type") == "application/problem+json" && json.Valid(body) &&
					res.Header.Get("Retry-After") != ""
				if served := string(body) == "served"; served != (want.status == 200) || problem != (want.status == 429) {
					t.Errorf("request %d: served %v, a problem %v: %s", i, served, problem, body)
				}
			}
			if tt.sent != "" && credential.Load() != tt.sent {
				t.Errorf("sent %v, want %s", credential.Load(), tt.sent)
			}
			if log := run.Log(); !strings.Contains(log, tt.logged) || (tt.logged == "" && strings.Contains(log, "[error]")) {
				t.Errorf("wrote %q, want %q", log, tt.logged)
			}
		})
	}
}
