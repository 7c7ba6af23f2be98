package envoy

import (
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/entries"
)

// FuzzCalls: whatever bytes arrive, both services answer with a valid message or say that the call is invalid.
func FuzzCalls(f *testing.F) {
	pay := rules.Rule{ID: 2, Name: "pay", Limit: 5, WindowMS: 60_000, IsActive: true, Version: 1}
	pay.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "path", Value: "/pay"},
		{Key: "user"}}}
	pay.Normalize()
	x := newFixture(f, byGRPC, append(perUser(5), pay))
	f.Add([]byte(encode(f, fullRequest())))
	f.Add([]byte(encode(f, checkOf("shop", "GET", "/users/17", "x-user", "42", "x-weight", "x"))))
	f.Add([]byte(encode(f, &ratelimitv3.RateLimitRequest{Domain: "api", Descriptors: fullRequest().GetDescriptors()})))
	with := metadata.NewIncomingContext(f.Context(), metadata.Pairs("sluice-token", x.secrets[access.ScopeCheck]))
	f.Fuzz(func(t *testing.T, b []byte) {
		read := func(v any) error { return codec{}.Unmarshal(mem.BufferSlice{mem.SliceBuffer(b)}, v) }
		for _, service := range []struct {
			method *method
			out    proto.Message
		}{
			{&limitCall, &ratelimitv3.RateLimitResponse{}},
			{&authorizationCall, &authv3.CheckResponse{}},
		} {
			out, err := x.server.serve(with, service.method, read)
			if err != nil {
				if code := status.Code(err); code != codes.InvalidArgument && code != codes.Unavailable {
					t.Fatalf("%s: %v", faceNames[service.method.face], err)
				}
				continue
			}
			message, ok := out.(*outbound)
			if !ok {
				t.Fatalf("got %T", out)
			}
			if err := proto.Unmarshal(*message, service.out); err != nil {
				t.Fatalf("%s: %v", faceNames[service.method.face], err)
			}
		}
		if x.panicked.Load() != 0 {
			t.Fatal(x.logged.String())
		}
	})
}
