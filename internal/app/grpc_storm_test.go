package app

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/rules/profile"
)

// domainCall returns a call of the domain shop with one descriptor of one entry.
func domainCall(key, value string) *ratelimitv3.RateLimitRequest {
	return &ratelimitv3.RateLimitRequest{Domain: "shop", Descriptors: []*commonv3.RateLimitDescriptor{{
		Entries: []*commonv3.RateLimitDescriptor_Entry{{Key: key, Value: value}}}}}
}

// passes makes a call and reports whether it is allowed.
func (d *dialled) passes(t *testing.T, q *ratelimitv3.RateLimitRequest) bool {
	t.Helper()
	a, err := d.ShouldRateLimit(t.Context(), q)
	if err != nil {
		t.Error(err)
		return false
	}
	return a.GetOverallCode() == ratelimitv3.RateLimitResponse_OK
}

func TestGRPC_StormOverEveryFaceOfTwoNodesAdmitsExactlyTheLimit(t *testing.T) {
	withLoopAndWithout(t, grpcStormOverEveryFaceOfTwoNodesAdmitsExactlyTheLimit)
}

func grpcStormOverEveryFaceOfTwoNodesAdmitsExactlyTheLimit(t *testing.T, loop string) {
	cfg := sharedSettings(t)
	cfg.Loop = loop
	withProfile(t, cfg, func(p *profile.Profile) { p.Domain, p.Entries = "shop", map[string]string{"user": "user"} })
	first, firstAddr := startGRPC(t, cfg)
	second, secondAddr := startGRPC(t, cfg)
	const limit = 100
	first.create(fmt.Sprintf(`{"name":"r","scope":"user","limit":%d,"window_ms":31536000000,"fail_mode":"closed"}`, limit))
	eventually(t, "the rule is in force on both nodes", func() bool {
		return len(second.check(`{"user":"probe","weight":0}`)["limits"].([]any)) == 1
	})
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for _, side := range []struct {
		n    *node
		addr string
	}{{first, firstAddr}, {second, secondAddr}} {
		d := dialGRPC(t, side.addr, nil)
		authz := authv3.NewAuthorizationClient(d.conn)
		for _, way := range []func() bool{
			func() bool { return d.passes(t, domainCall("user", "u")) },
			func() bool {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+side.n.token)
				a, err := authz.Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
					ContextExtensions: map[string]string{"sluice-profile": "shop"},
					Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
						Method: http.MethodGet, Path: "/", Host: "shop.example", Headers: map[string]string{"x-user": "u"}}},
				}})
				if err != nil {
					t.Error(err)
					return false
				}
				return a.GetStatus().GetCode() == int32(codes.OK)
			},
			func() bool { return side.n.allowed(`{"user":"u"}`) },
			func() bool {
				code, _ := side.n.send(http.MethodPost, "/ratelimit/rls",
					`{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"u"}]}]}`)
				return code == http.StatusOK
			},
		} {
			for range 3 {
				wg.Go(func() {
					for range 10 {
						if way() {
							admitted.Add(1)
						}
					}
				})
			}
		}
	}
	wg.Wait()
	if got := admitted.Load(); got != limit {
		t.Errorf("%d of 240 admitted, want exactly %d", got, limit)
	}
}

// TestGRPC_StormWithCancellationsAdmitsExactlyTheLimit: what is canceled may be charged, and is never admitted twice.
func TestGRPC_StormWithCancellationsAdmitsExactlyTheLimit(t *testing.T) {
	withLoopAndWithout(t, grpcStormWithCancellations)
}

