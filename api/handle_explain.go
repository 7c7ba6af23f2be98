package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/limiter"
	"sluice/rules"
)

// explanation is the answer to POST /ratelimit/explain.
type explanation struct {
	// SetVersion is the version of the rules that were considered.
	SetVersion int64 `json:"set_version"`
	// ActiveRules is how many there are; rules lists those that apply and the
	// nearest misses among the others.
	ActiveRules int `json:"active_rules"`
	// Decision is what a check would answer now.
	Decision json.RawMessage  `json:"decision"`
	Rules    []consideredRule `json:"rules"`
}

// consideredRule says what one rule has to do with the request.
type consideredRule struct {
	ID      int64        `json:"id"`
	Name    string       `json:"name"`
	Matched bool         `json:"matched"`
	Reason  rules.Reason `json:"reason"`
	Message string       `json:"message"`
	Mode    string       `json:"mode"`
	Summary string       `json:"summary"`
	// Key, Weight and Bucket are of a rule that applies.
	Key    string        `json:"key,omitempty"`
	Weight *int64        `json:"weight,omitempty"`
	Bucket *bucketFigure `json:"bucket,omitempty"`
	// Override is the override that had a say.
	Override *overrideFigure `json:"override,omitempty"`
	// Candidate is the bucket of the rule's candidate.
	Candidate *bucketFigure `json:"candidate,omitempty"`
	// Pool is what the rule's pool holds.
	Pool *poolFigure `json:"pool,omitempty"`
}

// overrideFigure is an override as explain shows it.
type overrideFigure struct {
	ID        int64 `json:"id"`
	Wildcard  bool  `json:"wildcard"`
	Unlimited bool  `json:"unlimited"`
	Blocked   bool  `json:"blocked"`
}

// bucketFigure is a bucket as a peek shows it.
type bucketFigure struct {
	Allowed      bool   `json:"allowed"`
	Limit        int64  `json:"limit"`
	Burst        *int64 `json:"burst,omitempty"`
	Remaining    int64  `json:"remaining"`
	ResetMS      int64  `json:"reset_ms"`
	RetryAfterMS int64  `json:"retry_after_ms"`
}

// Explain answers a question as Do would with a peek, and says which rules were
// considered under the same set. A direct question considers none.
func (c *Checker) Explain(ctx context.Context, q *Question, a *Answer) (*rules.Set, []rules.Considered, error) {
	w := getWork()
	defer putWork(w)
	set := c.opt.Sets.Load()
	if set == nil {
		return nil, nil, ErrNoSet
	}
	q.Op = limiter.OpPeek
	now := c.opt.Now()
	if err := w.add(ctx, q, set, now); err != nil {
		return nil, nil, err
	}
	c.run(ctx, w)
	if err := c.settle(ctx, w, &w.jobs[0], a); err != nil {
		return nil, nil, err
	}
	if q.IsDirect {
		return set, nil, nil
	}
	considered := set.Explain(&q.Descriptor, q.Weight, now)
	return set, considered, nil
}

func (s *Server) explain(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	var q Question
	if err := decodeCheck(body, limiter.OpPeek, &q); err != nil {
		return err
	}
	var a Answer
	set, considered, err := s.deps.Checker.Explain(c.Request().Context(), &q, &a)
	if err != nil {
		return err
	}
	e := explanation{
		SetVersion: set.Version(), ActiveRules: set.Len(),
		Decision: appendAnswer(nil, &a, s.style), Rules: []consideredRule{},
	}
	for i := range considered {
		e.Rules = append(e.Rules, considerRule(&considered[i], &a))
	}
	s.explainPools(c.Request().Context(), considered, e.Rules)
	return writeJSON(c, http.StatusOK, e)
}

func considerRule(con *rules.Considered, a *Answer) consideredRule {
	r := &con.Rule.Rule
	out := consideredRule{
		ID: r.ID, Name: r.Name, Matched: con.Matched, Reason: con.Reason,
		Message: con.Sentence, Mode: r.Mode, Summary: r.Summary(),
	}
	if o := con.Override; o.ID != 0 {
		out.Override = &overrideFigure{o.ID, o.Prefix, o.Unlimited, o.Blocked}
	}
	if !con.Matched {
		return out
	}
	out.Key, out.Weight = con.Display, &con.Weight
	for i := range a.Limits {
		la := &a.Limits[i]
		if la.Rule == r.Name && la.Known {
			d := &la.Decision
			figure := &bucketFigure{Allowed: d.Allowed, Remaining: d.Remaining, ResetMS: d.Reset, RetryAfterMS: d.RetryAfter}
			limit, burst, bucketed := d.InForce(la.Limit.Algorithm)
			if figure.Limit = limit; bucketed {
				figure.Burst = &burst
			}
			if la.Candidate {
				out.Candidate = figure
			} else {
				out.Bucket = figure
			}
		}
	}
	return out
}
