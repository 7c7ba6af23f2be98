package envoy

import (
	"errors"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/api/decide"
	"sluice/rules"
	"sluice/rules/entries"
)

func encode(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// checkOf is a request to the Authorization service; header pairs follow.
func checkOf(profile, method, path string, header ...string) *authv3.CheckRequest {
	headers := map[string]string{":authority": "shop.example"}
	for i := 0; i+1 < len(header); i += 2 {
		headers[header[i]] = header[i+1]
	}
	address := &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: "203.0.113.9", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711}}}}
	return &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		Source: &authv3.AttributeContext_Peer{Address: address},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Id: "1", Method: method, Path: path, Host: "shop.example", Scheme: "https", Size: -1, Headers: headers}},
		ContextExtensions: map[string]string{extensionProfile: profile, "other": "x"},
	}}
}

// fullRequest has every field of a RateLimitRequest.
func fullRequest() *ratelimitv3.RateLimitRequest {
	full := descriptorOf("path", "/pay", "user", "42")
	full.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typev3.RateLimitUnit_HOUR,
		UnitMultiplier: wrapperspb.UInt32(3)}
	full.HitsAddend, full.IsNegativeHits = wrapperspb.UInt64(1<<40), true
	look := descriptorOf("user", "\u00fc")
	look.HitsAddend = wrapperspb.UInt64(0)
	return &ratelimitv3.RateLimitRequest{Domain: "shop", HitsAddend: 5,
		Descriptors: []*commonv3.RateLimitDescriptor{full, look, descriptorOf("user", "")}}
}

func TestDecode_MakesTheQuestionOfAMessage(t *testing.T) {
	x := newBuffers()
	ask := func(r *ratelimitv3.RateLimitRequest) decide.DescriptorQuestion {
		t.Helper()
		var err error
		if x.call, err = decodeLimit([]byte(encode(t, r))); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(checkLimit(x.call), x.question()); err != nil {
			t.Fatal(err)
		}
		return x.q
	}
	q := ask(fullRequest())
	want := decide.DescriptorQuestion{Domain: "shop", Descriptors: []decide.AskedDescriptor{
		{Entries: []entries.Entry{{Key: "path", Value: "/pay"}, {Key: "user", Value: "42"}}, Addend: 1 << 40,
			Explicit: true, Negative: true, Limit: &decide.SentLimit{Count: 7, Window: 3 * 3_600_000}},
		{Entries: []entries.Entry{{Key: "user", Value: "\u00fc"}}, Addend: 0, Explicit: true},
		{Entries: []entries.Entry{{Key: "user"}}, Addend: 5, Explicit: true},
	}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	q = ask(&ratelimitv3.RateLimitRequest{Domain: "d",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("a", "b")}})
	if q.Descriptors[0].Addend != 1 || q.Descriptors[0].Explicit || q.Descriptors[0].Limit != nil {
		t.Errorf("without an addend: %+v", q.Descriptors[0])
	}
}

func TestUnits_AreTheLargestThatExpressAWindow(t *testing.T) {
	for _, tt := range []struct {
		window     int64
		unit       ratelimitv3.RateLimitResponse_RateLimit_Unit
		multiplier int64
	}{
		{1000, ratelimitv3.RateLimitResponse_RateLimit_SECOND, 1},
		{90_000, ratelimitv3.RateLimitResponse_RateLimit_SECOND, 90},
		{60_000, ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 1},
		{600_000, ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 10},
		{3_600_000, ratelimitv3.RateLimitResponse_RateLimit_HOUR, 1},
		{86_400_000, ratelimitv3.RateLimitResponse_RateLimit_DAY, 1},
		{2 * 86_400_000, ratelimitv3.RateLimitResponse_RateLimit_DAY, 2},
		{7 * 86_400_000, ratelimitv3.RateLimitResponse_RateLimit_WEEK, 1},
		{30 * 86_400_000, ratelimitv3.RateLimitResponse_RateLimit_MONTH, 1},
		{365 * 86_400_000, ratelimitv3.RateLimitResponse_RateLimit_YEAR, 1},
		{500, ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 0},
		{1500, ratelimitv3.RateLimitResponse_RateLimit_UNKNOWN, 0},
	} {
		unit, multiplier := unitOf(tt.window)
		if unit != uint64(tt.unit) || multiplier != tt.multiplier { //nolint:gosec // small
			t.Errorf("%d ms: got %d × unit %d, want %d × %s", tt.window, multiplier, unit, tt.multiplier, tt.unit)
		}
	}
	for name, number := range typev3.RateLimitUnit_value {
		l := &commonv3.RateLimitDescriptor_RateLimitOverride{Unit: typev3.RateLimitUnit(number)}
		if _, err := windowOf(l); (err == nil) != (name != "UNKNOWN") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecode_RefusesMoreThanARuleCanHave(t *testing.T) {
	pairs := make([]string, 2*(rules.MaxEntries+1))
	many := &ratelimitv3.RateLimitRequest{Domain: "d"}
	for range decide.MaxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, descriptorOf("a", "b"))
	}
	one := []*commonv3.RateLimitDescriptor{descriptorOf(pairs...)}
	for what, m := range map[string]*ratelimitv3.RateLimitRequest{
		"entries": &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: one}, "descriptors": many,
	} {
		if err := checkLimit(m); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// FuzzDecodeCheck: what the decoder reads is what the generated code finds. It may accept a message that the generated
// code refuses for a part that it does not read.
func FuzzDecodeCheck(f *testing.F) {
	f.Add([]byte(encode(f, checkOf("shop", "GET", "/users/17?x=1", "x-user", "42", "cookie", "uid=1"))))
	raw := checkOf("shop", "GET", "/")
	raw.Attributes.Request.Http.HeaderMap = &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: "x-user", RawValue: []byte{0xff}}, {Key: "x-user", Value: "b"}}}
	f.Add([]byte(encode(f, raw)))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := &authv3.CheckRequest{}
		wantErr := proto.Unmarshal(b, want)
		var c checkCall
		err := c.decode(string(b))
		if wantErr != nil {
			return
		}
		if err != nil {
			t.Fatalf("got %v", err)
		}
		attributes := want.GetAttributes()
		h := attributes.GetRequest().GetHttp()
		if c.method != h.GetMethod() || c.path != h.GetPath() || c.host != h.GetHost() ||
			c.profile != attributes.GetContextExtensions()[extensionProfile] {
			t.Fatalf("got %+v, want %v", c, want)
		}
		headers := h.GetHeaderMap().GetHeaders()
		if len(c.headers) != len(h.GetHeaders())+len(headers) && len(headers) == 0 {
			t.Fatalf("got %d headers of %d", len(c.headers), len(h.GetHeaders()))
		}
		if len(headers) > 0 {
			return // in one list with the others
		}
		for _, one := range c.headers {
			if h.GetHeaders()[one.name] != one.value {
				t.Fatalf("got %s: %q, want %q", one.name, one.value, h.GetHeaders()[one.name])
			}
		}
	})
}