func grpcStormWithCancellations(t *testing.T, loop string) {
	p := standingPair(t, loop)
	n, addr := p.nodes[0], p.addrs[0]
	const limit, connections, callers, calls = 500, 4, 8, 30
	n.create(fmt.Sprintf(`{"name":"storm","limit":%d,"window_ms":31536000000,"fail_mode":"closed",
		"descriptor":{"domain":"shop","entries":[{"key":"storm"}]}}`, limit))
	first := dialGRPC(t, addr, nil)
	eventually(t, "the rule is in force", func() bool {
		look := domainCall("storm", "probe")
		look.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
		a, err := first.ShouldRateLimit(t.Context(), look)
		return err == nil && a.GetStatuses()[0].GetCurrentLimit() != nil
	})
	var admitted, canceled atomic.Int64
	var wg sync.WaitGroup
	for range connections {
		d := dialGRPC(t, addr, nil)
		for range callers {
			wg.Go(func() {
				for i := range calls {
					ctx, cancel := context.WithCancel(t.Context())
					if i%3 == 0 {
						time.AfterFunc(time.Duration(i)*20*time.Microsecond, cancel)
					}
					a, err := d.ShouldRateLimit(ctx, domainCall("storm", "u"))
					switch cancel(); {
					case status.Code(err) == codes.Canceled:
						canceled.Add(1)
					case err != nil:
						t.Error(err)
					case a.GetOverallCode() == ratelimitv3.RateLimitResponse_OK:
						admitted.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	for first.passes(t, domainCall("storm", "u")) {
		admitted.Add(1)
	}
	if got := admitted.Load(); got > limit || got < limit-canceled.Load() {
		t.Errorf("%d admitted and %d canceled, the limit is %d", got, canceled.Load(), limit)
	}
}

// The slots of an addend are held from a call to its negative hit. A client that is killed in between holds its slots
// until window_ms has passed.
func TestGRPC_ConcurrencyByNegativeHitsHoldsAndHeals(t *testing.T) {
	withLoopAndWithout(t, grpcConcurrencyByNegativeHits)
}

func grpcConcurrencyByNegativeHits(t *testing.T, loop string) {
	for _, addend := range []uint64{1, 3} {
		t.Run(fmt.Sprintf("addend %d", addend), func(t *testing.T) { concurrencyHolds(t, loop, addend) })
	}
}

func concurrencyHolds(t *testing.T, loop string, addend uint64) {
	p := standingPair(t, loop)
	first, firstAddr, secondAddr := p.nodes[0], p.addrs[0], p.addrs[1]
	const limit, killed = 5, 2 // calls
	held, healed := fmt.Sprint("held-", addend), fmt.Sprint("healed-", addend)
	for name, window := range map[string]int64{held: 31_536_000_000, healed: 500} {
		first.create(fmt.Sprintf(`{"name":%q,"algorithm":"concurrency","limit":%d,"window_ms":%d,"fail_mode":"closed",
			"descriptor":{"domain":"shop","entries":[{"key":%[1]q}]}}`, name, limit*addend, window))
	}
	take := func(key string) *ratelimitv3.RateLimitRequest {
		call := domainCall(key, "u")
		call.Descriptors[0].HitsAddend = wrapperspb.UInt64(addend)
		return call
	}
	other := dialGRPC(t, secondAddr, nil)
	eventually(t, "the rules are in force on both nodes", func() bool {
		look := domainCall(held, "probe")
		look.Descriptors = append(look.Descriptors, domainCall(healed, "probe").Descriptors...)
		for _, d := range look.Descriptors {
			d.HitsAddend = wrapperspb.UInt64(0)
		}
		a, err := other.ShouldRateLimit(t.Context(), look)
		return err == nil && a.GetStatuses()[0].GetCurrentLimit() != nil && a.GetStatuses()[1].GetCurrentLimit() != nil
	})
	negative := take(held)
	negative.Descriptors[0].IsNegativeHits = true
	var holders, most, passed atomic.Int64
	var wg sync.WaitGroup
	// More than the limit, and few enough that each release finds its turn on a busy machine: one that does not is lost.
	for i := range limit + 3 {
		d := dialGRPC(t, []string{firstAddr, secondAddr}[i%2], nil)
		wg.Go(func() {
			for {
				if !d.passes(t, take(held)) {
					if i >= killed && passed.Load() >= 200 || t.Failed() {
						return
					}
					continue
				}
				now := holders.Add(1)
				for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
				}
				if i < killed {
					_ = d.conn.Close() // killed: it never gives back
					return
				}
				holders.Add(-1)
				if !d.passes(t, negative) || passed.Add(1) >= 200 {
					return
				}
			}
		})
	}
	wg.Wait()
	if got := most.Load(); got > limit {
		t.Errorf("%d calls held slots at once, the limit is %d", got, limit)
	}
	d := dialGRPC(t, firstAddr, nil)
	free := 0
	for d.passes(t, take(held)) && free <= limit {
		free++
	}
	if free != limit-killed {
		t.Errorf("%d calls fit after all, want %d", free, limit-killed)
	}
	for range limit { // by clients that are gone now
		d.passes(t, take(healed))
	}
	eventually(t, "the slots of killed clients are free", func() bool { return d.passes(t, take(healed)) })
}
