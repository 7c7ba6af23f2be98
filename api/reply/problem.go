package reply

import (
	"context"
	"errors"
	"strings"

	"sluice/api/decide"
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

	// Header has more headers to send.
	Header map[string]string `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// Kind is one row of the table of problems.
type Kind struct {
	word   string
	status int
	title  string
}

// The kinds of problem; docs and openapi.yaml list the same.
var (
	Malformed           = Kind{"malformed", 400, "The request cannot be read"}
	Credentials         = Kind{"unauthorized", 401, "Credentials are missing or not valid"}
	Forbidden           = Kind{"forbidden", 403, "This is not allowed"}
	NotFound            = Kind{"not-found", 404, "There is nothing here"}
	Method              = Kind{"method-not-allowed", 405, "This method is not available here"}
	Timeout             = Kind{"request-timeout", 408, "The request took too long to arrive"}
	NameTaken           = Kind{"name-taken", 409, "The name is taken"}
	PoolUsed            = Kind{"pool-used", 409, "Rules use this pool"}
	OverrideExists      = Kind{"override-exists", 409, "The rule has an override for this key"}
	Stale               = Kind{"stale", 412, "It has changed since"}
	ReservationEnded    = Kind{"reservation-ended", 410, "The reservation has ended"}
	TooLarge            = Kind{"too-large", 413, "The request body is too large"}
	MediaType           = Kind{"unsupported-media-type", 415, "This content type is not accepted here"}
	Invalid             = Kind{"invalid", 422, "Some fields are not valid"}
	Internal            = Kind{"internal", 500, "Something went wrong in this service"}
	StoreUnavailable    = Kind{"store-unavailable", 503, "The counter store cannot do this now"}
	QueueUnavailable    = Kind{"queue-unavailable", 503, "The queue of deferred requests is away"}
	DatabaseUnavailable = Kind{"database-unavailable", 503, "Rules database unavailable"}
	NotReady            = Kind{"not-ready", 503, "This node is not ready"}
)

// Problem is a document of this kind about one case.
func (k Kind) Problem(detail string) *Problem {
	return &Problem{Type: "/problems/" + k.word, Title: k.title, Status: k.status, Detail: detail}
}

// With adds a header, and gives the problem back.
func (p *Problem) With(name, value string) *Problem {
	if p.Header == nil {
		p.Header = map[string]string{}
	}
	p.Header[name] = value
	return p
}

// ProblemOf maps the errors of the engine, of the rule database and of access, the
// same for every face. The second result is false for any other error.
func ProblemOf(err error) (*Problem, bool) {
	var (
		p       *Problem
		invalid *rules.ValidationError
		store   *limiter.StoreError
		refused *access.Refusal
	)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &refused):
		return refusal(refused), true
	case errors.As(err, &invalid):
		p = Invalid.Problem("See errors for each field.")
		p.Errors = invalid.Fields
		return p, true
	case errors.Is(err, rules.ErrNotFound):
		return NotFound.Problem("There is no such rule, version or pool."), true
	case errors.Is(err, rules.ErrNameTaken):
		p = NameTaken.Problem("Names are unique; choose another.")
		p.Errors = []rules.FieldError{{Field: "name", Message: "is taken already"}}
		return p, true
	case errors.Is(err, rules.ErrPoolUsed):
		return PoolUsed.Problem("Take it out of every rule first."), true
	case errors.Is(err, rules.ErrOverrideExists):
		p = OverrideExists.Problem("Change that one, or delete it first.")
		p.Errors = []rules.FieldError{{Field: "key", Message: "has an override already"}}
		return p, true
	case errors.Is(err, rules.ErrStale):
		return Stale.Problem("Read it again and repeat the change on its present version."), true
	case errors.Is(err, rules.ErrUnavailable):
		return DatabaseUnavailable.Problem(databaseDetail(err)).With("Retry-After", "2"), true
	case errors.As(err, &store):
		return StoreUnavailable.Problem(storeDetail(store)).With("Retry-After", "1"), true
	case errors.Is(err, decide.ErrNoSet):
		return NotReady.Problem("No rules have been loaded yet.").With("Retry-After", "1"), true
	case errors.Is(err, decide.ErrTooManyLimits):
		return Invalid.Problem("So many limits apply that a reservation cannot name them; check and charge instead."), true
	case errors.Is(err, limiter.ErrInvalid):
		return Invalid.Problem("These limits cannot be taken together in one request."), true
	case errors.Is(err, context.Canceled):
		return Timeout.Problem("The caller went away."), true
	}
	return nil, false
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
	case errors.Is(err, rules.ErrBusy):
		return "Another change is being written, such as a large import. Nothing was changed; try again when it is done."
	}
	return "Changes are disabled until it is back." + meanwhile
}

func storeDetail(e *limiter.StoreError) string {
	if e.Unknown {
		return "It may have been applied all the same (" + string(e.Cause) + "). Repeat it only with a request_id."
	}
	return "Nothing was changed (" + string(e.Cause) + "). It can be repeated."
}

// refusal is the answer to a caller who is not let in.
func refusal(r *access.Refusal) *Problem {
	switch r.Reason {
	case access.NoCredentials:
		return Credentials.Problem(r.Detail).With("WWW-Authenticate", "Bearer")
	case access.LacksScope:
		return Forbidden.Problem(r.Detail).
			With("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+strings.ReplaceAll(access.FormatScopes(r.Need), ",", " ")+`"`)
	case access.NotOpen:
		return Forbidden.Problem(r.Detail)
	case access.NotLoaded:
		return NotReady.Problem(r.Detail).With("Retry-After", "1")
	}
	return Credentials.Problem(r.Detail).With("WWW-Authenticate", `Bearer error="invalid_token"`)
}
