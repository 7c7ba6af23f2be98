package envoy

import (
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
)

// services are the full names of the gRPC services.
var services = [...]string{ratelimitv3.RateLimitService_ServiceDesc.ServiceName, authv3.Authorization_ServiceDesc.ServiceName}

// Services returns the full names of the gRPC services of this package.
func Services() []string { return services[:] }

// Server serves both services.
type Server struct {
	ratelimitv3.UnimplementedRateLimitServiceServer
	authv3.UnimplementedAuthorizationServer
}

// Register adds both services to a server.
func (s *Server) Register(to grpc.ServiceRegistrar) {
	ratelimitv3.RegisterRateLimitServiceServer(to, s)
	authv3.RegisterAuthorizationServer(to, s)
}
