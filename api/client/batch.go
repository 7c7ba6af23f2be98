package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSmallChecks and maxSmallBytes bound a batch that an overloaded service still decides, unless very many limits
// apply to its checks.
const maxSmallChecks, maxSmallBytes = 100, 64 << 10

// Batch decides up to 1,000 checks in one call, each independently, and returns their answers in the same order. If one
// check is invalid, the error is a *Problem that names it, such as checks[3].weight, and nothing is decided. Fail modes
// are as for Check.
//
// If the service is overloaded and refuses the call, the same checks are sent in calls of at most 100 while
// Options.Timeout lasts. Checks that are still undecided then are denied, with Overloaded. An invalid check is an error
// in that case too, but checks before it may have been decided.
func (c *Client) Batch(ctx context.Context, checks []Check) ([]Answer, error) {
	if len(checks) == 0 {
		return nil, nil
	}
	bodies := make([][]byte, len(checks))
	for i := range checks {
		var err error
		if bodies[i], err = checks[i].encode(); err != nil {
			return nil, fmt.Errorf("checks[%d]: %w", i, err)
		}
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answers, refused := c.batch(within, ctx, bodies)
	if !Overloaded(refused) || small(bodies) == len(bodies) {
		return c.complete(ctx, checks, answers, refused)
	}
	all := make([]Answer, 0, len(checks))
	for from := 0; from < len(checks); {
		to := from + small(bodies[from:])
		answers, err := []Answer(nil), refused
		if within.Err() == nil {
			answers, err = c.batch(within, ctx, bodies[from:to])
		}
		if answers, err = c.complete(ctx, checks[from:to], answers, err); err != nil {
			return nil, shifted(err, from)
		}
		all, from = append(all, answers...), to
	}
	return all, nil
}

// batch makes one call.
func (c *Client) batch(within, own context.Context, bodies [][]byte) ([]Answer, error) {
	var raw json.RawMessage
	if err := c.decide(within, own, batchPath, joinChecks(bodies), &raw); err != nil {
		return nil, err
	}
	results, err := splitResults(raw)
	switch {
	case err != nil:
		return nil, err
	case len(results) != len(bodies):
		return nil, errResults
	}
	answers := make([]Answer, len(results))
	for i := range results {
		if err := answers[i].read(results[i]); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// complete returns the result of a call for checks: its answers, the answers of fail modes, or the error of the caller.
func (c *Client) complete(ctx context.Context, checks []Check, answers []Answer, err error) ([]Answer, error) {
	if err := c.failed(ctx, err); err != nil {
		return nil, err
	}
	if err == nil {
		return answers, nil
	}
	answers = make([]Answer, len(checks))
	for i := range checks {
		answers[i] = *c.instead(checks[i], err)
	}
	return answers, nil
}

// small returns how many of the first checks make a small batch, at least 1.
func small(bodies [][]byte) int {
	size := len(`{"checks":[]}`)
	for i, b := range bodies {
		if size += len(b) + 1; i > 0 && (i == maxSmallChecks || size > maxSmallBytes) {
			return i
		}
	}
	return len(bodies)
}

// shifted returns the error of a part of a batch with the indexes of the whole, in which from checks come before it.
func shifted(err error, from int) error {
	var p *Problem
	if !errors.As(err, &p) {
		return err
	}
	q := *p
	q.Errors = slices.Clone(p.Errors)
	for i, e := range q.Errors {
		index, rest, ok := strings.Cut(strings.TrimPrefix(e.Field, "checks["), "]")
		if n, err := strconv.Atoi(index); ok && err == nil {
			q.Errors[i].Field = fmt.Sprintf("checks[%d]%s", from+n, rest)
		}
	}
	return &q
}
