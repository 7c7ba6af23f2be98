package api

import (
	"context"
	"net"
	"net/http"
	"slices"

	"sluice/api/decide"
	"sluice/api/reply"
	"sluice/internal/access"
	"sluice/limiter"
)

// MaxCheck is the size of the largest body of a check, in bytes.
const MaxCheck = maxBody

// CheckPath is the path of a check.
const CheckPath = checkPath

// Check answers one POST /ratelimit/check that was read without net/http: call describes its sender, traceparent is
// that header or nil, body is its whole body, which is JSON by its content type and not larger than MaxCheck. It
// appends the body of the response to dst. If problem is not nil, the body is the JSON of the problem; otherwise the
// status is 200 and the body JSON. It does what the route does, by the same functions. It is safe for concurrent use.
func (s *Server) Check(ctx context.Context, call access.Call, client net.Addr, traceparent, body, dst []byte) (
	out []byte, problem *reply.Problem) {
	refuse := func(p *reply.Problem) { out, problem = slices.Concat(dst, p.JSON()), p }
	x, _ := s.buffers.Get().(*buffers)
	defer s.putBack(x)
	defer func() {
		if v := recover(); v != nil {
			refuse(s.recovered(checkPath, v))
		}
	}()
	out, err := s.check(ctx, call, traceparent, body, x, dst)
	if err != nil {
		refuse(s.problem(err, checkPath, http.MethodPost, func() string { return hostOf(client) }))
	}
	return out, problem
}

// host is the address without the port, as Echo logs it.
func hostOf(addr net.Addr) string {
	name, _, err := net.SplitHostPort(addr.String())
	if err != nil {
		return addr.String()
	}
	return name
}

func (s *Server) check(ctx context.Context, call access.Call, traceparent, body []byte, x *buffers, dst []byte) (
	[]byte, error) {
	if err := s.admitCheck(call); err != nil {
		return dst, err
	}
	if err := decodeCheck(body, limiter.OpTake, &x.q); err != nil {
		return dst, err
	}
	if x.q.Origin.TraceID == "" && len(traceparent) > 0 {
		x.q.Origin.TraceID = decide.TraceOf(string(traceparent))
	}
	return s.answer(ctx, x, dst)
}
