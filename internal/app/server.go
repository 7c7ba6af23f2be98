package app

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api"
	"sluice/api/gateway"
	"sluice/api/plain"
	"sluice/internal/traces"
)

// Limits of the HTTP server, which protect it against slow and oversized clients.
const (
	readHeaderTimeout = 2 * time.Second // from the first byte; see firstByteListener
	readTimeout       = 5 * time.Second
	writeTimeout      = 5 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	// fileTimeout replaces the read and write timeouts of imports and exports.
	fileTimeout = 30 * time.Second
)

// httpServer is the HTTP server with its listener.
type httpServer struct {
	server    *http.Server
	listener  *firstByteListener
	tls       *tls.Config   // nil: no TLS
	plain     *plain.Server // nil: net/http answers plain checks too
	loops     bool          // plain checks of many connections are read in a loop
	readiness *readiness
	delay     time.Duration
	timeout   time.Duration
	log       *slog.Logger
	now       func() time.Time
	lost      func() time.Duration // of starvation.Meter; nil: not measured
	done      chan struct{}
}

// listen opens the address and serves h until close. fatal is called with an error
// of the listener.
func listen(ctx context.Context, addr string, h http.Handler, d httpServer, fatal func(error)) (*httpServer, net.Addr,
	error) {
	tcp, err := listenTCP(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	if d.listener, err = newFirstByteListener(tcp, idleTimeout, d.tls, d.plain, d.loops, d.log); err != nil {
		return nil, nil, errors.Join(err, tcp.Close())
	}
	d.server = &http.Server{
		Handler:           d.wrap(h),
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         followState,
		ConnContext:       withConn,
		ErrorLog:          slog.NewLogLogger(d.log.Handler(), slog.LevelWarn),
	}
	d.done = make(chan struct{})
	go func() {
		defer close(d.done)
		if err := d.server.Serve(d.listener); !errors.Is(err, http.ErrServerClosed) {
			fatal(err)
		}
	}()
	return &d, tcp.Addr(), nil
}

func listenTCP(ctx context.Context, addr string) (*net.TCPListener, error) {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false) // its sockets do not support refuseNew
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(errors.New("not a TCP address"), l.Close())
	}
	return tcp, nil
}

// wrap tells clients to close their connection after a response while the node
// drains, so that their next request goes to another node. It also sets the longer
// timeouts of imports and exports, and records that the connection is in use: its Read
// misses a request that arrived together with the previous one.
func (d *httpServer) wrap(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*trackedConn); ok {
			c.setActive()
			r.TLS = c.secure // as net/http does if it performs the handshake itself
		}
		// An import or export may contain every rule, or every override of a rule.
		if path, ok := strings.CutPrefix(r.URL.Path, "/ratelimit/rules/"); ok &&
			(strings.HasSuffix(path, "import") || strings.HasSuffix(path, "export")) {
			until, c := d.now().Add(fileTimeout), http.NewResponseController(w)
			// If a deadline cannot be set, the usual timeouts apply.
			_, _ = c.SetReadDeadline(until), c.SetWriteDeadline(until)
		}
		if d.readiness.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		h.ServeHTTP(w, r)
	})
}

// close drains the server. The node is unready at once and keeps serving for the delay. Then it accepts no new
// connections and lets the requests that have arrived finish, for at most the timeout. Shutdown of net/http drops
// requests that it reads after it began, so it is called when no connection remains.
func (d *httpServer) close(context.Context) error {
	d.readiness.drain()
	d.log.Info("draining", "delay", d.delay.String(), "timeout", d.timeout.String())
	d.listener.lost.begin(d.lost)
	sleep(d.delay)
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

// index is the page at / if there is no console.
const index = `sluice, a rate-limit service

POST /ratelimit/check          check one request
POST /ratelimit/check/batch    check up to 1,000 requests
     /ratelimit/rules          list, create, update and delete rules
POST /ratelimit/explain        which rules apply to a request, and why
GET  /docs, /openapi.yaml      API reference
GET  /problems/{name}          what a problem type means, and what to do
GET  /metrics                  Prometheus metrics
GET  /livez, /readyz           health checks
`

// newHandler returns the handler of every request: the faces for gateways, and behind them a router
// for the API and the console. It also returns the API, which answers plain checks without the handler.
func newHandler(d api.Deps, c *console, asked func(face, result string), used func(profile string),
	spans *traces.Traces) (http.Handler, *api.Server, error) {
	server, err := api.New(d)
	if err != nil {
		return nil, nil, err
	}
	e := echo.New()
	server.Routes(e)
	c.mount(e)
	traceRoutes(e, spans)
	h, err := gateway.New(gateway.Deps{
		Checker: d.Checker, Access: d.Access, Certificates: d.Certificates, Refused: d.Refused, Now: d.Now,
		ResetDelta: d.ResetDelta, Asked: asked, Used: used, Panicked: d.Panicked, Logger: d.Logger, Next: e,
	})
	return spans.Handler(h, gateway.Route), server, err
}
