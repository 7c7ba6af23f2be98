package client_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// writeBlocks writes the blocks of Go in docs/client.md and docs/middleware.md into a package, each into a function
// that has what it refers to, and returns the package's path.
func writeBlocks(t *testing.T, root, dir string) string {
	t.Helper()
	var blocks [][]string
	for _, name := range []string{"client.md", "middleware.md"} {
		page, err := os.ReadFile(filepath.Join(root, "docs", name)) //nolint:gosec // the repository's own
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
		if len(found) < 4 {
			t.Fatalf("docs/%s has %d blocks of Go", name, len(found))
		}
		blocks = append(blocks, found...)
	}
	file := `package docs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/client"
	"sluice/api/client/httplimit"
	"sluice/api/client/httplimit/echolimit"
	"sluice/rules/profile"
)

var _ = []any{profile.Profile{}}

var _ = []any{fmt.Print, os.Getenv, time.Second, tls.Config{}, x509.NewCertPool, httplimit.New, echolimit.New}

func sessionOf(*http.Request) struct{ User string } { return struct{ User string }{} }
`
	assigned := regexp.MustCompile(`(?m)^(\w+), err :=`)
	for i, b := range blocks {
		file += fmt.Sprintf("\nfunc block%d(ctx context.Context, c *client.Client, url, token string, ca []byte, "+
			"degraded *atomic.Int64, mux *http.ServeMux, user http.HandlerFunc, e *echo.Echo) error {\n{\n%s", i, b[1])
		for _, name := range assigned.FindAllStringSubmatch(b[1], -1) {
			if !strings.Contains(b[1], "return http.ListenAndServe") {
				file += "_, _ = " + name[1] + ", err\n"
			}
		}
		file += "}\nreturn nil\n}\n"
	}
	if err := os.Mkdir(filepath.Join(dir, "docs"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "docs", "docs.go"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return "./docs"
}

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
	goTool("build", writeBlocks(t, root, dir))
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
