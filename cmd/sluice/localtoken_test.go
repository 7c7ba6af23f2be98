package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/internal/access"
	"sluice/internal/config"
	"sluice/internal/localtoken"
)

func TestCommands_UseTheLocalTokenOfTheSameUser(t *testing.T) {
	dir := dataDir(t)
	r := launch(t, nil, serveArgs(dir)...)
	t.Setenv("SLUICE_TOKEN", "")
	export := func(args ...string) int {
		t.Helper()
		code, _, _ := sluice(t, "", append([]string{"rules", "export", "--server=" + r.url}, args...)...)
		return code
	}
	file := localtoken.Path(dir)
	if code := export("--data-dir=" + dir); code != exitDone {
		t.Errorf("with the local token: exit %d", code)
	}
	for name, args := range map[string][]string{
		"another directory": {"--data-dir=" + t.TempDir()}, "a token": {"--data-dir=" + dir, "--token=slk_other"},
	} {
		if code := export(args...); code != exitError {
			t.Errorf("with %s: exit %d, want %d", name, code, exitError)
		}
	}
	link := t.TempDir()
	if err := os.Symlink(file, localtoken.Path(link)); err != nil {
		t.Fatal(err)
	}
	if code := export("--data-dir=" + link); code != exitError {
		t.Errorf("with a link to the file: exit %d", code)
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if code := export("--data-dir=" + dir); code != exitError {
		t.Errorf("with a file that the group may read: exit %d", code)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	r.terminate()
	if !localtoken.Missing(dir) {
		t.Error("the server left its file")
	}
}

func TestLocalSecret_IsForLoopbackAddressesOnly(t *testing.T) {
	dir := t.TempDir()
	secret, _ := access.NewSecret()
	if err := localtoken.Write(dir, secret); err != nil {
		t.Fatal(err)
	}
	got := func(server string, change func(*config.Client)) string {
		c := &config.Client{Remote: config.Remote{Server: server}, DataDir: dir}
		change(c)
		return localSecret(t.Context(), c, slog.New(slog.DiscardHandler))
	}
	for server, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "https://127.9.8.7": true, "http://[::1]:8080": true,
		"http://[::ffff:127.0.0.1]:1": true, "http://localhost:8080": true,
		"http://localhost.:8080": false, "http://LOCALHOST": false, "http://192.0.2.1:8080": false,
		"http://0.0.0.0:8080": false, "http://sluice.example": false, "http://127.0.0.1.sluice.example": false,
		"http://127.0.0.1@192.0.2.1": false, "http://[::1%25lo]:8080": false, "http://localhost@192.0.2.1/127.0.0.1": false,
		"127.0.0.1:8080": false, "": false,
	} {
		if sent := got(server, func(*config.Client) {}) == secret; sent != want {
			t.Errorf("%q gets the secret: %v, want %v", server, sent, want)
		}
	}
	for name, change := range map[string]func(*config.Client){
		"a token":       func(c *config.Client) { c.Token.Value = "slk_x" },
		"a token file":  func(c *config.Client) { c.Token.File = "x" },
		"a certificate": func(c *config.Client) { c.ClientCertFile = "x" },
		"no directory":  func(c *config.Client) { c.DataDir = "" },
	} {
		if got("http://127.0.0.1:8080", change) != "" {
			t.Errorf("with %s, the local token is used", name)
		}
	}
}

// The local token reaches neither another server by a redirect, nor a proxy of the environment.
func TestLocalSecret_FollowsNoRedirectAndNoProxy(t *testing.T) {
	var leaked atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { leaked.Add(1) }))
	defer other.Close()
	var asked atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer s.Close()
	dir := filepath.Join(t.TempDir(), "data")
	secret, _ := access.NewSecret()
	if err := localtoken.Write(dir, secret); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"127.0.0.1", "localhost"} {
		server := strings.Replace(s.URL, "127.0.0.1", host, 1)
		// A process of its own, because net/http reads the proxy once.
		cmd := exec.CommandContext(context.Background(), os.Args[0], "rules", "export", "--server="+server, "--data-dir="+dir)
		cmd.Env = append(os.Environ(), asSluice+"=1", "SLUICE_TOKEN=", "HTTP_PROXY="+other.URL, "http_proxy="+other.URL,
			"NO_PROXY=", "no_proxy=")
		if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), secret) {
			t.Errorf("%s: a redirect was followed, or the secret is shown: %s", host, out)
		}
		if asked.Swap("") != "Bearer "+secret {
			t.Errorf("%s: the server did not get the local token", host)
		}
	}
	if leaked.Load() != 0 {
		t.Errorf("%d requests reached the other server", leaked.Load())
	}
}
