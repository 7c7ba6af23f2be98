package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// The most bytes of a response: of an answer, of the answers to a batch, and of any other response, such as an export.
// A longer answer would be read until the caller's time is over, and beyond it while it is decoded.
const (
	maxAnswer   = 4 << 20
	maxBatch    = 64 << 20
	maxResponse = 256 << 20
)

var (
	errBreaker  = &UnavailableError{errors.New("the circuit breaker is open because the service was unavailable")}
	errNoAnswer = unreadable("the server's response is not an answer")
	errResults  = unreadable("the server's response does not have one result per check")
	errRedirect = unreadable("the server redirects, which is not followed: give the client the URL of the service itself")
)

// errLarge is the cause of an UnavailableError if a response is too long.
var errLarge = errors.New("the server's response is too long")

func tooLarge(most int) error { return unreadable("%w: more than %d bytes", errLarge, most) }

// unreadableError is the cause of an UnavailableError if a response came that is no answer.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

func unreadable(format string, args ...any) *UnavailableError {
	return &UnavailableError{unreadableError{fmt.Errorf(format, args...)}}
}

// decide posts one document, if the circuit breaker permits it, and decodes the answer. own is the context of the
// caller, within the same with the client's timeout.
func (c *Client) decide(within, own context.Context, path string, body []byte, into any) error {
	p, err := c.enter(own)
	if err != nil {
		return err
	}
	return c.permitted(within, own, p, path, body, into)
}

// enter asks the circuit breaker for permission to make a call.
func (c *Client) enter(own context.Context) (permission, error) {
	switch {
	case c.closed.Load():
		return refused, ErrClosed
	case own.Err() != nil:
		return refused, own.Err()
	}
	p := c.breaker.enter()
	if p == refused {
		return p, errBreaker
	}
	return p, nil
}

// permitted is decide with the permission p.
func (c *Client) permitted(within, own context.Context, p permission, path string, body []byte, into any) error {
	raw, err := c.post(within, path, body)
	if err == nil {
		err = decode(raw, into)
	}
	c.breaker.leave(p, outcomeOf(err, own.Err() != nil))
	return err
}

func (c *Client) post(ctx context.Context, path string, body []byte) ([]byte, error) {
	most := maxAnswer
	if path == batchPath || path == reserveBatchPath {
		most = maxBatch
	}
	raw, err := c.send(ctx, most, http.MethodPost, path, "application/json", body, timeoutHeader, c.waits(ctx))
	var p *Problem
	switch {
	case errors.As(err, &p) && p.Status < http.StatusBadRequest:
		return nil, errRedirect
	case err != nil && c.checks.ctx.Err() != nil && errors.Is(err, context.Canceled):
		return nil, ErrClosed
	}
	return raw, err
}

// timeoutHeader says how long the caller waits, in ms, at most maxSaidWait.
const (
	timeoutHeader = "Sluice-Timeout-Ms"
	maxSaidWait   = time.Second
)

// waits is the value of timeoutHeader for a call: the rest of its time, so that an overloaded service denies it before
// the fail mode decides. A call of several callers has no deadline; each of them waits for the timeout.
func (c *Client) waits(ctx context.Context) string {
	left := c.timeout
	if until, ok := ctx.Deadline(); ok {
		left = time.Until(until) //nolint:forbidigo // a deadline, which knows no other clock
	}
	return strconv.FormatInt(min(max(left, time.Millisecond), maxSaidWait).Milliseconds(), 10)
}

// Do sends one request to a path of the service and returns the body of a 2xx response. Any other response is a
// *Problem, no response an *UnavailableError. It is for paths without a method here, such as /ratelimit/rules: no fail
// mode and no circuit breaker apply, and Options.CallTimeout bounds it. headers are additional headers, names and
// values alternating.
func (c *Client) Do(ctx context.Context, method, path, contentType string, body []byte, headers ...string) ([]byte,
	error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, c.callTimeout)
	defer cancel()
	return c.send(ctx, maxResponse, method, path, contentType, body, headers...)
}

// Post is Do with a JSON document.
func (c *Client) Post(ctx context.Context, path string, document any) ([]byte, error) {
	body, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, http.MethodPost, path, "application/json", body)
}

// send makes one HTTP call and reads a response of at most so many bytes. It is never repeated: the transport repeats a
// POST only if none of it was written.
func (c *Client) send(ctx context.Context, most int, method, path, contentType string, body []byte,
	headers ...string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	if c.token != nil {
		req.Header.Set("Authorization", "Bearer "+c.token())
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, &UnavailableError{err}
	}
	raw, err := readResponse(res, most)
	if c.closed.Load() {
		c.http.CloseIdleConnections() // this one too, which Close could not
	}
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode/100 == 2:
		return raw, nil
	}
	return nil, problemOf(res, raw)
}

// readResponse reads a body of at most so many bytes to its end, so that the connection can be used again, and closes
// it.
func readResponse(res *http.Response, most int) ([]byte, error) {
	defer res.Body.Close()
	if res.ContentLength > int64(most) {
		return nil, tooLarge(most)
	}
	var raw []byte
	var err error
	if res.ContentLength >= 0 && res.ContentLength < 1<<20 {
		raw = make([]byte, res.ContentLength)
		_, err = io.ReadFull(res.Body, raw)
	} else {
		raw, err = io.ReadAll(io.LimitReader(res.Body, int64(most)+1))
	}
	switch {
	case err != nil:
		return nil, &UnavailableError{fmt.Errorf("reading the server's response failed: %w", err)}
	case len(raw) > most:
		return nil, tooLarge(most)
	}
	return raw, nil
}
