package api

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// problemFor maps every error once. The second result is false for an unknown
// error, which becomes a bland 500 and must be logged.
func problemFor(err error) (*reply.Problem, bool) {
	var (
		malformed *malformedError
		httpErr   *echo.HTTPError
	)
	if p, ok := reply.ProblemOf(err); ok {
		return p, true
	}
	switch {
	case errors.As(err, &malformed):
		return reply.Malformed.Problem(malformed.message + "."), true
	case errors.As(err, &httpErr):
		return statusProblem(httpErr.Code)
	}
	return reply.Internal.Problem("The error was logged. Try again."), false
}

// statusProblem maps what the router itself answers.
func statusProblem(status int) (*reply.Problem, bool) {
	switch status {
	case http.StatusNotFound:
		return reply.NotFound.Problem("This path does not exist. GET /openapi.yaml lists every path."), true
	case http.StatusMethodNotAllowed:
		return reply.Method.Problem("The Allow header lists the methods of this path."), true
	case http.StatusRequestEntityTooLarge:
		return reply.TooLarge.Problem(""), true
	case http.StatusBadRequest:
		return reply.Malformed.Problem(""), true
	}
	return reply.Internal.Problem("The error was logged. Try again."), false
}

// lateAnswer is how long a 408 may take to send.
const lateAnswer = time.Second

// writeProblem sends an error as problem+json, unless an answer is under way.
func (s *Server) writeProblem(c echo.Context, err error) {
	p, known := problemFor(err)
	if !known {
		s.log.Error("request failed", "route", c.Path(), "method", clip(c.Request().Method), "client", c.RealIP(), "error", err)
	}
	if c.Response().Committed {
		return
	}
	body, err := json.Marshal(p)
	if err != nil {
		s.log.Error("encoding a problem failed", "error", err)
		body = []byte(`{"type":"/problems/internal","title":"Internal error","status":500}`)
	}
	h := c.Response().Header()
	for name, value := range p.Header {
		h.Set(name, value)
	}
	secure(h)
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if p.Status == http.StatusRequestTimeout {
		// The time to write, counted from the same moment as the time to read, is over
		// as well. Where a deadline cannot be set the answer is lost, as it would be.
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(s.deps.Now().Add(lateAnswer))
	}
	c.Response().WriteHeader(p.Status)
	if c.Request().Method != http.MethodHead {
		_, _ = c.Response().Write(body) // the client may have gone; nobody is left to tell
	}
}
