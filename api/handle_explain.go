package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
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

func (s *Server) explain(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	var q decide.Question
	if err := decodeCheck(body, limiter.OpPeek, &q); err != nil {
		return err
	}
	var a decide.Answer
	set, considered, err := s.deps.Checker.Explain(c.Request().Context(), &q, &a)
	if err != nil {
		return err
	}
	e := explanation{
		SetVersion: set.Version(), ActiveRules: set.Len(),
		Decision: (&encoder{style: s.style}).append(nil, &a), Rules: []consideredRule{},
	}
	for i := range considered {
		e.Rules = append(e.Rules, considerRule(&considered[i], &a))
	}
	s.explainPools(c.Request().Context(), considered, e.Rules)
	return writeJSON(c, http.StatusOK, e)
}

func considerRule(con *rules.Considered, a *decide.Answer) consideredRule {
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

// poolFigure is what an explanation says about a rule's pool.
type poolFigure struct {
	Name     string `json:"name"`
	Priority string `json:"priority"`
	// SharePercent is how much of the pool the priority may find in use.
	SharePercent int64 `json:"share_percent"`
	decide.PoolState
}

// explainPools adds to the rules that apply what their pools hold, asking about
// each pool once.
func (s *Server) explainPools(ctx context.Context, considered []rules.Considered, out []consideredRule) {
	known := map[*rules.CompiledPool]decide.PoolState{}
	for i := range considered {
		r := considered[i].Rule
		if !considered[i].Matched || r.Pool == nil {
			continue
		}
		state, ok := known[r.Pool]
		if !ok {
			state = s.deps.Checker.PoolState(ctx, r.Pool)
			known[r.Pool] = state
		}
		out[i].Pool = &poolFigure{r.Pool.Pool.Name, r.Priority, r.Pool.SharePercent(r.Priority), state}
	}
}
