package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
)

func TestCommands_CheckTheServersCertificate(t *testing.T) {
	authority := testenv.NewAuthority(t)
	dir := t.TempDir()
	cert, key := authority.Issue(t, dir, "server.test", time.Now().Add(time.Hour))
	r := launch(t, nil, append(serveArgs(dataDir(t)), "--tls-cert-file="+cert, "--tls-key-file="+key)...)
	for _, command := range [][]string{
		{"healthcheck"}, {"check", "--key=k", "--limit=9", "--window=1h"}, {"rules", "export"},
	} {
		args := slices.Concat(command, []string{"--server=" + r.url})
		if code, out, errs := sluice(t, "", append(slices.Clone(args), "--ca="+authority.File)...); code != exitDone {
			t.Errorf("%v exits %d: %s%s", command, code, out, errs)
		}
		if code, _, errs := sluice(t, "", args...); code == exitDone || !strings.Contains(errs, "set --ca (SLUICE_CA_FILE)") {
			t.Errorf("%v trusts an unknown authority: %d %s", command, code, errs)
		}
	}
	for _, file := range []string{dir + "/missing", key} {
		if code, _, errs := sluice(t, "", "healthcheck", "--server="+r.url, "--ca="+file); code != exitError ||
			!strings.Contains(errs, "SLUICE_CA_FILE") {
			t.Errorf("--ca %s: exit code %d, %s", file, code, errs)
		}
	}
	r.terminate()
}

// A command with a client certificate needs no token.
func TestCommands_PresentTheClientCertificate(t *testing.T) {
	authority := testenv.NewAuthority(t)
	dir := t.TempDir()
	cert, key := authority.Issue(t, dir, "server.test", time.Now().Add(time.Hour))
	ops, opsKey := authority.Issue(t, dir, "ops.test", time.Now().Add(time.Hour))
	r := launch(t, nil, append(serveArgs(dataDir(t)), "--tls-cert-file="+cert, "--tls-key-file="+key,
		"--tls-client-ca-file="+authority.File, "--tls-client-scopes=ops.test=rules:read")...)
	export := []string{"rules", "export", "--server=" + r.url, "--ca=" + authority.File}
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--client-cert=" + ops, "--client-key=" + opsKey}, exitDone, ""},
		{nil, exitError, "status 401"},
		{[]string{"--client-cert=" + cert, "--client-key=" + key}, exitError, "status 401"},
		{[]string{"--client-cert=" + ops}, exitError, "SLUICE_CLIENT_KEY_FILE"},
		{[]string{"--client-key=" + opsKey}, exitError, "SLUICE_CLIENT_CERT_FILE"},
		{[]string{"--client-cert=" + ops, "--client-key=" + key}, exitError, "SLUICE_CLIENT_CERT_FILE"},
		{[]string{"--client-cert=" + dir + "/missing", "--client-key=" + key}, exitError, "SLUICE_CLIENT_CERT_FILE"},
	} {
		if code, _, errs := sluice(t, "", slices.Concat(export, tt.args)...); code != tt.code ||
			!strings.Contains(errs, tt.want) {
			t.Errorf("%v: exit %d, %s; want %d, %s", tt.args, code, errs, tt.code, tt.want)
		}
	}
	r.terminate()
}

func TestCommands_SayWhatToDoAboutAnError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			t.Error("no token was given")
		}
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"title":"Missing or invalid credentials","status":401,"detail":"Send a token."}`))
	}))
	t.Setenv("SLUICE_TOKEN", "")
	const refused = "sluice: the server responded with status 401: Missing or invalid credentials: Send a token.\n" +
		"  set SLUICE_TOKEN to a token, or SLUICE_TOKEN_FILE to its file; create one with sluice token create\n"
	if code, out, errs := sluice(t, "", "check", "--server="+s.URL, "--user=u"); code != exitError || errs != refused {
		t.Errorf("without a token: exit %d\n%s%s", code, out, errs)
	}
	s.Close()
	const start = "connect: connection refused\nstart a server with sluice serve, or set --server (SLUICE_SERVER) to " +
		"the URL of a running server\n"
	code, out, errs := sluice(t, "", "check", "--server="+s.URL, "--user=u")
	if code != exitError || !strings.HasPrefix(errs, `sluice: Post "`+s.URL+`/ratelimit/check": dial tcp`) ||
		!strings.HasSuffix(errs, start) {
		t.Errorf("without a server: exit %d\n%s%s", code, out, errs)
	}
	code, out, errs = sluice(t, "", "healthcheck", "--server="+s.URL)
	if code != exitNo || !strings.HasPrefix(errs, "not ready: ") || !strings.HasSuffix(errs, start) {
		t.Errorf("healthcheck without a server: exit %d\n%s%s", code, out, errs)
	}
}

func TestCommands_ReadTheTokenFromAFile(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer slk_in_a_file" {
			t.Errorf("Authorization: %q", got)
		}
		_, _ = w.Write([]byte("rules: []\n"))
	}))
	defer s.Close()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("slk_in_a_file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SLUICE_TOKEN", "")
	t.Setenv("SLUICE_TOKEN_FILE", file)
	if code, _, errs := sluice(t, "", "rules", "export", "--server="+s.URL); code != exitDone {
		t.Errorf("exit %d: %s", code, errs)
	}
	code, _, errs := sluice(t, "", "rules", "export", "--server="+s.URL, "--token=slk_hunter2")
	if code != exitError || !strings.Contains(errs, "--token (SLUICE_TOKEN)") ||
		!strings.Contains(errs, "--token-file (SLUICE_TOKEN_FILE)") || strings.Contains(errs, "hunter2") {
		t.Errorf("with both: exit %d, %s", code, errs)
	}
	code, _, errs = sluice(t, "", "rules", "export", "--server="+s.URL, "--token-file="+file+".missing")
	if code != exitError || !strings.Contains(errs, "--token-file (SLUICE_TOKEN_FILE)") ||
		!strings.Contains(errs, file+".missing does not exist") {
		t.Errorf("without the file: exit %d, %s", code, errs)
	}
}
