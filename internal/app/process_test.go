package app

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/localtoken"
	"sluice/internal/testenv"
)

// The service as operators meet it: the program itself, in processes of its own.
func TestProcess(t *testing.T) {
	t.Parallel()
	bin := testenv.Sluice(t)
	for name, promise := range map[string]func(*testing.T, string){
		"a rolling restart fails no request":                   rollingRestart,
		"a rolling restart fails no gRPC call":                 rollingCalls,
		"a stream of fresh connections loses no request":       freshConnections,
		"a killed node takes only what was in flight with it":  killedNode,
		"alerts outlive the node that evaluates them":          killedEvaluator,
		"statements are exact although nodes are killed":       killedStatements,
		"without descriptors it goes on for those it serves":   noDescriptors,
		"with few descriptors it serves all in turn":           fewDescriptors,
		"a flood of keys stays within its memory":              floodOfKeys,
		"large batches at once stay within their memory":       largeBatches,
		"slow, huge and broken off requests end on their time": slowClients,
		"a node that lacks CPU says so":                        starvedNode,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			promise(t, bin)
		})
	}
}

// child is one sluice serve in a process of its own.
type child struct {
	t      *testing.T
	url    string
	log    *buffer
	client *http.Client
	token  string // the local token, "" if there is none
	proc   *os.Process
	done   chan struct{}
	err    error // how it ended; read after done

	ready  atomic.Bool // as the balancer saw it last
	killed atomic.Bool
}

var address = regexp.MustCompile(`msg=listening event=listening address=(\S+)`)

// spawn starts the program with settings NAME=value, and as a shell would after
// the given limits, if any. It returns when requests are accepted.
func spawn(t *testing.T, bin, limits string, env ...string) *child {
	t.Helper()
	name, args := bin, []string{"serve"}
	if limits != "" {
		name, args = "/bin/sh", []string{"-c", limits + ` && exec "$0" serve`, bin}
	}
	cmd := exec.CommandContext(context.Background(), name, args...) // ended by signal below
	c := &child{t: t, log: &buffer{}, done: make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: idleClient},
			Timeout: 20 * time.Second}}
	dir := filepath.Join(t.TempDir(), "data")
	cmd.Env = append(os.Environ(), "SLUICE_LISTEN=127.0.0.1:0", "SLUICE_LOG_FORMAT=text", "SLUICE_DATA_DIR="+dir)
	for _, setting := range env {
		if other, ok := strings.CutPrefix(setting, "SLUICE_DATA_DIR="); ok {
			dir = other
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = c.log, c.log
	cmd.SysProcAttr = orphanless()
	started := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that started it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(c.done)
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	c.proc = cmd.Process
	t.Cleanup(func() {
		c.client.CloseIdleConnections()
		c.kill()
		if t.Failed() {
			t.Logf("the process wrote:\n%s", c.log)
		}
	})
	eventually(t, "the process listens", func() bool {
		select {
		case <-c.done:
			t.Fatalf("it ended: %v\n%s", c.err, c.log)
		default:
		}
		m := address.FindStringSubmatch(c.log.String())
		if m != nil {
			c.url = "http://" + strings.Trim(m[1], `"`)
		}
		return m != nil
	})
	if secret, err := localtoken.Read(dir); err == nil {
		c.token = secret // no other exists yet
	}
	c.ready.Store(true)
	return c
}

func (c *child) signal(s syscall.Signal) { _ = c.proc.Signal(s) }

// kill ends the process at once.
func (c *child) kill() {
	c.killed.Store(true)
	c.signal(syscall.SIGKILL)
	<-c.done
}

// end asks the process to end, as an operator does, and returns how it did.
func (c *child) end() error {
	c.signal(syscall.SIGTERM)
	<-c.done
	return c.err
}

// ask makes one request and returns its status and body.
func (c *child) ask(method, path, body string) (int, string, error) {
	var header []string
	if c.token != "" {
		header = []string{"Authorization", "Bearer " + c.token}
	}
	return requestOnce(c.t.Context(), c.client, method, c.url+path, body, header...)
}

// check asks for one decision and returns the answer, which must be one.
func (c *child) check(body string) string {
	c.t.Helper()
	status, doc, err := c.ask("POST", "/ratelimit/check", body)
	if err != nil || status != http.StatusOK {
		c.t.Errorf("check answered %d %s %v", status, doc, err)
	}
	return doc
}

// metric reads one series, 0 if it is not served.
func (c *child) metric(series string) float64 {
	c.t.Helper()
	_, doc, err := c.ask("GET", "/metrics", "")
	if err != nil {
		c.t.Error(err)
	}
	var v float64
	for line := range strings.Lines(doc) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			if _, err := fmt.Sscan(rest, &v); err != nil {
				c.t.Error(err)
			}
		}
	}
	return v
}

// logged waits for a line of the log.
func (c *child) logged(what string) {
	c.t.Helper()
	eventually(c.t, "the log says "+what, func() bool { return strings.Contains(c.log.String(), what) })
}

var errNotSent = errors.New("not sent: the connection was refused")
