package api

import (
	"encoding/json"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/limiter"
	"sluice/rules/match"
)

// explanation is the response to POST /ratelimit/explain.
type explanation struct {
	// SetVersion is the version of the rules that were considered.
	SetVersion int64 `json:"set_version"`
	// ActiveRules is the number of active rules. Rules lists the rules that apply and the rules that almost apply.
	ActiveRules int `json:"active_rules"`
	// Decision is the response that a check would get now.
	Decision json.RawMessage  `json:"decision"`
	Rules    []consideredRule `json:"rules"`
	// Profile is the profile that read the descriptors of a call of Envoy as one request, and Message describes its
	// result.
	Profile string `json:"profile,omitempty"`
	Message string `json:"message,omitempty"`
}

// consideredRule says whether one rule applies to the request, and why.
type consideredRule struct {
	ID         int64        `json:"id"`
	Name       string       `json:"name"`
	Matched    bool         `json:"matched"`
	Reason     match.Reason `json:"reason"`
	ReplacedBy []string     `json:"replaced_by,omitempty"`
	Message    string       `json:"message"`
	Mode       string       `json:"mode"`
	Summary    string       `json:"summary"`
	// Key, Weight and Bucket are set if the rule applies, and Home if its span is global_exact.
	Key    string        `json:"key,omitempty"`
	Home   string        `json:"home,omitempty"`
	Weight *int64        `json:"weight,omitempty"`
	Bucket *bucketFigure `json:"bucket,omitempty"`
	// Override is the override that applied.
	Override *overrideFigure `json:"override,omitempty"`
	// Candidate is the bucket of the candidate of the rule.
	Candidate *bucketFigure `json:"candidate,omitempty"`
	// Pool is the usage of the pool of the rule.
	Pool *poolFigure `json:"pool,omitempty"`
}

// overrideFigure is an override in an explanation.
type overrideFigure struct {
	ID        int64 `json:"id"`
	Wildcard  bool  `json:"wildcard"`
	Unlimited bool  `json:"unlimited"`
	Blocked   bool  `json:"blocked"`
	// Network is set if the key of the override names a network.
	Network string `json:"network,omitempty"`
}

// bucketFigure is the state of a bucket.
type bucketFigure struct {
	Allowed      bool   `json:"allowed"`
	Limit        *int64 `json:"limit,omitempty"`
	Burst        *int64 `json:"burst,omitempty"`
	WholeLimit   int64  `json:"whole_limit,omitempty"`
	Remaining    *int64 `json:"remaining,omitempty"`
	Used         int64  `json:"used"`
	ResetMS      int64  `json:"reset_ms"`
	RetryAfterMS int64  `json:"retry_after_ms"`
	BanMS        int64  `json:"ban_ms,omitempty"`
	Shed         bool   `json:"shed,omitempty"`
	Held         bool   `json:"held,omitempty"`
	// Regions is what each region has spent, of a rule with span global.
	Regions []regionUnits `json:"regions,omitempty"`
	// HeldBy is who holds units.
	HeldBy []heldUnits `json:"held_by,omitempty"`
}

// heldUnits is what callers of one kind hold of a bucket.
type heldUnits struct {
	Kind    string `json:"kind"`
	Holders int    `json:"holders"`
	Units   int64  `json:"units"`
}

// regionUnits is what one region has spent of a limit.
type regionUnits struct {
	Region string `json:"region"`
	Units  int64  `json:"units"`
}

func (s *Server) explain(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	v, err := parseJSON(body)
	if err != nil {
		return err
	}
	if aboutDescriptors(v) {
		return s.explainDescriptors(c, v)
	}
	var q decide.Question
	if err := decodeCheck(body, limiter.OpPeek, &q); err != nil {
		return err
	}
	said, err := s.deps.Checker.Explain(c.Request().Context(), &q)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, s.explanation(said))
}

func (s *Server) explanation(said *decide.Explanation) *explanation {
	e := &explanation{
		SetVersion: said.SetVersion, ActiveRules: said.ActiveRules,
		Decision: (&encoder{style: s.style}).append(nil, &said.Answer), Rules: make([]consideredRule, len(said.Rules)),
	}
	for i := range said.Rules {
		e.Rules[i] = considerRule(&said.Rules[i])
	}
	return e
}

func considerRule(con *decide.ConsideredRule) consideredRule {
	r := &con.Rule.Rule
	out := consideredRule{
		ID: r.ID, Name: r.Name, Matched: con.Matched, Reason: con.Reason, ReplacedBy: con.ReplacedBy,
		Message: con.Sentence, Mode: r.Mode, Summary: r.Summary(),
	}
	if o := con.Override; o.ID != 0 {
		out.Override = &overrideFigure{o.ID, o.Prefix, o.Unlimited, o.Blocked, con.Network}
	}
	if !con.Matched {
		return out
	}
	out.Key, out.Weight = con.Display, &con.Weight
	out.Bucket, out.Candidate = figureOf(con.Bucket), figureOf(con.Candidate)
	if con.Bucket != nil {
		out.Home = con.Bucket.Home
	}
	if p := con.Pool; p != nil {
		out.Pool = &poolFigure{p.Name, p.Priority, p.SharePercent, p.Shed, p.PoolState}
	}
	return out
}

// figureOf returns nil if there are no figures.
func figureOf(l *decide.ConsideredLimit) *bucketFigure {
	if l == nil || !l.Known {
		return nil
	}
	d := &l.Decision
	figure := &bucketFigure{Allowed: d.Allowed, Used: d.Used, ResetMS: d.Reset,
		RetryAfterMS: d.RetryAfter, BanMS: l.Ban, Shed: l.Shed != "", Held: d.Held, WholeLimit: l.Whole}
	for _, r := range l.Regions {
		figure.Regions = append(figure.Regions, regionUnits(r))
	}
	for _, h := range l.HeldBy {
		figure.HeldBy = append(figure.HeldBy, heldUnits(h))
	}
	if l.Meter {
		return figure
	}
	limit, burst, bucketed := d.InForce(l.Limit.Algorithm)
	figure.Limit, figure.Remaining = &limit, &d.Remaining
	if bucketed {
		figure.Burst = &burst
	}
	return figure
}

// poolFigure is the pool of a rule in an explanation.
type poolFigure struct {
	Name         string `json:"name"`
	Priority     string `json:"priority"`
	SharePercent int64  `json:"share_percent"`
	Shed         bool   `json:"shed,omitempty"`
	decide.PoolState
}
