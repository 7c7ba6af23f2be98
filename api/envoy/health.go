package envoy

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// health is grpc.health.v1.Health. It gives the same answer for the node ("") and for each service, and needs no token.
type health struct {
	grpc_health_v1.UnimplementedHealthServer
	ready func() error

	mu      sync.Mutex
	update  chan struct{} // closed when the state has changed
	stopped chan struct{} // closed by stop
	once    sync.Once

	watching map[string]int // calls of Watch by the address of the client; locked by mu
}

func newHealth(ready func() error) *health {
	return &health{ready: ready, update: make(chan struct{}), stopped: make(chan struct{}), watching: map[string]int{}}
}

// changed wakes the watching calls.
func (h *health) changed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.update)
	h.update = make(chan struct{})
}

// stop ends the watching calls, which would never end otherwise.
func (h *health) stop() { h.once.Do(func() { close(h.stopped) }) }

func (h *health) state() grpc_health_v1.HealthCheckResponse_ServingStatus {
	if h.ready() != nil {
		return grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return grpc_health_v1.HealthCheckResponse_SERVING
}

func knows(service string) bool { return service == "" || slices.Contains(Services(), service) }

// Check implements grpc_health_v1.HealthServer.
func (h *health) Check(_ context.Context, r *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse,
	error) {
	if !knows(r.GetService()) {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &grpc_health_v1.HealthCheckResponse{Status: h.state()}, nil
}

// List implements grpc_health_v1.HealthServer.
func (h *health) List(context.Context, *grpc_health_v1.HealthListRequest) (*grpc_health_v1.HealthListResponse, error) {
	statuses := map[string]*grpc_health_v1.HealthCheckResponse{}
	for _, service := range append(Services(), "") {
		statuses[service] = &grpc_health_v1.HealthCheckResponse{Status: h.state()}
	}
	return &grpc_health_v1.HealthListResponse{Statuses: statuses}, nil
}

// maxWatches bounds the calls of Watch of one connection. They need no token and never end, and a client with many must
// not keep others from watching.
const maxWatches = 16

// bound refuses calls of Watch above maxWatches.
func (h *health) bound(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, watch grpc.StreamHandler) error {
	if info.FullMethod != grpc_health_v1.Health_Watch_FullMethodName {
		return watch(srv, stream)
	}
	client := "" // with its port: one connection
	if p, ok := peer.FromContext(stream.Context()); ok {
		client = p.Addr.String()
	}
	h.mu.Lock()
	h.watching[client]++
	many := h.watching[client] > maxWatches
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.watching[client]--; h.watching[client] == 0 {
			delete(h.watching, client)
		}
	}()
	if many {
		return status.Errorf(codes.ResourceExhausted, "a connection can watch the health of this node %d times",
			maxWatches)
	}
	return watch(srv, stream)
}

// watchInterval is how often a watch compares the state even without a notification.
const watchInterval = time.Second

// Watch implements grpc_health_v1.HealthServer.
func (h *health) Watch(r *grpc_health_v1.HealthCheckRequest,
	stream grpc.ServerStreamingServer[grpc_health_v1.HealthCheckResponse]) error {
	ctx := stream.Context()
	arrived(ctx)
	ticks := time.NewTicker(watchInterval)
	defer ticks.Stop()
	var sent *grpc_health_v1.HealthCheckResponse
	for {
		h.mu.Lock()
		update := h.update
		h.mu.Unlock()
		state := grpc_health_v1.HealthCheckResponse_SERVICE_UNKNOWN
		if knows(r.GetService()) {
			state = h.state()
		}
		if sent == nil || sent.GetStatus() != state {
			sent = &grpc_health_v1.HealthCheckResponse{Status: state}
			if err := stream.Send(sent); err != nil {
				return err
			}
		}
		select {
		case <-ticks.C:
		case <-update:
		case <-h.stopped:
			return status.Error(codes.Unavailable, "the node is shutting down")
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}
