package envoy

import (
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"

	"sluice/api/decide"
	"sluice/limiter"
)

// The messages of one call, by hand and by generated code (decision 24). A copy of the answer stands for building it.
func BenchmarkMessages(b *testing.B) {
	question := encode(b, &ratelimitv3.RateLimitRequest{Domain: "shop",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("path", "/pay", "user", "u12345")}})
	a := &decide.Answer{Op: limiter.OpTake, Verdict: decide.Allowed, At: epoch, Limits: []decide.LimitAnswer{
		limitAnswer("shop.path-user", 60_000, limiter.Decision{Allowed: true, Limit: 100, Remaining: 50, Reset: 20_000})}}
	s := &Server{deps: Deps{Observe: nopObserver{}}}
	x := newBuffers()
	write := func() []byte {
		x.call.domain, x.out.shows = "shop", allHeaders
		x.out.begin()
		x.out.b = appendNumber(x.out.b, 1, code(false))
		x.out.status(a, &a.Limits[0], false, 50)
		x.a.Answer = *a
		s.rest(x, true, nil)
		return x.out.b
	}
	answer := &ratelimitv3.RateLimitResponse{}
	if err := proto.Unmarshal(write(), answer); err != nil {
		b.Fatal(err)
	}
	b.Run("read by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := x.call.decode(question); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read generated", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := proto.Unmarshal([]byte(question), &ratelimitv3.RateLimitRequest{}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write by hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.call.domain = "shop"
			write()
			outPool.Put((*[]byte)(x.out.take()))
		}
	})
	b.Run("write generated", func(b *testing.B) {
		b.ReportAllocs()
		var to []byte
		for b.Loop() {
			var err error
			if to, err = (proto.MarshalOptions{}).MarshalAppend(to[:0], proto.CloneOf(answer)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
