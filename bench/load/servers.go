package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/process"
)

// kind is a program that can be measured.
type kind string

const (
	sluice     kind = "sluice"
	rival      kind = "rival"
	ratelimit  kind = "ratelimit"
	gubernator kind = "gubernator"
)

// builds lists the folder of the module and the package of each program. All run with the GOGC of
// the flag -gogc.
var builds = map[kind]struct{ dir, pkg string }{
	sluice:     {"..", "./cmd/sluice"},
	rival:      {".", "./rival"},
	ratelimit:  {".", "github.com/envoyproxy/ratelimit/src/service_cmd"},
	gubernator: {"gubernator", "."},
}

// programs are the built programs. One that cannot be built here is omitted, and the report says
// so.
type programs struct {
	path    map[kind]string
	missing map[kind]error
}

func buildAll(ctx context.Context, dir string, want []kind) (programs, error) {
	p := programs{path: map[kind]string{}, missing: map[kind]error{}}
	for _, k := range want {
		out := filepath.Join(dir, string(k)+".bin")
		fmt.Fprintf(os.Stderr, "building %s\n", k)
		cmd := exec.CommandContext(ctx, "go", "build", "-o", out, builds[k].pkg)
		cmd.Dir, cmd.Env = builds[k].dir, append(os.Environ(), "CGO_ENABLED=0")
		if b, err := cmd.CombinedOutput(); err != nil {
			err = fmt.Errorf("go build %s: %w\n%s", builds[k].pkg, err, b)
			if k == sluice || k == rival {
				return p, err
			}
			fmt.Fprintln(os.Stderr, "left out:", err)
			p.missing[k] = err
			continue
		}
		p.path[k] = out
	}
	return p, nil
}

// server is a started program.
type server struct {
	*process.Process
	process.Target
	grpc string // where it serves gRPC, in scenarios over gRPC
}

// startServer starts the program of a scenario on free ports. redis is the
// address of its Redis, "" for none.
func startServer(ctx context.Context, bin string, sc scenario, dir, redis, gogc string) (server, error) {
	addrs, err := process.FreeAddrs(ctx, 4)
	if err != nil {
		return server{}, err
	}
	addr := addrs[0]
	log := filepath.Join(dir, fmt.Sprintf("%s-%d.log", sc.kind, time.Now().UnixNano()))
	var env []string
	if gogc != "" {
		env = append(env, "GOGC="+gogc)
	}
	var args []string
	ready, to := "/readyz", process.Target{Addr: addr, Secure: sc.tls}
	switch sc.kind {
	case sluice:
		args = []string{"serve"}
		env = append(env, "SLUICE_LISTEN="+addr, "SLUICE_DATA_DIR="+log+".data", "SLUICE_METRICS_PUBLIC=true")
		if sc.token {
			if to.Token, err = createToken(ctx, bin, log+".data"); err != nil {
				return server{}, err
			}
		} else {
			to.DataDir = log + ".data"
		}
		if sc.tls {
			cert, key, err := certificate(dir)
			if err != nil {
				return server{}, err
			}
			env = append(env, "SLUICE_TLS_CERT_FILE="+cert, "SLUICE_TLS_KEY_FILE="+key)
		}
		if redis != "" {
			env = append(env, "REDIS_URL=redis://"+redis)
		}
		if sc.grpc != nil {
			env = append(env, "SLUICE_GRPC_LISTEN="+addrs[1])
		}
		env = append(env, sc.env...)
	case rival:
		args = []string{"-listen", addr, "-redis", redis, "-kind", sc.rival}
		if sc.grpc != nil {
			args = append(args, "-grpc", addrs[1])
		}
	case ratelimit:
		env, ready = append(env, ratelimitEnv(addrs, dir, redis)...), "/healthcheck"
		if err := ratelimitConfig(dir); err != nil {
			return server{}, err
		}
	case gubernator:
		args, ready = []string{addr, addrs[1]}, "/v1/HealthCheck"
	}
	p, err := process.Start(ctx, log, env, bin, args...)
	if err != nil {
		return server{}, err
	}
	if err := process.Until(ctx, p, func() error {
		return to.Expect(ctx, http.MethodGet, ready, "", http.StatusOK)
	}); err != nil {
		b, _ := os.ReadFile(log)
		return server{}, fmt.Errorf("%s did not become ready: %w\n%s", sc.kind, err, b)
	}
	return server{p, to, addrs[1]}, nil
}

const ratelimitRules = `domain: bench
descriptors:
  - key: user
    rate_limit: {unit: minute, requests_per_unit: 1000000}
`

func ratelimitConfig(dir string) error {
	folder := filepath.Join(dir, "runtime", "bench", "config")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "bench.yaml"), []byte(ratelimitRules), 0o600)
}

func ratelimitEnv(addrs []string, dir, redis string) []string {
	env := []string{
		"DISABLE_STATS=true", "LOG_LEVEL=error", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + redis,
		"RUNTIME_ROOT=" + filepath.Join(dir, "runtime"), "RUNTIME_SUBDIRECTORY=bench", "RUNTIME_WATCH_ROOT=false",
	}
	for i, name := range []string{"", "GRPC_", "DEBUG_"} {
		host, port, _ := net.SplitHostPort(addrs[i]) // made by freeAddrs
		env = append(env, name+"HOST="+host, name+"PORT="+port)
	}
	return env
}

// startKafka builds and starts the broker of the folder kafka.
func startKafka(ctx context.Context, dir string, args ...string) (*process.Process, string, error) {
	bin := filepath.Join(dir, "kafka.bin")
	if _, err := os.Stat(bin); err != nil {
		if out, err := exec.CommandContext(ctx, "go", "build", "-o", bin, "./kafka").CombinedOutput(); err != nil {
			return nil, "", fmt.Errorf("go build ./kafka: %w\n%s", err, out)
		}
	}
	addrs, err := process.FreeAddrs(ctx, 1)
	if err != nil {
		return nil, "", err
	}
	p, err := runKafka(ctx, bin, addrs[0], args...)
	return p, addrs[0], err
}

// runKafka starts a broker that is built, and waits until it accepts connections.
func runKafka(ctx context.Context, bin, addr string, args ...string) (*process.Process, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	p, err := process.Start(ctx, bin+".log", nil, bin, append([]string{"-ports", port}, args...)...)
	if err != nil {
		return nil, err
	}
	return p, process.UntilAccepts(ctx, p, addr)
}

// needsRedis reports whether the program of a scenario needs Redis.
func (sc *scenario) needsRedis() bool {
	switch sc.kind {
	case ratelimit:
		return true
	case rival:
		return !strings.HasPrefix(sc.rival, "constant") && sc.rival != "go-limiter"
	}
	return sc.redis
}
