package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/playbook"
)

// program is what a stranger would write, in a module of its own.
const program = `package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/api/client/httplimit/echolimit"
)

func main() {
	c, err := client.New(os.Args[1], client.Options{Timeout: 20 * time.Second, FailMode: client.FailClosed})
	if err != nil {
		panic(err)
	}
	defer c.Close()
	a, err := c.Check(context.Background(), client.Check{Key: "program", Limit: &client.Limit{Count: 5, WindowMS: 60_000}})
	if err != nil {
		panic(err)
	}
	fmt.Println("check", a.Allowed, *a.Remaining)

	limit, err := httplimit.New(c, httplimit.Options{})
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(w http.ResponseWriter, r *http.Request) {})
	get("net/http", limit.Handler(mux))

	e := echo.New()
	middleware, err := echolimit.New(c, httplimit.Options{})
	if err != nil {
		panic(err)
	}
	e.Use(middleware)
	e.GET("/users/:id", func(c echo.Context) error { return c.NoContent(200) })
	get("echo", e)
}

func get(name string, h http.Handler) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/users/1", nil))
	fmt.Println(name, w.Code, w.Header().Get("X-RateLimit-Remaining"), w.Header().Get("X-RateLimit-Mode"))
}
`

func TestModule_ProgramOfAnotherModuleUsesThePackages(t *testing.T) {
	w := playbook.Serve(t)
	if err := w.PutInForce([]byte(`rules:
  - {name: users, scope: ip, route: "/users/{id}", limit: 5, window_ms: 60000, algorithm: fixed_window}
`)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum")) //nolint:gosec // the repository's own
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"main.go": program, "go.sum": string(sums),
		"go.mod": "module stranger\n\ngo 1.26.0\n\nrequire sluice v0.0.0\n\nreplace sluice => " + root + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	goTool := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", args...) //nolint:gosec // the test's own arguments
		cmd.Dir = dir
		// Nothing is fetched: every module is one that this repository needs too.
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "CGO_ENABLED=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	goTool("build", "-o", "program", ".")
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "program"), w.URL()) //nolint:gosec // just built
	out, err := run.CombinedOutput()
	if want := "check true 4\nnet/http 200 4 \necho 200 3 \n"; err != nil || string(out) != want {
		t.Errorf("the program wrote %q, %v; want %q", out, err, want)
	}
	for pkg, forbidden := range map[string][]string{
		"sluice/api/client":                     {"github.com", "gorm.io", "golang.org/x"},
		"sluice/api/client/httplimit":           {"gorm.io", "github.com/redis", "github.com/labstack"},
		"sluice/api/client/httplimit/echolimit": {"gorm.io", "github.com/redis"},
	} {
		for dep := range strings.Lines(goTool("list", "-deps", pkg)) {
			for _, f := range forbidden {
				if strings.HasPrefix(dep, f+"/") {
					t.Errorf("%s brings %s", pkg, dep)
				}
			}
		}
	}
}
