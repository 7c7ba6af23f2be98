package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"sluice/api/decide"
	"sluice/api/reply"
)

// RLS answers a RateLimitRequest in the JSON form of proto3. status is for the HTTP answer: 200, 429, or 503 if a
// closed fail mode denied. The caller is authorised. reply.ProblemOf knows all errors.
func (s *Server) RLS(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	x, _ := s.buffers.Get().(*buffers)
	x.face, x.asks, x.result = rls, asksNothing, resultError
	defer func() {
		if v := recover(); v != nil {
			s.deps.Observe.CountCall(faceNames[rls], resultError)
			panic(v) // counted and logged by the caller
		}
		s.deps.Observe.CountCall(faceNames[rls], x.result)
		s.putBack(x)
	}()
	if s.deps.Checker.Set() == nil {
		x.result = resultNotReady
		return 0, nil, decide.ErrNoSet
	}
	in := &ratelimitv3.RateLimitRequest{}
	if err := protojson.Unmarshal(body, in); err != nil {
		x.result = resultInvalid
		return 0, nil, reply.Malformed.Problem("The body is not a RateLimitRequest: " + saidOf(err))
	}
	x.call = in
	x.out.begin()
	if err := s.askAndWrite(ctx, x, (*Server).askLimit, (*Server).writeLimit); err != nil {
		var bad invalid
		if errors.As(err, &bad) {
			x.result = resultInvalid
			err = reply.Invalid.Problem(bad.Error())
		}
		return 0, nil, err
	}
	out := &ratelimitv3.RateLimitResponse{}
	if err := proto.Unmarshal(x.out.b, out); err != nil {
		return 0, nil, err
	}
	text, err := protojson.Marshal(out)
	if err != nil {
		return 0, nil, err
	}
	var compact bytes.Buffer // protojson adds spaces at random
	if err := json.Compact(&compact, text); err != nil {
		return 0, nil, err
	}
	compact.WriteByte('\n')
	status = http.StatusOK
	if out.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT {
		status = http.StatusTooManyRequests
		if x.result == resultUnavailable {
			status = http.StatusServiceUnavailable
		}
	}
	return status, compact.Bytes(), nil
}

// maxSaid bounds what an error says, which has texts of the body, in bytes.
const maxSaid = 200

// saidOf returns what protojson says is wrong. It begins with a prefix whose blank differs from build to build.
func saidOf(err error) string {
	said := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	if len(said) > maxSaid {
		said = strings.ToValidUTF8(said[:maxSaid], "") + "..."
	}
	return said
}
