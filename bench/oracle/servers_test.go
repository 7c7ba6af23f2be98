//go:build !race

package oracle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/service_cmd/runner"
	"github.com/envoyproxy/ratelimit/src/settings"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"sluice/internal/testenv"
)

// asPeer lets the test binary run the peer's server, with the settings of its environment.
const asPeer = "ORACLE_AS_PEER"

func TestMain(m *testing.M) {
	if os.Getenv(asPeer) != "" {
		r := runner.NewRunner(settings.NewSettings())
		r.Run()
		return
	}
	code := testenv.Wrap(m).Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// folder has the program that product builds, until the end of all tests.
var folder string

// product builds Sluice once.
var product = sync.OnceValues(func() (bin string, err error) {
	if folder, err = os.MkdirTemp("", "sluice-oracle"); err != nil {
		return "", err
	}
	bin = filepath.Join(folder, "sluice")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-o", bin, "./cmd/sluice")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

// A rater is a server that answers Envoy, with the configuration of a test.
type rater struct {
	rls.RateLimitServiceClient
	http string // its HTTP address
}

// startPeer runs the peer on a Redis of its own.
func startPeer(t *testing.T, config string) *rater {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "oracle", "config")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for i, document := range strings.Split(config, "---\n") {
		if strings.TrimSpace(document) == "" {
			continue
		}
		file := filepath.Join(dir, string(rune('a'+i))+".yaml")
		if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addrs := [3]string{testenv.FreeAddr(t), testenv.FreeAddr(t), testenv.FreeAddr(t)}
	env := []string{asPeer + "=1", "DISABLE_STATS=true", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp",
		"REDIS_URL=" + testenv.Redis(t).Addr, "RUNTIME_ROOT=" + filepath.Dir(filepath.Dir(dir)),
		"RUNTIME_SUBDIRECTORY=oracle", "RUNTIME_WATCH_ROOT=false"}
	for i, of := range []string{"", "GRPC_", "DEBUG_"} {
		host, port, err := net.SplitHostPort(addrs[i])
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, of+"HOST="+host, of+"PORT="+port)
	}
	testenv.Start(t, &testenv.Program{Path: self, Env: env, Addr: addrs[1]})
	return &rater{dial(t, addrs[1]), addrs[0]}
}

// startOurs runs a node on a Redis of its own, with the configuration imported by its command.
func startOurs(t *testing.T, config string) *rater {
	t.Helper()
	bin, err := product()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	web, addr := testenv.FreeAddr(t), testenv.FreeAddr(t)
	// The timeout is long, because the machine of a test may be slow: no fail mode must decide.
	testenv.Start(t, &testenv.Program{Path: bin, Args: []string{"serve"}, Addr: web, Env: []string{"SLUICE_LISTEN=" + web,
		"SLUICE_GRPC_LISTEN=" + addr, "REDIS_URL=" + testenv.Redis(t).URL(), "SLUICE_DATA_DIR=" + filepath.Join(dir, "data"),
		"SLUICE_STORE_TIMEOUT=5s"}})
	cmd := exec.CommandContext(t.Context(), bin, "rules", "import-envoy", file, "--server", "http://"+web,
		"--data-dir", filepath.Join(dir, "data"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	return &rater{dial(t, addr), web}
}

func dial(t *testing.T, addr string) rls.RateLimitServiceClient {
	t.Helper()
	c, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return rls.NewRateLimitServiceClient(c)
}

// ask makes one call.
func (l *rater) ask(t *testing.T, q *rls.RateLimitRequest) *rls.RateLimitResponse {
	t.Helper()
	a, err := l.call(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// askBoth makes the same call on two servers at once.
func askBoth(t *testing.T, one, other *rater, q *rls.RateLimitRequest) (a, b *rls.RateLimitResponse) {
	t.Helper()
	var err, otherErr error
	done := make(chan struct{})
	go func() {
		defer close(done)
		a, err = one.call(t.Context(), q)
	}()
	b, otherErr = other.call(t.Context(), q)
	<-done
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	return a, b
}

func (l *rater) call(ctx context.Context, q *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	a, err := l.ShouldRateLimit(ctx, q)
	if err == nil && len(a.Statuses) != len(q.Descriptors) {
		err = fmt.Errorf("%d statuses for %d descriptors", len(a.Statuses), len(q.Descriptors))
	}
	if err != nil {
		return nil, fmt.Errorf("%v: %w", q, err)
	}
	return a, nil
}

// post sends a JSON document and returns status and body.
func post(ctx context.Context, url, body string) (status int, answer string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(res.Body)
	return res.StatusCode, string(b), errors.Join(err, res.Body.Close())
}
