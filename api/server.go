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
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/labstack/echo/v4"

	"sluice"
	"sluice/api/reply"
	"sluice/internal/access"
)

// Server is the HTTP face: it decodes requests, asks the Checker or the rule
// database, and encodes what they say. It is safe for concurrent use and owns
// no goroutine; time limits on connections are the http.Server's.
type Server struct {
	deps  Deps
	gate  access.Gate
	style reply.HeaderStyle
	log   *slog.Logger
	// importing is held while a large file is imported, so that only one at a time
	// takes its memory.
	importing sync.Mutex
}

// New makes a Server. It fails only if something required is missing.
func New(d Deps) (*Server, error) {
	if d.Checker == nil || d.Rules == nil || d.Writer == nil || d.History == nil || d.Access == nil || d.Now == nil {
		return nil, errors.New("api: Checker, Rules, Writer, History, Access and Now are required")
	}
	if d.Panicked == nil {
		d.Panicked = func() {}
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.Changed == nil {
		d.Changed = func(context.Context) bool { return true }
	}
	if d.Ready == nil {
		d.Ready = func() error { return nil }
	}
	gate := access.Gate{Tokens: d.Access, OpenMode: d.OpenMode, Now: d.Now}
	return &Server{deps: d, gate: gate, style: reply.HeaderStyle{ResetDelta: d.ResetDelta}, log: d.Logger}, nil
}

// wrap puts around a handler what every route needs: containment of panics,
// the security headers, authorisation and problem answers.
func (s *Server) wrap(r Route) echo.HandlerFunc {
	public := r.Scope == "" || r.Path == "/metrics" && s.deps.MetricsPublic
	want := r.Scopes()
	return func(c echo.Context) (err error) {
		defer func() {
			if v := recover(); v != nil {
				s.contain(c, v)
				err = nil
			}
		}()
		secure(c.Response().Header())
		if !public {
			if err := s.authorize(c, &r, want); err != nil {
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

// contain ends one request whose handler panicked.
func (s *Server) contain(c echo.Context, v any) {
	if v == http.ErrAbortHandler { //nolint:errorlint // the very value that net/http documents
		panic(v)
	}
	s.deps.Panicked()
	s.log.Error("panic in a request", "route", c.Path(), "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	s.writeProblem(c, reply.Internal.Problem("The error was logged. Try again."))
}

// fail answers what never reached a handler: unknown paths and methods.
func (s *Server) fail(err error, c echo.Context) { s.writeProblem(c, err) }

// ipExtractor takes a client's address from the connection, or, behind trusted
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

// writeJSON answers with v on the paths where speed does not matter.
func writeJSON(c echo.Context, status int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	return write(c, status, jsonType, buf.Bytes())
}

// smallBody is less than net/http buffers before it sends anything, so that it
// finds the length of such a body by itself, at less cost than a header of ours.
const smallBody = 2000

// write answers with a finished body.
func write(c echo.Context, status int, mediaType []string, body []byte) error {
	h := c.Response().Header()
	h["Content-Type"] = mediaType
	head := c.Request().Method == http.MethodHead
	if head || len(body) > smallBody {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	c.Response().WriteHeader(status)
	if !head {
		_, _ = c.Response().Write(body) // the client may have gone; nobody is left to tell
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

// changed waits until a committed change is in force on this node. The change
// stays a success if it is not, and the answer says so.
func (s *Server) changed(c echo.Context) {
	if !s.deps.Changed(c.Request().Context()) {
		c.Response().Header().Set("Sluice-In-Force", "false")
	}
}
