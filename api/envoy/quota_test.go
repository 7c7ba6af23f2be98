package envoy

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/api/envoy/quota"
	"sluice/internal/access"
	"sluice/rules"
	"sluice/rules/entries"
)

// quotaRules are a rule with buckets of users, of n units per minute.
func quotaRules(n int64, edit ...func(*rules.Rule)) []rules.Rule {
	return perUser(n, append(edit, func(r *rules.Rule) {
		r.Scope = ""
		r.Descriptor = &rules.RuleDescriptor{Domain: "shop", Entries: []entries.Element{{Key: "name"}, {Key: "user"}}}
	})...)
}

type quotaStream struct {
	f    *fixture
	conn grpc.BidiStreamingClient[quotav3.RateLimitQuotaUsageReports, quotav3.RateLimitQuotaResponse]
}

func (f *fixture) quotas(ctx context.Context) *quotaStream {
	f.t.Helper()
	conn, err := quotav3.NewRateLimitQuotaServiceClient(f.conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	return &quotaStream{f, conn}
}

func usage(user string, allowed, denied uint64) *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage {
	return &quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		BucketId:           &quotav3.BucketId{Bucket: map[string]string{"user": user, "name": "per-user"}},
		NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}
}

func (q *quotaStream) report(domain string, list ...*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	q.f.t.Helper()
	err := q.conn.Send(&quotav3.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: list})
	if err != nil && !errors.Is(err, io.EOF) { // Recv has the reason
		q.f.t.Fatal(err)
	}
}

// actions is the next message for people: "42: deny 59s", "42: 100 59s".
func (q *quotaStream) actions() []string {
	q.f.t.Helper()
	m, err := q.conn.Recv()
	if err != nil {
		q.f.t.Fatal(err)
	}
	var all []string
	for _, a := range m.GetBucketAction() {
		user, what := a.GetBucketId().GetBucket()["user"], "abandon"
		if q := a.GetQuotaAssignmentAction(); q != nil {
			s := q.GetRateLimitStrategy()
			if what = "allow"; s.GetBlanketRule() == typev3.RateLimitStrategy_DENY_ALL {
				what = "deny"
			}
			if b := s.GetTokenBucket(); b != nil {
				what = fmt.Sprint(b.GetMaxTokens())
				if b.GetTokensPerFill().GetValue() != 0 || b.GetFillInterval().GetSeconds() != 1 {
					what += " refilled"
				}
			}
			what += " " + q.GetAssignmentTimeToLive().AsDuration().String()
		}
		all = append(all, user+": "+what)
	}
	return all
}

func (q *quotaStream) want(list ...string) {
	q.f.t.Helper()
	if got := q.actions(); fmt.Sprint(got) != fmt.Sprint(list) {
		q.f.t.Errorf("got %q, want %q", got, list)
	}
}

// ends fails the test unless the stream ends with a code.
func (q *quotaStream) ends(what string, want codes.Code) {
	q.f.t.Helper()
	for {
		if _, err := q.conn.Recv(); err != nil {
			q.f.wantCode(what, err, want)
			return
		}
	}
}

func TestQuota_ALumpIsDenyAllAndABucketInOneMessage(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, quotaRules(1000))
		f.now.Add(10_000)
		q := f.quotas(f.with(access.ScopeCheck))
		q.report("shop", usage("42", 0, 1))
		q.want("42: deny 49s", "42: 50 49s") // a 20th, because the demand is unknown
		f.now.Add(5000)
		q.report("", usage("42", 50, 150)) // 40 requests per second
		q.want("42: deny 44s", "42: 950 44s")
		// Nothing is left. What RLS says of the same bucket:
		answer, err := f.call("shop", descriptorOf("name", "per-user", "user", "42"))
		if err != nil || answer.GetStatuses()[0].GetLimitRemaining() != 0 {
			t.Errorf("RLS: %v, %v", answer, err)
		}
		if got := f.counted("units granted"); got != 1000 {
			t.Errorf("%d units were counted as granted", got)
		}
		f.now.Store(epoch + 60_001)
		q.report("", usage("42", 900, 0), usage("43", 0, 1))
		seen := map[string]bool{}
		for len(seen) < 4 { // in one message or two
			for _, a := range q.actions() {
				seen[a] = true
			}
		}
		if !seen["42: deny 59s"] || !seen["43: 50 59s"] {
			t.Errorf("at the next window: %v", seen)
		}
		// Idle for two reports.
		until := func(action string) {
			for !strings.Contains(fmt.Sprint(q.actions()), action) {
			}
		}
		f.now.Store(epoch + 65_001)
		q.report("", usage("42", 0, 0))
		q.report("", usage("42", 0, 0), usage("43", 50, 150))
		until("43: deny") // both have come
		f.now.Store(epoch + 126_000)
		q.report("", usage("42", 0, 0), usage("43", 1, 0))
		until("43: deny")
		f.now.Add(5000)
		q.report("", usage("42", 0, 0), usage("43", 1, 0))
		until("42: abandon")
	})
}

