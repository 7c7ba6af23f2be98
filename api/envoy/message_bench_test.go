package envoy

import (
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"sluice/api/decide"
	"sluice/limiter"
)

// The messages of calls, by hand and by generated code (decision 24). A copy of the answer stands for building it.
func BenchmarkMessages(b *testing.B) {
	question := []byte(encode(b, &ratelimitv3.RateLimitRequest{Domain: "shop",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("path", "/pay", "user", "u12345")}}))
	request := []byte(encode(b, checkOf("shop", "GET", "/users/17", "x-user", "42", "user-agent", "curl/8.5.0", "accept",
		"*/*", "x-request-id", "7a1c3c1e-3f62-4a0e-9e3b-0d6f3f1c2b4a", "x-forwarded-proto", "https", "x-forwarded-for",
		"203.0.113.9", "accept-encoding", "gzip", "x-envoy-expected-rq-timeout-ms", "15000")))
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, At: epoch, Limits: []decide.LimitAnswer{
		limitAnswer("shop.path-user", 60_000, limiter.Decision{Allowed: true, Limit: 100, Remaining: 50, Reset: 20_000})}}
	s := &Server{deps: Deps{Observe: nopObserver{}}}
	x := newBuffers()
	x.call, x.out.shows, x.a.Answer = &ratelimitv3.RateLimitRequest{Domain: "shop"}, allHeaders, *a
	write := func() []byte {
		x.out.begin()
		x.out.b = appendNumber(x.out.b, 1, code(false))
		x.out.status(a, &a.Limits[0], &a.Limits[0], false, 50)
		s.rest(x, true, nil)
		return x.out.b
	}
	answer := &ratelimitv3.RateLimitResponse{}
	if err := proto.Unmarshal(write(), answer); err != nil {
		b.Fatal(err)
	}
	var to []byte
	for _, bench := range []struct {
		name string
		f    func() error
	}{
		{"read a call of the RateLimitService, generated", func() error {
			_, err := decodeLimit(question)
			return err
		}},
		{"read a call of ext_authz, by hand", func() error { return x.check.decode(string(request)) }},
		{"read a call of ext_authz, generated", func() error { return proto.Unmarshal(request, &authv3.CheckRequest{}) }},
		{"write by hand", func() error {
			write()
			outPool.Put((*[]byte)(x.out.take()))
			return nil
		}},
		{"write generated", func() (err error) {
			to, err = proto.MarshalOptions{}.MarshalAppend(to[:0], proto.CloneOf(answer))
			return err
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := bench.f(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
