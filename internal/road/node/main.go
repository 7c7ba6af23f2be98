// Command node is the node that `make road` looks at: `sluice serve` as it is by
// default, on the Redis of REDIS_URL, and one client in the same process.
//
// It must be built with -cover -covermode=atomic. It creates one rule, sends checks
// until they are decided as they always are, and then takes samples, one folder of
// counters each in the folder that it is given:
//
//	clear the counters   send a check   send another one   write the counters
//
// Both checks travel on one connection, one after the other: the answer to the second
// one says that the handler of the first one has returned. What starts the node, loads
// the script, and opens connections comes before the first sample and is in none.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/app"
	"sluice/internal/config"
)

const (
	// warmUp checks come before the first sample: they fill pools and caches.
	warmUp = 200
	// samples is how many are taken. A function that is not in all of them belongs to
	// a goroutine that ran at the same time.
	samples = 25

	rule = `{"name":"one","scope":"user","limit":1000000,"window_ms":60000}`
	// check is under that rule and no other.
	check = `{"method":"POST","route":"/v1/charges","user":"42"}`
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: node FOLDER")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	var cfg config.Serve
	parser, err := kong.New(&cfg, kong.Name("node"), config.SecretFlags())
	if err != nil {
		return err
	}
	if _, err := parser.Parse([]string{"--listen=127.0.0.1:0",
		"--data-dir=" + filepath.Join(folder, "data")}); err != nil {
		return err
	}
	if cfg.RedisURL.Value == "" {
		return errors.New("REDIS_URL is not set")
	}
	ctx, stop := context.WithCancel(ctx)
	listening, done := make(chan net.Addr, 1), make(chan error, 1)
	go func() {
		done <- app.Run(ctx, cfg, app.Host{
			Out: io.Discard, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
			Now: time.Now, Listening: func(a net.Addr) { listening <- a },
		})
	}()
	select {
	case addr := <-listening:
		err = measure(ctx, addr.String(), folder)
		stop()
		return errors.Join(err, <-done)
	case err := <-done:
		stop()
		return err
	}
}

func dial(ctx context.Context, addr, token string) (*client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, answers: bufio.NewReader(conn), token: token}, nil
}

func measure(ctx context.Context, addr, folder string) error {
	token, err := os.ReadFile(filepath.Join(folder, "data", "local-token"))
	if err != nil {
		return err
	}
	admin, err := dial(ctx, addr, strings.TrimSpace(string(token)))
	if err != nil {
		return err
	}
	defer admin.conn.Close()
	if _, err := admin.post("/ratelimit/rules", rule, http.StatusCreated); err != nil {
		return err
	}
	c, err := dial(ctx, addr, admin.token) // the other connection stays with net/http
	if err != nil {
		return err
	}
	defer c.conn.Close()
	for range warmUp {
		if err := c.check(); err != nil {
			return err
		}
	}
	for i := range samples {
		if err := errors.Join(coverage.ClearCounters(), c.check(), c.check()); err != nil {
			return err
		}
		dir := filepath.Join(folder, "sample-"+strconv.Itoa(i))
		if err := errors.Join(os.Mkdir(dir, 0o700), coverage.WriteMetaDir(dir), coverage.WriteCountersDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

// client is one connection. It uses no package of this module.
type client struct {
	conn    net.Conn
	answers *bufio.Reader
	token   string
}

func (c *client) check() error {
	body, err := c.post("/ratelimit/check", check, http.StatusOK)
	if err == nil && !strings.Contains(body, `"rule":"one"`) {
		err = fmt.Errorf("the check is not under the rule: %s", body)
	}
	return err
}

func (c *client) post(path, body string, want int) (string, error) {
	_, err := fmt.Fprintf(c.conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, c.token, len(body), body)
	if err != nil {
		return "", err
	}
	r, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != want {
		err = fmt.Errorf("%s: %s %s", path, r.Status, text)
	}
	return string(text), err
}
