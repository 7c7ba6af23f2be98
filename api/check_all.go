package api

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"sluice/api/decide"
	"sluice/api/plain"
	"sluice/internal/access"
	"sluice/limiter"
)

// checks is the pooled memory of checks that are answered together.
type checks struct {
	enc   encoder
	parts []decide.Part
	at    []int // the index of each part among the asks
	qs    []decide.Question
	as    []decide.Answer
}

// CheckAll answers checks of different callers, each as Check does, with one call of the counter store. A problem, or a
// bug of the program, concerns only its check.
func (s *Server) CheckAll(ctx context.Context, asks []plain.Ask) {
	x, _ := s.checks.Get().(*checks)
	defer s.putBackChecks(x, len(asks))
	if n := len(asks); n > len(x.qs) {
		x.qs, x.as = make([]decide.Question, n), make([]decide.Answer, n)
	}
	var apart sync.WaitGroup
	for i := range asks {
		if err := s.read(&asks[i], &x.qs[i]); err != nil {
			s.refuse(&asks[i], err)
			continue
		}
		if x.qs[i].Deferrable { // it may be stored, which takes another call
			apart.Go(func() { s.checkApart(ctx, &asks[i], &x.qs[i], &x.as[i]) })
			continue
		}
		x.parts = append(x.parts, decide.Part{Question: &x.qs[i], Answer: &x.as[i]})
		x.at = append(x.at, i)
	}
	s.deps.Checker.DoEach(ctx, x.parts)
	for k := range x.parts {
		p, ask := &x.parts[k], &asks[x.at[k]]
		if p.Err != nil {
			s.refuse(ask, p.Err)
		} else if err := encode(&x.enc, ask, p.Answer); err != nil {
			s.refuse(ask, err)
		}
	}
	apart.Wait()
}

// checkApart decides one check in a separate call.
func (s *Server) checkApart(ctx context.Context, ask *plain.Ask, q *decide.Question, a *decide.Answer) {
	if err := func() (err error) {
		defer decide.Contain(&err)
		return s.deps.Checker.Do(ctx, q, a)
	}(); err != nil {
		s.refuse(ask, err)
	} else if err := encode(&encoder{style: s.style}, ask, a); err != nil {
		s.refuse(ask, err)
	}
}

// checkScopes are the scopes of POST /ratelimit/check, and checkEndpoint is its Endpoint.
var checkScopes, checkEndpoint = func() ([]access.Scope, string) {
	for i := range table {
		if table[i].Path == checkPath {
			return table[i].Scopes(), table[i].Endpoint()
		}
	}
	return []access.Scope{access.ScopeAdmin}, ""
}()

// checkOpen is access.OpenCall of POST /ratelimit/check.
var checkOpen = access.OpenCall(http.MethodPost + " " + checkPath)

// admitCheck returns an error unless the sender may send a check.
func (s *Server) admitCheck(call access.Call) error {
	call.Open, call.Endpoint = checkOpen, checkEndpoint
	_, err := s.gate.Admit(call, checkScopes...)
	return err
}

// read reads the question of a check whose sender may ask it.
func (s *Server) read(ask *plain.Ask, q *decide.Question) (err error) {
	defer decide.Contain(&err)
	if err := s.admitCheck(ask.Call); err != nil {
		return err
	}
	if err := decodeCheck(ask.Body, limiter.OpTake, q); err != nil {
		return err
	}
	if q.Origin.TraceID == "" && len(ask.Traceparent) > 0 {
		q.Origin.TraceID = decide.TraceOf(string(ask.Traceparent))
	}
	q.Gone, q.Late = ask.Gone, ask.Late
	return nil
}

// encode appends an answer.
func encode(by *encoder, ask *plain.Ask, a *decide.Answer) (err error) {
	defer decide.Contain(&err)
	ask.Out = append(by.append(ask.Out, a), '\n')
	return nil
}

// refuse answers a check with a problem.
func (s *Server) refuse(ask *plain.Ask, err error) {
	var bug *decide.Panic
	if errors.As(err, &bug) {
		ask.Problem = s.panicked(checkPath, bug.Value, bug.Stack)
	} else {
		ask.Problem = s.problem(err, checkPath, http.MethodPost, func() string { return hostOf(ask.Client) })
	}
	ask.Out = append(ask.Out, ask.Problem.JSON()...)
}

// putBackChecks returns x to the pool after n checks.
func (s *Server) putBackChecks(x *checks, n int) {
	for i := range x.as[:n] {
		if x.as[i].Forget(); cap(x.as[i].Limits) > limiter.MaxLimits {
			x.as[i] = decide.Answer{}
		}
	}
	clear(x.qs[:n])
	clear(x.parts)
	x.parts, x.at = x.parts[:0], x.at[:0]
	s.checks.Put(x)
}
