package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/limiter"
	"sluice/rules/field"
	"sluice/rules/tree"
)

// buffers is the pooled memory of one check.
type buffers struct {
	body []byte
	out  []byte
	enc  encoder
	q    decide.Question
	a    decide.Answer
}

func newBuffers(style reply.HeaderStyle) *buffers {
	return &buffers{body: make([]byte, 0, 1024), out: make([]byte, 0, 2048), enc: encoder{style: style}}
}

// putBack returns x to the pool, unless it is too large.
func (s *Server) putBack(x *buffers) {
	if cap(x.body) > maxBody || cap(x.out) > maxBody || cap(x.a.Limits) > limiter.MaxLimits {
		return
	}
	x.q = decide.Question{}
	clear(x.a.Limits)
	s.buffers.Put(x)
}

// single handles every operation on a single request: decode, decide, encode.
func single(op limiter.Op) func(*Server, echo.Context) error {
	return func(s *Server, c echo.Context) error {
		x, _ := s.buffers.Get().(*buffers)
		defer s.putBack(x)
		if err := contentType(c, mediaJSON); err != nil {
			return err
		}
		var err error
		if x.body, err = readBody(c, maxBody, x.body); err != nil {
			return err
		}
		if err := decodeCheck(x.body, op, &x.q); err != nil {
			return err
		}
		traced(c.Request(), &x.q)
		if op == limiter.OpReset {
			if err := onlySome(c, &x.q); err != nil {
				return err
			}
		}
		if op == limiter.OpRefund {
			if err := s.requireScope(c, refundEndpoint, refundScope(&x.q)); err != nil {
				return err
			}
		}
		if x.out, err = s.answer(c.Request().Context(), x, x.out[:0]); err != nil {
			return err
		}
		return write(c, http.StatusOK, jsonType, x.out)
	}
}

// traced takes the trace of a request that names none in its body.
func traced(r *http.Request, q *decide.Question) {
	if q.Origin.TraceID == "" {
		q.Origin.TraceID = decide.TraceOf(r.Header.Get("Traceparent"))
	}
}

// onlySome reads the parameter only of a reset. A misspelt one must not reset more than was meant.
func onlySome(c echo.Context, q *decide.Question) error {
	params, err := parseQuery(c, "only")
	if err != nil {
		return err
	}
	switch params.oneOf("only", "ban", "close") {
	case "ban":
		q.OnlyBans = true
	case "close":
		q.Op = limiter.OpClose
	}
	switch {
	case q.OnlyBans && q.IsDirect:
		params.wrong("only", "does not apply to direct limits; only rules have bans")
	case q.Op == limiter.OpClose && q.IsDirect:
		params.wrong("only", "does not apply to direct limits; only buckets of rules with a limit_field can be closed")
	}
	return params.err()
}

// answer decides the question of x and appends the answer to dst.
func (s *Server) answer(ctx context.Context, x *buffers, dst []byte) ([]byte, error) {
	if err := s.deps.Checker.Do(ctx, &x.q, &x.a); err != nil {
		return dst, err
	}
	return append(x.enc.append(dst, &x.a), '\n'), nil
}

// refundScope returns the scope for a refund. A refund with a request_id returns at most
// what that request spent; any other refund changes a bucket like a reset.
func refundScope(q *decide.Question) access.Scope {
	if q.RequestID == "" {
		return access.ScopeCounters
	}
	return access.ScopeCheck
}

// batchBuffers is the pooled memory of one batch.
type batchBuffers struct {
	body []byte
	out  []byte
	enc  encoder
	qs   []decide.Question
	as   []decide.Answer
}

// maxPooledBatch keeps the memory of the largest batches out of the pool: the number of
// checks, and the bytes of bodies and responses.
const maxPooledBatch, maxPooledBytes = 256, 512 << 10

// putBackBatch returns x to the pool, unless it is too large.
func (s *Server) putBackBatch(x *batchBuffers) {
	if cap(x.qs) > maxPooledBatch || cap(x.body) > maxPooledBytes || cap(x.out) > maxPooledBytes {
		return
	}
	clear(x.qs)
	for i := range x.as {
		x.as[i].Forget()
	}
	s.batchBuffers.Put(x)
}

