package app

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api"
)

// Limits of the HTTP server, against slow and oversized clients.
const (
	readHeaderTimeout = 2 * time.Second // from the first byte; see patient
	readTimeout       = 5 * time.Second
	writeTimeout      = 5 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	// fileTimeout replaces the read and write timeouts where a body may hold
	// every rule.
	fileTimeout = 30 * time.Second
)

// isFile reports whether a path is one whose bodies may hold every rule, or
// every override of one.
func isFile(path string) bool {
	rest, ok := strings.CutPrefix(path, "/ratelimit/rules/")
	return ok && (strings.HasSuffix(rest, "import") || strings.HasSuffix(rest, "export"))
}

// frontDoor is the HTTP server with its listener.
type frontDoor struct {
	server    *http.Server
	listener  *patient
	readiness *readiness
	delay     time.Duration
	timeout   time.Duration
	log       *slog.Logger
	now       func() time.Time
	done      chan struct{}
}

// listen opens the address and serves h until close. fatal hears an error of the
// listener.
func listen(ctx context.Context, addr string, h http.Handler, d frontDoor, fatal func(error)) (*frontDoor, net.Addr, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // its sockets take no filter, see refuseNew
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, nil, errors.Join(errors.New("not a TCP address"), l.Close())
	}
	d.listener = newPatient(tcp, idleTimeout, d.log)
	d.server = &http.Server{
		Handler:           d.around(h),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         followState,
		ConnContext:       withGuest,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	d.done = make(chan struct{})
	go func() {
		defer close(d.done)
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			fatal(err)
		}
	}()
	return &d, l.Addr(), nil
}

// around asks clients to leave, once the node drains, after the request they are
// making: the next one then finds another node. And it gives files their time.
func (d *frontDoor) around(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		speaks(r.Context())
		if isFile(r.URL.Path) {
			until, c := d.now().Add(fileTimeout), http.NewResponseController(w)
			// Where a deadline cannot be set the usual ones hold.
			_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until)
		}
		if d.readiness.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// close drains: unready at once, still serving for the delay, then no new
// connections while requests that have arrived finish, for at most the timeout.
// net/http's own Shutdown drops what it reads after it began, so it comes when no
// connection is left.
func (d *frontDoor) close(context.Context) error {
	d.readiness.drain()
	d.log.Info("draining", "delay", d.delay.String(), "timeout", d.timeout.String())
	if d.delay > 0 {
		wait := time.NewTimer(d.delay)
		defer wait.Stop()
		<-wait.C
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.timeout)
	defer cancel()
	err := d.listener.drain(ctx)
	if err == nil {
		err = d.server.Shutdown(ctx)
	}
	if err != nil {
		d.log.Warn("the drain timeout passed; closing connections with requests in flight")
		err = d.server.Close()
	}
	<-d.done
	return err
}

// index is what / answers where there is no console to send people to.
const index = `sluice, a rate-limit service

POST /ratelimit/check          check one request
POST /ratelimit/check/batch    check up to 1,000 requests
     /ratelimit/rules          list, create, update and delete rules
POST /ratelimit/explain        which rules apply to a request, and why
GET  /openapi.yaml             API reference
GET  /metrics                  Prometheus metrics
GET  /livez, /readyz           health checks
`

// newHandler puts the decision surface and the console on one router.
func newHandler(d api.Deps, c *console) (http.Handler, error) {
	server, err := api.New(d)
	if err != nil {
		return nil, err
	}
	e := echo.New()
	server.Routes(e)
	c.mount(e)
	return e, nil
}
