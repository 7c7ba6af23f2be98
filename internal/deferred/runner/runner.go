// Package runner delivers deferred requests of a running server to a receiver: it asks for those
// that may pass now, posts each payload, and acknowledges accepted ones. A payload is delivered
// at least once; the header Sluice-Ticket lets the receiver recognise duplicates. Several runners
// may work on one queue.
package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice/api/client"
	"sluice/internal/tick"
)

// Headers of a delivery: the ticket, and the number of the delivery.
const (
	HeaderTicket   = "Sluice-Ticket"
	HeaderDelivery = "Sluice-Delivery"
)

// Options configure a run. Server, Rule, To, Now and Log are required.
type Options struct {
	// Server is the server with the queue, Rule the name or id of the rule.
	Server *client.Client
	Rule   string
	// To is the URL that payloads are posted to.
	To string
	// ContentType is sent with each payload.
	ContentType string
	// Max is the maximum number of requests fetched at once, Timeout the timeout of one
	// delivery, Hold the time after which unacknowledged requests return to the queue.
	Max           int
	Timeout, Hold time.Duration
	// Once ends the run when the queue is empty.
	Once bool
	// Idle is the pause while the queue is empty, 1 s if 0. LongestPause bounds every pause,
	// 30 s if 0.
	Idle, LongestPause time.Duration
	Now                func() time.Time
	Log                *slog.Logger
}

// Tally counts the results of a run.
type Tally struct {
	// Delivered counts requests that the receiver accepted and the server was told about,
	// Failed those that were not accepted and return to the queue, Unacknowledged those that
	// were accepted although acknowledging them failed.
	Delivered, Failed, Unacknowledged int
}

// firstPause is the pause after the first failure. Each further failure doubles it.
const firstPause = 100 * time.Millisecond

type runner struct {
	Options
	http     *http.Client
	tally    Tally
	failures int // in a row
}

// item is one released request in the server's response.
type item struct {
	Ticket     string `json:"ticket"`
	Payload    string `json:"payload"`
	Deliveries int64  `json:"deliveries"`
}

type release struct {
	RuleID       int64  `json:"rule_id"`
	Items        []item `json:"items"`
	Depth        int64  `json:"depth"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// Run delivers requests until ctx ends, when it finishes the current delivery, or until the
// server rejects it, because the rule does not exist or credentials are missing. Requests that
// it has fetched and not delivered by then return to the queue after Hold. While server or
// receiver are unavailable, it retries.
func Run(ctx context.Context, opt Options) (Tally, error) {
	if opt.Idle <= 0 {
		opt.Idle = time.Second
	}
	if opt.LongestPause <= 0 {
		opt.LongestPause = 30 * time.Second
	}
	r := &runner{Options: opt, http: &http.Client{
		Timeout: opt.Timeout,
		// A redirect would send the payload to another address.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	defer r.http.CloseIdleConnections()
	for first := true; ctx.Err() == nil; first = false {
		got, err := r.ask(ctx)
		if err == nil && first && got.Depth == 0 && len(got.Items) == 0 {
			err = r.defers(ctx, got.RuleID)
		}
		switch {
		case ctx.Err() != nil:
		case err != nil && !passing(err):
			return r.tally, err
		case err != nil:
			r.failed("fetching deferred requests failed; retrying", err)
			tick.Wait(ctx, r.backoff())
		case len(got.Items) > 0:
			r.deliver(ctx, got.Items)
		case r.Once && got.Depth == 0:
			return r.tally, nil
		default:
			tick.Wait(ctx, r.wait(got.RetryAfterMS))
		}
	}
	return r.tally, nil
}

// ask fetches the requests that may pass now.
func (r *runner) ask(ctx context.Context) (*release, error) {
	query := url.Values{"max": {strconv.Itoa(r.Max)}, "hold_ms": {strconv.FormatInt(r.Hold.Milliseconds(), 10)}}
	raw, err := r.Server.Do(ctx, http.MethodGet, "/ratelimit/deferred/"+url.PathEscape(r.Rule)+"?"+query.Encode(), "", nil)
	if err != nil {
		return nil, err
	}
	var got release
	if err := json.Unmarshal(raw, &got); err != nil {
		return nil, fmt.Errorf("the server's response is not valid: %w", err)
	}
	return &got, nil
}

// maxQueues is the maximum number of queues that the server lists.
const maxQueues = 1000

// ErrNotDeferring means that the rule does not defer and its queue is empty, so that a run would
// never have anything to deliver.
var ErrNotDeferring = errors.New("this rule does not defer requests; set its over_limit to defer and enable the rule")

// defers returns ErrNotDeferring if the server does not list a queue of the rule.
func (r *runner) defers(ctx context.Context, id int64) error {
	raw, err := r.Server.Do(ctx, http.MethodGet, "/ratelimit/deferred", "", nil)
	if err != nil {
		return err
	}
	var list struct {
		Queues []struct {
			RuleID int64 `json:"rule_id"`
		} `json:"queues"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("the server's response is not valid: %w", err)
	}
	for _, q := range list.Queues {
		if q.RuleID == id {
			return nil
		}
	}
	if len(list.Queues) >= maxQueues { // the list may be incomplete
		return nil
	}
	return ErrNotDeferring
}

