package envoy

import (
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/api/decide"
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
	var c limitCall
	if err := c.decode(encode(t, fullRequest())); err != nil {
		t.Fatal(err)
	}
	var q decide.DescriptorQuestion
	c.question(&q, nil)
	want := decide.DescriptorQuestion{Domain: "shop", Descriptors: []decide.AskedDescriptor{
		{Entries: []entries.Entry{{Key: "path", Value: "/pay"}, {Key: "user", Value: "42"}}, Addend: 1 << 40,
			Explicit: true, Negative: true, Limit: &decide.SentLimit{Count: 7, Window: 3 * 3_600_000}},
		{Entries: []entries.Entry{{Key: "user", Value: "\u00fc"}}, Addend: 0, Explicit: true},
		{Entries: []entries.Entry{{Key: "user"}}, Addend: 5, Explicit: true},
	}}
	if diff := cmp.Diff(want, q); diff != "" {
		t.Error(diff)
	}
	if err := c.decode(encode(t, &ratelimitv3.RateLimitRequest{Domain: "d",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("a", "b")}})); err != nil {
		t.Fatal(err)
	}
	if c.question(&q, nil); q.Descriptors[0].Addend != 1 || q.Descriptors[0].Explicit || q.Descriptors[0].Limit != nil {
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
		d := descriptor{unit: number}
		if _, err := d.windowOf(); (err == nil) != (name != "UNKNOWN") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDecode_RefusesMoreThanARuleCanHave(t *testing.T) {
	var c limitCall
	pairs := make([]string, 2*(maxEntries+1))
	many := &ratelimitv3.RateLimitRequest{Domain: "d"}
	for range decide.MaxDescriptors + 1 {
		many.Descriptors = append(many.Descriptors, descriptorOf("a", "b"))
	}
	one := []*commonv3.RateLimitDescriptor{descriptorOf(pairs...)}
	for what, m := range map[string]proto.Message{
		"entries": &ratelimitv3.RateLimitRequest{Domain: "d", Descriptors: one}, "descriptors": many,
	} {
		if err := c.decode(encode(t, m)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: got %v", what, err)
		}
	}
}

// FuzzDecodeLimit: the decoder finds what the generated code finds, and accepts what that accepts.
func FuzzDecodeLimit(f *testing.F) {
	f.Add([]byte(encode(f, fullRequest())))
	f.Add([]byte("\x0a\x01\xff"))
	f.Add(protowire.AppendTag(nil, 9, protowire.StartGroupType))
	f.Fuzz(func(t *testing.T, b []byte) {
		want := &ratelimitv3.RateLimitRequest{}
		wantErr := proto.Unmarshal(b, want)
		var c limitCall
		err := c.decode(string(b))
		if err != nil && strings.Contains(err.Error(), "at most") {
			return // a bound that the generated code does not have
		}
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("got %v, the generated code has %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if c.domain != want.GetDomain() || c.addend != want.GetHitsAddend() ||
			len(c.descriptors) != len(want.GetDescriptors()) {
			t.Fatalf("got %+v, want %v", c, want)
		}
		for i, d := range c.descriptors {
			w := want.GetDescriptors()[i]
			if d.negative != w.GetIsNegativeHits() || d.addend != w.GetHitsAddend().GetValue() ||
				d.explicit != (w.GetHitsAddend() != nil) || d.limited != (w.GetLimit() != nil) ||
				d.perUnit != w.GetLimit().GetRequestsPerUnit() || d.unit != int32(w.GetLimit().GetUnit()) ||
				d.multiplier != w.GetLimit().GetUnitMultiplier().GetValue() || d.last-d.first != len(w.GetEntries()) {
				t.Fatalf("got %+v, want %v", d, w)
			}
			for n, e := range c.entries[d.first:d.last] {
				if e.Key != w.GetEntries()[n].GetKey() || e.Value != w.GetEntries()[n].GetValue() {
					t.Fatalf("got %+v, want %v", e, w.GetEntries()[n])
				}
			}
		}
	})
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
