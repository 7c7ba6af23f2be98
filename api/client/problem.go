package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// ErrClosed is the error of every method after Close.
var ErrClosed = errors.New("the client is closed")

// Problem is an error response (RFC 9457). Branch on Type, which is stable; it is "" if a server between the client
// and the service responded.
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail,omitempty"`
	Errors []FieldError `json:"errors,omitempty"`
	// PrimaryURL is where a change can be made that this node refused because its rules database is a read replica.
	PrimaryURL string `json:"primary_url,omitempty"`
	// Body is the response as it was received, nil without one.
	Body []byte `json:"-"`
}

// FieldError is what is wrong with one field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Error returns the title, the detail, and one line for each invalid field.
func (p *Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the server responded with status %d", p.Status)
	for _, s := range []string{p.Title, p.Detail} {
		if s != "" {
			b.WriteString(": " + s)
		}
	}
	for _, e := range p.Errors {
		fmt.Fprintf(&b, "\n  %s %s", e.Field, e.Message)
	}
	return b.String()
}

// UnavailableError says that no complete answer arrived: the service was unreachable or too slow, the connection broke,
// or the circuit breaker is open. The service may still have charged the request.
type UnavailableError struct{ Err error }

// Error returns the text of the cause.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Unavailable reports whether err means that the service could not decide, rather than that the request was wrong: no
// answer came, or a status of 408, 429 or at least 500.
func Unavailable(err error) bool {
	var p *Problem
	if errors.As(err, &p) {
		return p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests ||
			p.Status == http.StatusRequestTimeout
	}
	var u *UnavailableError
	return errors.As(err, &u)
}

// Overloaded reports whether err means that more arrived than the service could decide in time. Nothing was charged, so
// the same request may be sent again, as after a second. Unavailable reports true too.
func Overloaded(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Type == "/problems/overloaded"
}

// problemOf reads an error response.
func problemOf(res *http.Response, body []byte) *Problem {
	p := &Problem{Body: body}
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err == nil && (kind == "application/problem+json" || kind == "application/json") && json.Unmarshal(body, p) == nil {
		p.Status = res.StatusCode
		return p
	}
	return &Problem{Title: http.StatusText(res.StatusCode), Status: res.StatusCode, Body: body}
}