// passing reports whether a failure is temporary.
func passing(err error) bool {
	if errors.Is(err, ErrNotDeferring) {
		return false
	}
	var p *client.Problem
	if !errors.As(err, &p) {
		return true // no response
	}
	return p.Status >= http.StatusInternalServerError || p.Status == http.StatusTooManyRequests
}

// deliver delivers requests one after another, as long as they are certainly still leased.
func (r *runner) deliver(ctx context.Context, items []item) {
	until := r.Now().Add(r.Hold - r.Timeout)
	for i := range items {
		if ctx.Err() != nil || r.Now().After(until) {
			return
		}
		// The end of ctx must not interrupt the current delivery.
		if err := r.send(context.WithoutCancel(ctx), &items[i]); err != nil {
			r.tally.Failed++
			r.failed("delivering a deferred request failed; it returns to the queue", err, "ticket", items[i].Ticket, "delivery",
				items[i].Deliveries)
			tick.Wait(ctx, r.backoff())
			continue
		}
		r.failures = 0
		r.acknowledge(context.WithoutCancel(ctx), items[i].Ticket)
	}
}

// send posts one payload. Errors never contain it.
func (r *runner) send(ctx context.Context, it *item) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.To, strings.NewReader(it.Payload))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", r.ContentType)
	req.Header.Set(HeaderTicket, it.Ticket)
	req.Header.Set(HeaderDelivery, strconv.FormatInt(it.Deliveries, 10))
	res, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver responded with status %d", res.StatusCode)
	}
	return nil
}

// acknowledge acknowledges a request once. If that fails, the request returns to the queue.
func (r *runner) acknowledge(ctx context.Context, ticket string) {
	raw, err := r.Server.Post(ctx, "/ratelimit/deferred/"+url.PathEscape(r.Rule)+"/ack",
		map[string][]string{"tickets": {ticket}})
	var answer struct {
		Acked int `json:"acked"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &answer)
	}
	if err != nil || answer.Acked == 0 {
		r.tally.Unacknowledged++
		r.Log.Warn("a deferred request was delivered, but acknowledging it failed; it may be delivered again", "ticket",
			ticket, "error", err)
		return
	}
	r.tally.Delivered++
}

func (r *runner) failed(message string, err error, more ...any) {
	r.failures++
	r.Log.Warn(message, append(more, "error", err, "failures", r.failures)...)
}

// backoff returns the pause after failures. It doubles and has a random part, so that runners do
// not retry at the same moment.
func (r *runner) backoff() time.Duration {
	d := min(firstPause<<min(r.failures-1, 20), r.LongestPause)
	return d/2 + rand.N(d/2+1) //nolint:gosec // not a secret
}

// wait returns the pause while no request may pass.
func (r *runner) wait(retryAfterMS int64) time.Duration {
	switch {
	case retryAfterMS < 0:
		return r.Idle
	case retryAfterMS == 0:
		return 0
	}
	return min(time.Duration(retryAfterMS)*time.Millisecond, r.LongestPause)
}
