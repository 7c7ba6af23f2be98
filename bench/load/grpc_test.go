package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// echo answers a call with its own user as the name of the limit. Some users are denied or get an error.
type echo struct {
	rls.UnimplementedRateLimitServiceServer
}

func (echo) ShouldRateLimit(_ context.Context, in *rls.RateLimitRequest) (*rls.RateLimitResponse, error) {
	if len(in.Descriptors) == 0 {
		return nil, status.Error(codes.InvalidArgument, "no descriptors")
	}
	user := in.Descriptors[0].Entries[0].Value
	out := &rls.RateLimitResponse{OverallCode: rls.RateLimitResponse_OK}
	switch {
	case strings.HasPrefix(user, "error"):
		return nil, status.Error(codes.Unavailable, "no luck")
	case strings.HasPrefix(user, "denied"):
		out.OverallCode = rls.RateLimitResponse_OVER_LIMIT
	}
	out.Statuses = []*rls.RateLimitResponse_DescriptorStatus{{Code: out.OverallCode,
		CurrentLimit: &rls.RateLimitResponse_RateLimit{Name: user}}}
	return out, nil
}

// serveEcho serves it until the test ends.
func serveEcho(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	rls.RegisterRateLimitServiceServer(s, echo{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l) // until it is stopped
	}()
	t.Cleanup(func() { s.Stop(); <-ended })
	return l.Addr().String()
}

func askFor(t *testing.T, user string) []byte {
	t.Helper()
	b, err := prefixed(&rls.RateLimitRequest{Domain: "bench", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
		Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The messages of all callers together are above the window of the connection, so callers wait for room.
func TestH2_EveryCallerGetsItsOwnAnswer(t *testing.T) {
	c, err := dialH2(t.Context(), serveEcho(t), shouldRateLimit.method)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	long := strings.Repeat("x", 12<<10)
	var wg sync.WaitGroup
	for i := range 64 {
		users := []string{fmt.Sprint(i), fmt.Sprint(i) + long}
		messages := [][]byte{askFor(t, users[0]), askFor(t, users[1])}
		wg.Go(func() {
			call := newH2call()
			for n := range 100 {
				got, err := c.do(call, messages[n%2])
				if err != nil {
					t.Errorf("caller %d: %v", i, err)
					return
				}
				var answer rls.RateLimitResponse
				if err := proto.Unmarshal(got, &answer); err != nil {
					t.Errorf("caller %d: %v", i, err)
				}
				if name := answer.Statuses[0].CurrentLimit.Name; name != users[n%2] {
					t.Errorf("caller %d got the answer of %.10s", i, name)
				}
				if !limitAllows(got) {
					t.Errorf("caller %d: %v does not count as OK", i, &answer)
				}
			}
		})
	}
	wg.Wait()
}

func TestH2_ErrorsAndDenialsAreSeen(t *testing.T) {
	c, err := dialH2(t.Context(), serveEcho(t), shouldRateLimit.method)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	call := newH2call()
	for range 2 { // the second time, all headers are in the table
		if _, err := c.do(call, askFor(t, "error")); err == nil || !strings.Contains(err.Error(), `14 "no luck"`) {
			t.Errorf("UNAVAILABLE came as %v", err)
		}
		got, err := c.do(call, askFor(t, "denied"))
		if err != nil || limitAllows(got) {
			t.Errorf("OVER_LIMIT came as %x, %v", got, err)
		}
	}
}

func TestH2_CallsEndWithTheConnection(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		l.Close()
		if err == nil {
			c.Close()
		}
	}()
	if _, err := dialH2(t.Context(), l.Addr().String(), shouldRateLimit.method); err == nil {
		t.Error("a call ended well on a closed connection")
	}
}

func TestAllows(t *testing.T) {
	one := []*rls.RateLimitResponse_DescriptorStatus{{}}
	ok, over := rls.RateLimitResponse_OK, rls.RateLimitResponse_OVER_LIMIT
	denied := &auth.CheckResponse_DeniedResponse{DeniedResponse: &auth.DeniedHttpResponse{Body: "no"}}
	passed := &auth.CheckResponse_OkResponse{OkResponse: &auth.OkHttpResponse{
		Headers: []*core.HeaderValueOption{{Header: &core.HeaderValue{Key: "a", Value: "b"}}}}}
	for name, tt := range map[string]struct {
		allows  func([]byte) bool
		message proto.Message
		want    bool
	}{
		"limit OK":           {limitAllows, &rls.RateLimitResponse{OverallCode: ok, Statuses: one}, true},
		"limit over":         {limitAllows, &rls.RateLimitResponse{OverallCode: over, Statuses: one}, false},
		"limit without code": {limitAllows, &rls.RateLimitResponse{Statuses: one}, false},
		"two statuses":       {limitAllows, &rls.RateLimitResponse{OverallCode: ok, Statuses: append(one, one...)}, false},
		"check OK":           {authzAllows, &auth.CheckResponse{Status: &rpcstatus.Status{}, HttpResponse: passed}, true},
		"check with a code": {authzAllows, &auth.CheckResponse{Status: &rpcstatus.Status{Code: 8}, HttpResponse: passed},
			false},
		"check denied": {authzAllows, &auth.CheckResponse{Status: &rpcstatus.Status{}, HttpResponse: denied}, false},
	} {
		b, err := proto.Marshal(tt.message)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.allows(b); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
		if len(b) > 0 && tt.allows(b[:len(b)-1]) && errors.Is(proto.Unmarshal(b[:len(b)-1], tt.message), proto.Error) {
			t.Errorf("%s: a message that was cut off allows", name)
		}
	}
}