func TestQuota_BucketsWithoutLumpsAreDenied(t *testing.T) {
	f := newFixture(t, byLoop, quotaRules(1000, func(r *rules.Rule) { r.WindowMS = 1000 }))
	q := f.quotas(f.with(access.ScopeCheck))
	q.report("shop", usage("42", 0, 1))
	q.want("42: deny 1m5s")
	q = f.quotas(f.with(access.ScopeCheck))
	q.report("other", usage("42", 0, 1))
	q.want("42: deny 1m5s")
	if f.counted("quota window") != 1 || f.counted("quota no_rule") != 1 {
		t.Errorf("counted: %v", f.counts)
	}
	f.load(2, quotaRules(0, func(r *rules.Rule) { r.Unlimited, r.WindowMS, r.Algorithm = true, 0, "" }))
	q = f.quotas(f.with(access.ScopeCheck))
	q.report("shop", usage("42", 0, 1))
	q.want("42: allow 1m5s")
}

func TestQuota_NeedsATokenThatLasts(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, quotaRules(1000))
		f.quotas(f.with("")).ends("without a token", codes.Unauthenticated)
		f.quotas(f.with(access.ScopeRulesRead)).ends("without the scope", codes.PermissionDenied)
		if f.counted("quota", "refused") != 2 || f.counted("envoy_quota", access.LacksScope.String()) != 1 {
			t.Errorf("counted: %v", f.counts)
		}
		q := f.quotas(f.with(access.ScopeCheck))
		q.report("shop", usage("42", 0, 1))
		q.actions()
		f.tokens(nil) // others
		q.ends("after the token", codes.Unauthenticated)
	})
}

func TestQuota_RefusesWhatHasNoMeaning(t *testing.T) {
	many := map[string]string{}
	for i := range 33 {
		many[fmt.Sprint(i)] = ""
	}
	for name, u := range map[string]*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{
		"no bucket":     {},
		"an empty key":  {BucketId: &quotav3.BucketId{Bucket: map[string]string{"": "a"}}},
		"many keys":     {BucketId: &quotav3.BucketId{Bucket: many}},
		"a long value":  usage(strings.Repeat("a", 4<<10), 0, 1),
		"a large count": usage("42", 1<<53, 0),
		"a large sum":   usage("42", 1<<63, 1<<63),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, byLoop, quotaRules(1000))
			q := f.quotas(f.with(access.ScopeCheck))
			q.report("shop", u)
			q.ends(name, codes.InvalidArgument)
			if f.counted("quota", "invalid") < 1 {
				t.Errorf("counted: %v", f.counts)
			}
		})
	}
	f := newFixture(t, byLoop, quotaRules(1000))
	q := f.quotas(f.with(access.ScopeCheck))
	q.report("", usage("42", 0, 1))
	q.ends("no domain", codes.InvalidArgument)
	q = f.quotas(f.with(access.ScopeCheck))
	q.report("shop", usage("42", 0, 1))
	q.report("other", usage("42", 0, 1))
	q.ends("another domain", codes.InvalidArgument)
	q = f.quotas(f.with(access.ScopeCheck))
	var list []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage
	for i := range 60_000 {
		list = append(list, usage(fmt.Sprint(i), 0, 1))
	}
	for range 5 {
		q.report("shop", list...)
	}
	q.ends("too often", codes.ResourceExhausted)
}

// Messages that cannot be read, and one that would take 256 MiB.
func TestQuota_RefusesWhatItCannotRead(t *testing.T) {
	for name, text := range map[string]string{
		"protobuf":        "\xff\xff\xff\xff",
		"UTF-8":           "\x0a\x02\xff\xfe",
		"2 million empty": "\x0a\x04shop" + strings.Repeat("\x12\x00", quota.MaxMessage/2-3),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, byLoop, quotaRules(1000))
			conn, err := f.conn.NewStream(f.with(access.ScopeCheck), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true},
				quotav3.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName, grpc.ForceCodecV2(textCodec{}))
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if err := conn.SendMsg(text); err != nil {
				t.Fatal(err)
			}
			f.wantCode(name, conn.RecvMsg(new(string)), codes.InvalidArgument)
			runtime.ReadMemStats(&after)
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes allocated", got)
			}
			if f.counted("quota", "invalid") < 1 {
				t.Errorf("counted: %v", f.counts)
			}
		})
	}
}