func (s *Server) checkBatch(c echo.Context) error {
	x, _ := s.batchBuffers.Get().(*batchBuffers)
	defer s.putBackBatch(x)
	if err := contentType(c, mediaJSON); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(c.Request().Context())
	p := place{server: s, cancel: cancel}
	defer p.leave()
	if needsPlace(c.Request()) && c.Request().ContentLength <= maxLargeBody {
		if err := p.take(); err != nil {
			discardBody(c)
			return err
		}
	}
	var err error
	if x.body, err = readBody(c, maxLargeBody, x.body); err != nil {
		return err
	}
	if p.held {
		p.bound(c)
	}
	if x.qs, err = decodeBatch(x.body, x.qs[:0]); err != nil {
		return err
	}
	for i := range x.qs {
		traced(c.Request(), &x.qs[i]) // the trace of the batch
	}
	if n := len(x.qs); n <= cap(x.as) {
		x.as = x.as[:n]
	} else {
		x.as = append(x.as[:cap(x.as)], make([]decide.Answer, n-cap(x.as))...)
	}
	err = s.deps.Checker.DoAll(ctx, x.qs, x.as, func() error {
		if err := p.take(); err != nil {
			return err
		}
		p.bound(c)
		return nil
	})
	if late := inTime(ctx); late != nil {
		return late
	}
	if err != nil {
		return err
	}
	x.out = append(x.out[:0], `{"results":[`...)
	for i := range x.as {
		if i > 0 {
			x.out = append(x.out, ',')
		}
		x.out = x.enc.append(x.out, &x.as[i])
	}
	x.out = append(x.out, "]}\n"...)
	return write(c, http.StatusOK, jsonType, x.out)
}

func (s *Server) release(c echo.Context) error { return s.lease(c, limiter.OpRelease) }
func (s *Server) renew(c echo.Context) error   { return s.lease(c, limiter.OpRenew) }

// lease handles both forms of release and renew: the lease of a response, or the
// checked request with its request_id.
func (s *Server) lease(c echo.Context, op limiter.Op) error {
	x, _ := s.buffers.Get().(*buffers)
	defer s.putBack(x)
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	token, ok, err := decodeLease(body)
	if err != nil {
		return err
	}
	if op == limiter.OpRenew {
		if v, err := parseJSON(body); err == nil && v.Member("reservation") != nil {
			if err := s.renewReservation(c, v, &x.a); err != nil {
				return err
			}
			x.out = append(x.enc.append(x.out[:0], &x.a), '\n')
			return write(c, http.StatusOK, jsonType, x.out)
		}
	}
	if ok {
		err = s.deps.Checker.Lease(c.Request().Context(), op, token, decide.Origin{Face: faceHTTP}, &x.a)
	} else if err = decodeCheck(body, op, &x.q); err == nil {
		err = s.deps.Checker.Do(c.Request().Context(), &x.q, &x.a)
	}
	if errors.Is(err, decide.ErrBadLease) {
		return &field.ValidationError{Fields: []field.Problem{
			{Field: "lease", Message: "must be a lease from a response of this service"}}}
	}
	if err != nil {
		return err
	}
	x.out = append(x.enc.append(x.out[:0], &x.a), '\n')
	return write(c, http.StatusOK, jsonType, x.out)
}

// decodeLease reads {"lease": "…"}; ok is false for a body of another shape.
func decodeLease(body []byte) (token string, ok bool, err error) {
	v, err := parseJSON(body)
	if err != nil {
		return "", false, err
	}
	m := v.Member("lease")
	if m == nil {
		return "", false, nil
	}
	if len(v.Members) > 1 {
		return "", false, &malformedError{message: "lease must be the only member"}
	}
	if m.Kind != tree.Text {
		return "", false, &field.ValidationError{Fields: []field.Problem{{Field: "lease", Message: "must be a string"}}}
	}
	return m.Text, true, nil
}
