package envoy

import (
	"context"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/api/decide"
	"sluice/api/envoy/quota"
	"sluice/limiter"
)

// generatedConn is a stream as the generated code has it.
type generatedConn = grpc.BidiStreamingServer[quotav3.RateLimitQuotaUsageReports, quotav3.RateLimitQuotaResponse]

// quotaConn implements quota.Conn.
type quotaConn struct{ generatedConn }

var _ quota.Conn = quotaConn{}

// Recv implements quota.Conn.
func (c quotaConn) Recv() ([]byte, error) {
	var in inbound
	err := c.RecvMsg(&in)
	return in.message, err
}

// quotaServer is the RateLimitQuotaService.
type quotaServer struct {
	quotav3.UnimplementedRateLimitQuotaServiceServer
	server *Server
}

// StreamRateLimitQuotas implements quotav3.RateLimitQuotaServiceServer. The headers of a stream contain its
// credentials. They are checked for as long as it lasts.
func (q quotaServer) StreamRateLimitQuotas(conn generatedConn) error {
	s := q.server
	from := senderOf(conn.Context())
	admitted := func() error {
		_, err := s.authorize(quotas, from)
		return err
	}
	err := admitted()
	if err == nil {
		if err = s.deps.Ready(); err != nil {
			err = status.Error(codes.Unavailable, "the node is not ready")
		} else {
			err = s.quotas.Stream(quotaConn{conn}, from.identity(), admitted, s.health.stopped)
		}
	}
	s.deps.Observe.CountCall(faceNames[quotas], endOf(err))
	return err
}

// endOf is what became of a stream. It is allowed if it ended because one of its ends wanted that.
func endOf(err error) string {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return resultInvalid
	case codes.Unauthenticated, codes.PermissionDenied:
		return resultRefused
	case codes.Internal, codes.ResourceExhausted, codes.DeadlineExceeded:
		return resultError
	default:
		return resultAllowed
	}
}

// Held returns what Envoys hold of a bucket by the quota service of this node and, as far as they say so, of others;
// nil for nothing.
func (s *Server) Held(ctx context.Context, key limiter.Key) []decide.Held {
	d := s.quotas.Held(ctx, string(key))
	if d.Having == 0 {
		return nil
	}
	return []decide.Held{{Kind: decide.HeldByEnvoy, Holders: d.Having, Units: d.Held}}
}
