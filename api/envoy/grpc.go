package envoy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
)

// Limits of connections.
const (
	maxStreams        = 1024
	maxHeaderList     = 16 << 10
	connectionTimeout = 2 * time.Second // to the end of the handshake of HTTP/2
	// maxAgeGrace is how long calls may continue after the client of a connection was asked to open another one.
	maxAgeGrace = 30 * time.Second
	// workers is the number of goroutines that serve one call after the other. A new goroutine for each call would
	// spend a seventh of the CPU of the call on growing its stack. While all workers are busy, each further call runs
	// in a new goroutine.
	workers = 128
	// pingInterval is how long the other end may be silent before it is asked whether it is still there, and
	// pingTimeout how long it has to say so.
	pingInterval = time.Minute
	pingTimeout  = 20 * time.Second
	// minPing is the shortest interval at which clients may ask.
	minPing = 5 * time.Second
)

// These descriptions replace the generated ones, which decode into, and encode, generated types.
var (
	rateLimitService = describe(ratelimitv3.RateLimitService_ServiceDesc, &limitCall)
	authService      = describe(authv3.Authorization_ServiceDesc, &authorizationCall)
)

// describe returns the description of a service with one method.
func describe(generated grpc.ServiceDesc, m *method) grpc.ServiceDesc {
	return grpc.ServiceDesc{
		ServiceName: generated.ServiceName, HandlerType: (*any)(nil), Metadata: generated.Metadata,
		Methods: []grpc.MethodDesc{{
			MethodName: generated.Methods[0].MethodName,
			Handler: func(srv any, ctx context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				s, ok := srv.(*Server)
				if !ok {
					return nil, fmt.Errorf("%T is not a Server", srv)
				}
				return s.serve(ctx, m, read)
			},
		}},
	}
}

// Services returns the full names of the services that Envoy calls.
func Services() []string {
	return []string{rateLimitService.ServiceName, authService.ServiceName,
		quotav3.RateLimitQuotaService_ServiceDesc.ServiceName}
}

// newGRPC returns a server that receives messages of at most that many bytes. Server.serve refuses those above
// maxMessage.
func (s *Server) newGRPC(largest int, more ...grpc.ServerOption) *grpc.Server {
	options := append([]grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{}), grpc.InTapHandle(s.begin), grpc.StreamInterceptor(s.health.bound),
		grpc.MaxRecvMsgSize(largest), grpc.MaxConcurrentStreams(maxStreams), grpc.MaxHeaderListSize(maxHeaderList),
		grpc.ConnectionTimeout(connectionTimeout), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge: s.deps.MaxAge, MaxConnectionAgeGrace: maxAgeGrace, Time: pingInterval, Timeout: pingTimeout,
		}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	}, more...)
	if s.deps.Certificates != nil {
		options = append(options, grpc.Creds(handshaken{insecure.NewCredentials()}))
	}
	if s.deps.Trace != nil {
		options = append(options, grpc.StatsHandler(s.deps.Trace))
	}
	g := grpc.NewServer(options...)
	g.RegisterService(&rateLimitService, s)
	g.RegisterService(&authService, s)
	quotav3.RegisterRateLimitQuotaServiceServer(g, quotaServer{server: s})
	grpc_health_v1.RegisterHealthServer(g, s.health)
	return g
}

// Serve serves connections until Close. The listener performs handshakes of TLS.
func (s *Server) Serve(l net.Listener) error {
	if s.loop != nil {
		return s.loop.serve(l)
	}
	if err := s.grpc().Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// Unready notifies callers that watch the node's health of the change. Calls are still answered.
func (s *Server) Unready() { s.health.changed() }

// Close asks every connection to move on (GOAWAY) and waits until all calls have finished. When ctx ends, it closes
// connections with calls in flight and returns the error of ctx.
func (s *Server) Close(ctx context.Context) error {
	s.health.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.loop != nil {
			s.loop.drain()
			defer s.loop.wait()
		}
		s.grpc().GracefulStop()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		if s.loop != nil {
			s.loop.abort()
		}
		s.grpc().Stop()
		<-done
		return ctx.Err()
	}
}

// inbound takes up an encoded message.
type inbound struct{ message []byte }

// outbound is an encoded message. It goes back to outPool when it is sent.
type outbound []byte

// codec passes the messages of Envoy's services on as they are, and encodes all others as gRPC does.
type codec struct{}

var generated = encoding.GetCodecV2(proto.Name)

var _ encoding.CodecV2 = codec{}

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (codec) Marshal(v any) (mem.BufferSlice, error) {
	if o, ok := v.(*outbound); ok {
		return mem.BufferSlice{mem.NewBuffer((*[]byte)(o), outPool)}, nil
	}
	return generated.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*inbound)
	if !ok {
		return generated.Unmarshal(data, v)
	}
	in.message = in.message[:0]
	for _, part := range data {
		in.message = append(in.message, part.ReadOnlyData()...)
	}
	return nil
}

// outPool keeps the memory of answers.
var outPool = &bufferPool{pool: sync.Pool{New: func() any { return new([]byte(make([]byte, 0, minAnswer))) }}}

// Answers have at least minAnswer bytes of memory: gRPC returns no smaller ones. Memory above maxAnswer is not kept.
const (
	minAnswer = 2 << 10
	maxAnswer = 16 << 10
)

// bufferPool implements mem.BufferPool.
type bufferPool struct{ pool sync.Pool }

var _ mem.BufferPool = (*bufferPool)(nil)

// Get implements mem.BufferPool.
func (p *bufferPool) Get(length int) *[]byte {
	b, _ := p.pool.Get().(*[]byte)
	if cap(*b) < length {
		*b = make([]byte, 0, length)
	}
	*b = (*b)[:length]
	return b
}

// Put implements mem.BufferPool.
func (p *bufferPool) Put(b *[]byte) {
	if cap(*b) <= maxAnswer {
		p.pool.Put(b)
	}
}
