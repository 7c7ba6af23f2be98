package api

import (
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
	said, err := s.deps.Checker.Explain(c.Request().Context(), &q)
	if err != nil {
		return err
	}
	e := explanation{
		SetVersion: said.SetVersion, ActiveRules: said.ActiveRules,
		Decision: (&encoder{style: s.style}).append(nil, &said.Answer), Rules: make([]consideredRule, len(said.Rules)),
	}
	for i := range said.Rules {
		e.Rules[i] = considerRule(&said.Rules[i])
	}
	return writeJSON(c, http.StatusOK, e)
}

func considerRule(con *decide.ConsideredRule) consideredRule {
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
	out.Bucket, out.Candidate = figureOf(con.Bucket), figureOf(con.Candidate)
	if p := con.Pool; p != nil {
		out.Pool = &poolFigure{p.Name, p.Priority, p.SharePercent, p.PoolState}
	}
	return out
}

// figureOf is nil where there are no figures.
func figureOf(l *decide.ConsideredLimit) *bucketFigure {
	if l == nil || !l.Known {
		return nil
	}
	d := &l.Decision
	figure := &bucketFigure{Allowed: d.Allowed, Remaining: d.Remaining, ResetMS: d.Reset, RetryAfterMS: d.RetryAfter}
	limit, burst, bucketed := d.InForce(l.Limit.Algorithm)
	if figure.Limit = limit; bucketed {
		figure.Burst = &burst
	}
	return figure
}

// poolFigure is what an explanation says about a rule's pool.
type poolFigure struct {
	Name         string `json:"name"`
	Priority     string `json:"priority"`
	SharePercent int64  `json:"share_percent"`
	decide.PoolState
}
