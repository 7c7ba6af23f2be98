package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
)

// Problem is an error answer as RFC 9457 has it. Its texts are written by this
// service and safe to show.
type Problem struct {
	// Type is /problems/ and a stable word a client can branch on.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors names what is wrong with each field of the input.
	Errors []rules.FieldError `json:"errors,omitempty"`

	header http.Header // more headers to send
}

func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// kind is one row of the table of problems.
type kind struct {
	word   string
	status int
	title  string
}

// The kinds of problem; docs and openapi.yaml list the same.
var (
	kindMalformed   = kind{"malformed", http.StatusBadRequest, "The request cannot be read"}
	kindCredentials = kind{"unauthorized", http.StatusUnauthorized, "Credentials are missing or not valid"}
	kindForbidden   = kind{"forbidden", http.StatusForbidden, "This is not allowed"}
	kindNotFound    = kind{"not-found", http.StatusNotFound, "There is nothing here"}
	kindMethod      = kind{"method-not-allowed", http.StatusMethodNotAllowed, "This method is not available here"}
	kindTimeout     = kind{"request-timeout", http.StatusRequestTimeout, "The request took too long to arrive"}
	kindNameTaken   = kind{"name-taken", http.StatusConflict, "The name is taken"}
	kindPoolUsed    = kind{"pool-used", http.StatusConflict, "Rules use this pool"}
	kindOverride    = kind{"override-exists", http.StatusConflict, "The rule has an override for this key"}
	kindStale       = kind{"stale", http.StatusPreconditionFailed, "It has changed since"}
	kindEnded       = kind{"reservation-ended", http.StatusGone, "The reservation has ended"}
	kindTooLarge    = kind{"too-large", http.StatusRequestEntityTooLarge, "The request body is too large"}
	kindMedia       = kind{"unsupported-media-type", http.StatusUnsupportedMediaType, "This content type is not accepted here"}
	kindInvalid     = kind{"invalid", http.StatusUnprocessableEntity, "Some fields are not valid"}
	kindInternal    = kind{"internal", http.StatusInternalServerError, "Something went wrong in this service"}
	kindStore       = kind{"store-unavailable", http.StatusServiceUnavailable, "The counter store cannot do this now"}
	kindQueue       = kind{"queue-unavailable", http.StatusServiceUnavailable, "The queue of deferred requests is away"}
	kindDatabase    = kind{"database-unavailable", http.StatusServiceUnavailable, "Rules database unavailable"}
	kindNotReady    = kind{"not-ready", http.StatusServiceUnavailable, "This node is not ready"}
)

func (k kind) problem(detail string) *Problem {
	return &Problem{Type: "/problems/" + k.word, Title: k.title, Status: k.status, Detail: detail}
}

func (p *Problem) with(name, value string) *Problem {
	if p.header == nil {
		p.header = http.Header{}
	}
	p.header.Set(name, value)
	return p
}

// problemFor maps every error once. The second result is false for an unknown
// error, which becomes a bland 500 and must be logged.
func problemFor(err error) (*Problem, bool) {
	var (
		p         *Problem
		malformed *malformedError
		invalid   *rules.ValidationError
		store     *limiter.StoreError
		refused   *access.Refusal
		httpErr   *echo.HTTPError
	)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &refused):
		return refusalProblem(refused), true
	case errors.As(err, &malformed):
		return kindMalformed.problem(malformed.message + "."), true
	case errors.As(err, &invalid):
		p = kindInvalid.problem("See errors for each field.")
		p.Errors = invalid.Fields
		return p, true
	case errors.Is(err, rules.ErrNotFound):
		return kindNotFound.problem("There is no such rule, version or pool."), true
	case errors.Is(err, rules.ErrNameTaken):
		p = kindNameTaken.problem("Names are unique; choose another.")
		p.Errors = []rules.FieldError{{Field: "name", Message: "is taken already"}}
		return p, true
	case errors.Is(err, rules.ErrPoolUsed):
		return kindPoolUsed.problem("Take it out of every rule first."), true
	case errors.Is(err, rules.ErrOverrideExists):
		p = kindOverride.problem("Change that one, or delete it first.")
		p.Errors = []rules.FieldError{{Field: "key", Message: "has an override already"}}
		return p, true
	case errors.Is(err, rules.ErrStale):
		return kindStale.problem("Read it again and repeat the change on its present version."), true
	case errors.Is(err, rules.ErrUnavailable):
		return kindDatabase.problem(databaseDetail(err)).with("Retry-After", "2"), true
	case errors.As(err, &store):
		return kindStore.problem(storeDetail(store)).with("Retry-After", "1"), true
	case errors.Is(err, ErrNoSet):
		return kindNotReady.problem("No rules have been loaded yet.").with("Retry-After", "1"), true
	case errors.Is(err, ErrTooManyLimits):
		return kindInvalid.problem("So many limits apply that a reservation cannot name them; check and charge instead."), true
	case errors.Is(err, limiter.ErrInvalid):
		return kindInvalid.problem("These limits cannot be taken together in one request."), true
	case errors.Is(err, context.Canceled):
		return kindTimeout.problem("The caller went away."), true
	case errors.As(err, &httpErr):
		return statusProblem(httpErr.Code)
	}
	return kindInternal.problem("It has been logged. Trying again may help."), false
}

// databaseDetail says why the rules database cannot be used, without naming
// anything of the machine.
func databaseDetail(err error) string {
	const meanwhile = " Checks go on with the rules last loaded."
	switch {
	case errors.Is(err, rules.ErrDiskFull):
		return "The disk under the rules database is full, so nothing can be changed until there is room." + meanwhile
	case errors.Is(err, rules.ErrDiskFailing):
		return "The disk under the rules database reports errors, so nothing can be changed." + meanwhile
	}
	return "Changes are disabled until it is back." + meanwhile
}

// statusProblem maps what the router itself answers.
func statusProblem(status int) (*Problem, bool) {
	switch status {
	case http.StatusNotFound:
		return kindNotFound.problem("No such path; GET /openapi.yaml describes those there are."), true
	case http.StatusMethodNotAllowed:
		return kindMethod.problem("See the Allow header for the methods of this path."), true
	case http.StatusRequestEntityTooLarge:
		return kindTooLarge.problem(""), true
	case http.StatusBadRequest:
		return kindMalformed.problem(""), true
	}
	return kindInternal.problem("It has been logged. Trying again may help."), false
}

func storeDetail(e *limiter.StoreError) string {
	if e.Unknown {
		return "It may have been applied all the same (" + string(e.Cause) + "). Repeat it only with a request_id."
	}
	return "Nothing was changed (" + string(e.Cause) + "). It can be repeated."
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
		body = []byte(`{"type":"/problems/internal","title":"Something went wrong in this service","status":500}`)
	}
	h := c.Response().Header()
	for name, values := range p.header {
		h[name] = values
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
