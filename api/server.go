package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"

	"sluice"
	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/internal/history/incident"
	"sluice/rules"
)

// Server is the HTTP API: it decodes requests, calls the Checker or the rules database,
// and encodes the results. It is safe for concurrent use and starts no goroutine. The
// http.Server sets the timeouts of connections.
type Server struct {
	deps  Deps
	gate  access.Gate
	style reply.HeaderStyle
	log   *slog.Logger
	// importing is locked while a large file is imported, so that only one at a time
	// uses memory.
	importing sync.Mutex
	// places has one element for each large batch that is under way.
	places chan struct{}
	// buffers contains *buffers, batchBuffers contains *batchBuffers, and checks contains *checks.
	buffers, batchBuffers, checks sync.Pool
}

// New returns a Server. It fails only if a required dependency is missing.
func New(d Deps) (*Server, error) {
	if d.Checker == nil || d.Rules == nil || d.Writer == nil || d.History == nil || d.Access == nil || d.Now == nil {
		return nil, errors.New("api: Checker, Rules, Writer, History, Access and Now are required")
	}
	if d.Panicked == nil {
		d.Panicked = func() {}
	}
	if d.Checked == nil {
		d.Checked = func() {}
	}
	if d.LargeRefused == nil {
		d.LargeRefused = func() {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Changed == nil {
		d.Changed = func(context.Context) bool { return true }
	}
	if d.Stats == nil {
		d.Stats = history.Unknown{}
	}
	if d.Incidents == nil {
		d.Incidents = incident.Unknown{}
	}
	if d.Ready == nil {
		d.Ready = func() error { return nil }
	}
	gate := access.Gate{Tokens: d.Access, OpenMode: d.OpenMode, Certificates: d.Certificates, Now: d.Now,
		Refused: d.Refused}
	s := &Server{deps: d, gate: gate, style: reply.HeaderStyle{ResetDelta: d.ResetDelta}, log: d.Logger}
	s.places = make(chan struct{}, runtime.GOMAXPROCS(0))
	s.buffers.New = func() any { return newBuffers(s.style) }
	s.checks.New = func() any { return &checks{enc: encoder{style: s.style}} }
	s.batchBuffers.New = func() any { return &batchBuffers{enc: encoder{style: s.style}} }
	return s, nil
}

// wrap adds to a handler what every route needs: recovery from panics, security
// headers, authorisation and problem documents.
func (s *Server) wrap(r Route) echo.HandlerFunc {
	public := r.Scope == "" || r.Path == "/metrics" && s.deps.MetricsPublic
	want := r.Scopes()
	open := access.OpenCall(r.Method + " " + r.Path)
	isCheck := r.Path == checkPath
	decides := r.Method == http.MethodPost && (r.Scope == access.ScopeCheck || r.Scope == access.ScopeCounters)
	return func(c echo.Context) (err error) {
		if isCheck {
			s.deps.Checked()
		}
		defer func() {
			if v := recover(); v != nil {
				s.writeProblem(c, s.recovered(c.Path(), v))
				err = nil
			}
		}()
		secure(c.Response().Header())
		if !public {
			if err := s.authorize(c, &r, open, want); err != nil {
				s.writeProblem(c, err)
				return nil
			}
		}
		if decides {
			if err := patient(c); err != nil {
				s.writeProblem(c, err)
				return nil
			}
		}
		if err := r.handle(s, c); err != nil {
			s.writeProblem(c, err)
		}
		return nil
	}
}

// patient gives the context of a request the time that its caller waits, if it says so.
func patient(c echo.Context) error {
	r := c.Request()
	d, err := reply.TimeoutIn(r.Header)
	if d > 0 {
		c.SetRequest(r.WithContext(decide.WithPatience(r.Context(), d)))
	}
	return err
}

// Keys of the echo context: the actor of a write, and the token for handlers that check
// its scopes.
const (
	actorKey = "sluice.actor"
	tokenKey = "sluice.token"
)

// headerReason is the header with the reason of a change of rules.
const headerReason = "Sluice-Reason"

// authorize returns an error unless the request may use a route that requires one of the
// scopes; open is access.OpenCall of the route. It stores the actor for writes in the context.
func (s *Server) authorize(c echo.Context, r *Route, open bool, want []access.Scope) error {
	req := c.Request()
	call := callOf(req)
	call.Endpoint = r.Endpoint()
	call.Open = open
	token, err := s.gate.Admit(call, want...)
	if err != nil {
		return err
	}
	if r.Scope == access.ScopeRulesWrite || r.Scope == access.ScopeAdmin {
		by := rules.Actor{Kind: "token", Name: token.Name, Reason: req.Header.Get(headerReason)}
		switch {
		case token.Certificate:
			by.Kind = "certificate"
		case token.Local:
			by.Kind = "system"
		}
		c.Set(actorKey, by)
	}
	if r.Path == refundPath {
		c.Set(tokenKey, token)
	}
	return nil
}

// callOf describes the sender of a request.
func callOf(req *http.Request) access.Call {
	call := access.Call{Authorization: req.Header["Authorization"], Host: req.Host}
	if req.TLS != nil {
		call.Chains = req.TLS.VerifiedChains
	}
	if len(call.Authorization) == 0 {
		call.Forwarded = slices.ContainsFunc(access.ForwardingHeaders(),
			func(name string) bool { return len(req.Header[name]) > 0 })
		// crossOrigin allows GET, but here a GET may release deferred requests.
		switch req.Header.Get("Sec-Fetch-Site") {
		case "", "none", "same-origin":
			call.OtherSite = crossOrigin.Check(req) != nil
		default:
			call.OtherSite = true
		}
	}
	return call
}

// requireScope returns an error if the token lacks a scope whose need is known only from
// the body.
func (s *Server) requireScope(c echo.Context, endpoint string, want access.Scope) error {
	if token, _ := c.Get(tokenKey).(access.Token); !token.Permits(want) {
		return s.gate.Refuse(endpoint, access.Lacks(token, want))
	}
	return nil
}

// crossOrigin rejects requests that a browser sends on behalf of another site.
var crossOrigin = http.NewCrossOriginProtection()

// actor returns the actor of a change, as stored by authorize.
func actor(c echo.Context) rules.Actor {
	a, _ := c.Get(actorKey).(rules.Actor)
	return a
}

// recovered returns the problem document of a request whose handler panicked.
func (s *Server) recovered(route string, v any) *reply.Problem {
	if v == http.ErrAbortHandler { //nolint:errorlint // the value that net/http documents
		panic(v)
	}
	return s.panicked(route, v, debug.Stack())
}

// panicked returns the problem document of a request at which the program has a bug.
func (s *Server) panicked(route string, v any, stack []byte) *reply.Problem {
	s.deps.Panicked()
	s.log.Error("panic in a request", "route", route, "panic", fmt.Sprint(v), "stack", string(stack))
	return reply.Internal.Problem("The error was logged. Try again.")
}

// fail responds to requests without a handler: unknown paths and methods.
func (s *Server) fail(err error, c echo.Context) { s.writeProblem(c, err) }

// ipExtractor takes the address of a client from the connection or, behind trusted
// proxies only, from the right-most untrusted address of X-Forwarded-For.
func ipExtractor(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	opts := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, p := range trusted {
		p = p.Masked()
		opts = append(opts, echo.TrustIPRange(&net.IPNet{
			IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(opts...)
}

// writeJSON sends v as JSON, for handlers that need not be fast.
func writeJSON(c echo.Context, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return write(c, status, jsonType, buf.Bytes())
}

// smallBody is smaller than the buffer of net/http, which then sets the length of such a
// body itself, at less cost than a header set here.
const smallBody = 2000

// write sends a body.
func write(c echo.Context, status int, mediaType []string, body []byte) error {
	h := c.Response().Header()
	h["Content-Type"] = mediaType
	head := c.Request().Method == http.MethodHead
	if head || len(body) > smallBody {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Response().WriteHeader(status)
	if !head {
		_, _ = c.Response().Write(body) // fails only if the client closed the connection
	}
	return nil
}

func (s *Server) openapi(c echo.Context) error {
	return write(c, http.StatusOK, []string{"application/yaml"}, sluice.OpenAPI)
}

func (s *Server) metrics(c echo.Context) error {
	s.deps.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}

// changed waits until a committed change is in force on this node. If it is not, the
// request still succeeds and the header Sluice-In-Force says so.
func (s *Server) changed(c echo.Context) {
	if !s.deps.Changed(c.Request().Context()) {
		c.Response().Header().Set("Sluice-In-Force", "false")
	}
}