// A proxy that says it sends no more ends the stream without an error.
func TestQuota_EndsWithItsProxy(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, quotaRules(1000))
		q := f.quotas(f.with(access.ScopeCheck))
		q.report("shop", usage("42", 0, 1))
		q.actions()
		if err := q.conn.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := q.conn.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end", err)
		}
	})
}

// All buckets that a stream may have fit into one message.
func TestQuota_SixtyThousandBuckets(t *testing.T) {
	f := newFixture(t, byLoop, quotaRules(1000))
	q := f.quotas(f.with(access.ScopeCheck))
	var list []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage
	for i := range 60_000 {
		list = append(list, usage(fmt.Sprint(i), 0, 1))
	}
	q.report("shop", list...)
	q.report("shop", usage("one more", 0, 1))
	for got := 0; got < 120_000; {
		got += len(q.actions())
	}
	if f.counted("quota", "too_many_buckets") != 1 {
		t.Errorf("counted: %v", f.counts)
	}
}

// A report above 64 KiB.
func TestQuota_GRPCReceivesLargeReports(t *testing.T) {
	f := newFixture(t, byGRPC, quotaRules(1000))
	q := f.quotas(f.with(access.ScopeCheck))
	var list []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage
	for i := range 3000 {
		list = append(list, usage(fmt.Sprint(i), 0, 1))
	}
	q.report("shop", list...)
	q.actions()
}

// A stream lasts, beside other calls of its connection, until the node drains.
func TestQuota_LastsUntilTheNodeDrains(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, quotaRules(100_000))
		f.server.messageWait = 1
		q := f.quotas(f.with(access.ScopeCheck))
		q.report("shop", usage("42", 0, 1))
		q.actions()
		// The message of another call does not come, and it ends. grpc-go says DeadlineExceeded if the wait was over
		// before its own first look.
		other, err := f.conn.NewStream(f.with(access.ScopeCheck), &grpc.StreamDesc{ClientStreams: true},
			ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		ended := other.RecvMsg(&ratelimitv3.RateLimitResponse{})
		if code := status.Code(ended); code != codes.Canceled && code != codes.DeadlineExceeded {
			t.Errorf("without a message: %v", ended)
		}
		f.now.Add(5000)
		q.report("", usage("42", 5000, 10_000))
		q.actions()
		f.notReady.Store(true)
		f.quotas(f.with(access.ScopeCheck)).ends("a new stream", codes.Unavailable)
		closed := make(chan error, 1)
		go func() { closed <- f.server.Close(t.Context()) }()
		q.ends("at the drain", codes.Unavailable)
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}

type panicBoard struct{}

func (panicBoard) Exchange(context.Context, string, quota.Demand, int64) (quota.Demand, error) {
	panic("board")
}

func (panicBoard) Others(context.Context, string) (quota.Demand, error) { return quota.Demand{}, nil }

func TestQuota_APanicCountsOnce(t *testing.T) {
	bothWays(t, func(t *testing.T, by way) {
		f := newFixture(t, by, quotaRules(1000), func(d *Deps) { d.Quotas = panicBoard{} })
		q := f.quotas(f.with(access.ScopeCheck))
		q.report("shop", usage("42", 0, 1))
		q.ends("a panic", codes.Internal)
		if got := f.counted("quota", "error"); got != 1 || f.panicked.Load() != 1 {
			t.Errorf("%d calls and %d panics were counted", got, f.panicked.Load())
		}
	})
}

// The streams of a token are bounded together, whichever way it is sent.
func TestQuota_ATokenIsOneCaller(t *testing.T) {
	same := []*sender{{authorization: []string{"Bearer a"}}, {authorization: []string{"bearer  a"}},
		{token: []string{" a"}},
		{authorization: []string{"Bearer a"}, authority: "other"}}
	others := []*sender{{}, {authorization: []string{"Bearer b"}}, {chains: [][]*x509.Certificate{{{Raw: []byte{1}}}}},
		{chains: [][]*x509.Certificate{{{Raw: []byte{2}}}}}}
	seen := map[string]bool{}
	for _, s := range append(same, others...) {
		seen[s.identity()] = true
	}
	if len(seen) != 1+len(others) {
		t.Errorf("%d callers, want %d", len(seen), 1+len(others))
	}
}
