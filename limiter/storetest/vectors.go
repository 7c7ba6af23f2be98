package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"sluice/limiter"
)

// Vectors runs every worked case against the store: the embedded file and the
// one that SLUICE_VECTORS names. Call it from a test whose name contains
// "Vectors".
func Vectors(t *testing.T, h Harness) {
	files, err := loadVectors()
	if err != nil {
		t.Fatal(err)
	}
	clock := NewClock(0)
	store := h.New(t, clock.Now)
	for file, cases := range files {
		for i := range cases {
			c := &cases[i]
			t.Run(c.ID, func(t *testing.T) {
				if err := runVector(store, clock, c); err != nil {
					t.Errorf("%s: case %s (%s): %v", file, c.ID, c.Note, err)
				}
			})
		}
	}
}

// errRefused marks a case whose limit or weight is out of bounds.
var errRefused = errors.New("refused")

// runVector runs one case on its own buckets. A refused limit passes only in a case
// tagged "bounds".
func runVector(s limiter.Store, clock *Clock, c *vectorCase) error {
	who := newEntity()
	limits, err := vectorLimits(c.Limits)
	for i := 0; i < len(c.Requests) && err == nil; i++ {
		r := &c.Requests[i]
		clock.Set(*r.TMS)
		if r.Op == "rule" {
			limits, err = vectorLimits(r.Limits)
		} else {
			err = runVectorRequest(s, r, who, limits, c.Expect[i])
		}
		if err != nil {
			err = fmt.Errorf("request %d at %d ms: %w", i, *r.TMS, err)
		}
	}
	if c.bounds() && errors.Is(err, errRefused) {
		return nil
	}
	return err
}

func vectorLimits(vs []vectorLimit) ([]limiter.Limit, error) {
	out := make([]limiter.Limit, len(vs))
	for i := range vs {
		l, err := vs[i].limit()
		if err != nil {
			return nil, err
		}
		if err := l.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		out[i] = l
	}
	return out, nil
}

func runVectorRequest(s limiter.Store, r *vectorRequest, who entity, limits []limiter.Limit, want *vectorAnswer) error {
	req := &limiter.Request{ID: r.ID}
	switch r.Op {
	case "refund":
		req.Op = limiter.OpRefund
	case "release":
		req.Op = limiter.OpRelease
	case "renew":
		req.Op = limiter.OpRenew
	}
	var weight int64
	if r.Weight != nil {
		weight = *r.Weight
	}
	req.Asks = who.asks(weight, limits...)
	var res limiter.Result
	err := s.Do(context.Background(), req, &res)
	if errors.Is(err, limiter.ErrInvalid) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if err != nil {
		return err
	}
	return compareAnswer(&res, want)
}

// compareAnswer checks the figures of the whole request and of each limit.
func compareAnswer(res *limiter.Result, want *vectorAnswer) error {
	if want == nil {
		return nil
	}
	errs := []error{compareDecision(overall(res), want)}
	for i, w := range want.Limits {
		if w == nil {
			continue
		}
		if err := compareDecision(res.Limits[i], w); err != nil {
			errs = append(errs, fmt.Errorf("limit %d: %w", i, err))
		}
	}
	return errors.Join(errs...)
}

// overall reduces the decisions of a request to the figures of a vectors file: the longest retry-after of the limits
// that deny, the smallest remaining, the longest delay, the most refunded, and the reset of the strictest limit.
func overall(res *limiter.Result) limiter.Decision {
	out := res.Limits[limiter.Strictest(res.Limits)]
	out.Allowed = res.Allowed
	for _, d := range res.Limits {
		out.Remaining = min(out.Remaining, d.Remaining)
		out.Refunded = max(out.Refunded, d.Refunded)
		if out.Delay != limiter.Never && (d.Delay == limiter.Never || d.Delay > out.Delay) {
			out.Delay = d.Delay
		}
	}
	return out
}

func compareDecision(got limiter.Decision, want *vectorAnswer) error {
	var errs []error
	compare := func(name string, got int64, want *int64) {
		if want != nil && got != *want {
			errs = append(errs, fmt.Errorf("%s: got %d, want %d", name, got, *want))
		}
	}
	if want.Allowed != nil && got.Allowed != *want.Allowed {
		errs = append(errs, fmt.Errorf("allowed: got %v, want %v", got.Allowed, *want.Allowed))
	}
	compare("remaining", got.Remaining, want.Remaining)
	compare("retry_after_ms", got.RetryAfter, want.RetryAfterMS)
	compare("reset_ms", got.Reset, want.ResetMS)
	compare("delay_ms", got.Delay, want.DelayMS)
	compare("refunded", got.Refunded, want.Refunded)
	return errors.Join(errs...)
}
