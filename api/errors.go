package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// problemFor converts an error to a problem document. The second result is false for an
// unknown error, which becomes a 500 without details and must be logged.
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

// statusProblem returns the problem document for an error of the router.
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

// timeoutResponseTime is the time to send a 408 response.
const timeoutResponseTime = time.Second

// problem converts an error to a problem document and logs an unknown error. It asks for the address of the client only
// then.
func (s *Server) problem(err error, route, method string, client func() string) *reply.Problem {
	p, known := problemFor(err)
	if !known {
		s.log.Error("request failed", "route", route, "method", clip(method), "client", client(), "error", err)
	}
	return p
}

// writeProblem sends an error as problem+json, unless a response has begun.
func (s *Server) writeProblem(c echo.Context, err error) {
	p := s.problem(err, c.Path(), c.Request().Method, c.RealIP)
	if c.Response().Committed {
		return
	}
	body := p.JSON()
	h := c.Response().Header()
	for name, value := range p.Header {
		h.Set(name, value)
	}
	secure(h)
	h.Set("Content-Type", reply.ProblemType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if p.Status == http.StatusRequestTimeout {
		// The write deadline has passed too, because it began with the read deadline. If a
		// new one cannot be set, the response is lost.
		_ = http.NewResponseController(c.Response()).SetWriteDeadline(s.deps.Now().Add(timeoutResponseTime))
	}
	c.Response().WriteHeader(p.Status)
	if c.Request().Method != http.MethodHead {
		_, _ = c.Response().Write(body) // fails only if the client closed the connection
	}
}
