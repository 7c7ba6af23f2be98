package reply

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"sluice/api/decide"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/field"
)

// Problem is a problem document (RFC 9457). Its texts are safe to show.
type Problem struct {
	// Type is PagePath and a stable word. Clients branch on it.
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Errors lists the errors of single fields.
	Errors []field.Problem `json:"errors,omitempty"`
	// PrimaryURL is where a change that was refused by a read replica can be made.
	PrimaryURL string `json:"primary_url,omitempty"`

	// Header has additional headers of the response.
	Header map[string]string `json:"-"`
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// JSON returns the document as JSON.
func (p *Problem) JSON() []byte {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // texts and numbers always have a form
	}
	return b
}

// ForClient returns the document for the client of a gateway, who cannot use the paths of this API. Its title is
// phrase, the phrase of the status.
func (p *Problem) ForClient(phrase string) *Problem {
	client := *p
	client.Type, client.Title = "about:blank", phrase
	return &client
}

// With adds a header and returns the problem.
func (p *Problem) With(name, value string) *Problem {
	if p.Header == nil {
		p.Header = map[string]string{}
	}
	p.Header[name] = value
	return p
}

// ProblemOf converts the errors of the engine, the rules database and access to problem
// documents, for every face. The second result is false for any other error.
func ProblemOf(err error) (*Problem, bool) {
	var (
		p       *Problem
		invalid *field.ValidationError
		taken   *rules.TakenError
		store   *limiter.StoreError
		refused *access.Refusal
		replica *rules.ReplicaError
		named   *rules.NamedError
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
		return NotFound.Problem("The rule, version, override, pool, profile, webhook or silence does not exist."), true
	case errors.Is(err, rules.ErrNameTaken):
		p = NameTaken.Problem("Names are unique. Choose another name.")
		p.Errors = []field.Problem{{Field: "name", Message: "is already in use"}}
		return p, true
	case errors.As(err, &taken):
		p = Taken.Problem("Only one may have this. See errors.")
		p.Errors = []field.Problem{taken.Problem}
		return p, true
	case errors.Is(err, rules.ErrPoolUsed):
		return PoolUsed.Problem("Remove the pool from every rule first."), true
	case errors.As(err, &named):
		return RuleNamed.Problem("The rule is named in replaces of " + strings.Join(named.By, " and ") +
			". Remove it there first."), true
	case errors.Is(err, rules.ErrOverrideExists):
		p = OverrideExists.Problem("Update or delete the existing override.")
		p.Errors = []field.Problem{{Field: "key", Message: "already has an override"}}
		return p, true
	case errors.Is(err, rules.ErrStale):
		return Stale.Problem("Read the current version and repeat the change on it."), true
	case errors.As(err, &replica):
		return replicaProblem(replica), true
	case errors.Is(err, rules.ErrUnavailable):
		return DatabaseUnavailable.Problem(databaseDetail(err)).With("Retry-After", "2"), true
	case errors.As(err, &store) && store.Cause == limiter.CauseOverload:
		return Overloaded.Problem("The counter store had no turn for the request in time. Nothing was changed. "+
			"You can repeat the request.").With("Retry-After", "1"), true
	case errors.As(err, &store):
		return StoreUnavailable.Problem(storeDetail(store)).With("Retry-After", "1"), true
	case errors.Is(err, decide.ErrNoSet):
		return NotReady.Problem("This node has not loaded any rules yet.").With("Retry-After", "1"), true
	case errors.Is(err, decide.ErrTooManyLimits):
		return Invalid.Problem("Too many limits apply for a reservation. Use a check and a charge instead."), true
	case errors.Is(err, limiter.ErrInvalid):
		return Invalid.Problem("These limits cannot be combined in one request."), true
	case errors.Is(err, context.Canceled):
		return Timeout.Problem("The client closed the request."), true
	}
	return nil, false
}

// databaseDetail says why the rules database is unavailable, without details of the
// machine.
func databaseDetail(err error) string {
	const meanwhile = " Checks continue with the rules last loaded."
	switch {
	case errors.Is(err, rules.ErrDiskFull):
		return "The disk of the rules database is full. Changes are disabled until there is free space." + meanwhile
	case errors.Is(err, rules.ErrDiskFailing):
		return "The disk of the rules database reports errors. Changes are disabled." + meanwhile
	case errors.Is(err, rules.ErrBusy):
		return "Another change, such as a large import, is in progress. Nothing was changed. Try again when it has finished."
	}
	return "Changes are disabled until the rules database is available again." + meanwhile
}

// replicaProblem says where to make the change. It has no Retry-After: the same request fails again.
func replicaProblem(e *rules.ReplicaError) *Problem {
	const reads = "This node reads its rules from a read replica, so it refuses changes. "
	if e.Primary == "" {
		return DatabaseReplica.Problem(reads + "Send them to a node in the region of the primary database.")
	}
	p := DatabaseReplica.Problem(reads + "Send them to " + e.Primary + ".")
	p.PrimaryURL = e.Primary
	return p
}

func storeDetail(e *limiter.StoreError) string {
	if e.Unknown {
		return "The operation may have been applied nevertheless (" + string(e.Cause) + "). Repeat it only with a request_id."
	}
	return "Nothing was changed (" + string(e.Cause) + "). You can repeat the request."
}

// refusal returns the problem document for a request without sufficient credentials.
func refusal(r *access.Refusal) *Problem {
	switch r.Reason {
	case access.NoCredentials:
		return Credentials.Problem(r.Detail).With("WWW-Authenticate", "Bearer")
	case access.LacksScope:
		return Forbidden.Problem(r.Detail).
			With("WWW-Authenticate", `Bearer error="insufficient_scope", scope="`+
				strings.ReplaceAll(access.FormatScopes(r.Need), ",", " ")+`"`)
	case access.NotOpen:
		return Forbidden.Problem(r.Detail)
	case access.NotLoaded:
		return NotReady.Problem(r.Detail).With("Retry-After", "1")
	}
	return Credentials.Problem(r.Detail).With("WWW-Authenticate", `Bearer error="invalid_token"`)
}
