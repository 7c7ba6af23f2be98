package playbook

import (
	"math"
	"sort"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const envoyRules = `rules:
  - {name: pay, limit: 3, window_ms: 60000, algorithm: fixed_window, metadata: {team: payments},
     descriptor: {domain: shop, entries: [{key: path, value: /pay}, {key: user}]}}
  - {name: path, limit: 5, window_ms: 600000, algorithm: fixed_window,
     descriptor: {domain: shop, entries: [{key: path}]}}
  - {name: trial, limit: 1, window_ms: 1500, algorithm: fixed_window, mode: shadow,
     descriptor: {domain: shop, entries: [{key: trial}]}}
  - {name: staff, unlimited: true, descriptor: {domain: shop, entries: [{key: staff}]}}
  - {name: tokens, limit: 900, window_ms: 3600000, algorithm: fixed_window, addend: charge,
     descriptor: {domain: shop, entries: [{key: model}]}}
  - {name: slots, limit: 2, window_ms: 60000, algorithm: concurrency,
     descriptor: {domain: shop, entries: [{key: slot}]}}
`

// call is one call in a journey of Envoy, and what its answer must have.
type call struct {
	descriptors []*commonv3.RateLimitDescriptor
	over        bool
	// want has one line for each descriptor.
	want []line
}

type line struct {
	rule       string
	over       bool
	perUnit    uint32
	unit       ratelimitv3.RateLimitResponse_RateLimit_Unit
	multiplier uint32
	remaining  uint32
}

// of makes a descriptor of keys and values; addend -1 is none.
func of(addend int64, pairs ...string) *commonv3.RateLimitDescriptor {
	d := &commonv3.RateLimitDescriptor{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &commonv3.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	if addend >= 0 {
		d.HitsAddend = wrapperspb.UInt64(uint64(addend))
	}
	return d
}

func negative(d *commonv3.RateLimitDescriptor) *commonv3.RateLimitDescriptor {
	d.IsNegativeHits = true
	return d
}

func list(d ...*commonv3.RateLimitDescriptor) []*commonv3.RateLimitDescriptor { return d }

// envoyJourney is a series of calls at one instant.
func envoyJourney() map[string]call {
	const minute, hour = ratelimitv3.RateLimitResponse_RateLimit_MINUTE, ratelimitv3.RateLimitResponse_RateLimit_HOUR
	pay := func(remaining uint32, over bool) line {
		return line{rule: "pay", over: over, perUnit: 3, unit: minute, remaining: remaining}
	}
	path := func(remaining uint32) line {
		return line{rule: "path", perUnit: 5, unit: minute, multiplier: 10, remaining: remaining}
	}
	tokens := func(remaining uint32, over bool) line {
		return line{rule: "tokens", over: over, perUnit: 900, unit: hour, remaining: remaining}
	}
	slots := func(remaining uint32, over bool) line {
		return line{rule: "slots", over: over, perUnit: 2, remaining: remaining}
	}
	limited := of(-1, "path", "/pay", "user", "43")
	limited.Limit = &commonv3.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 7, Unit: typev3.RateLimitUnit_HOUR}
	ordinary := of(-1, "path", "/pay", "user", "42")
	return map[string]call{
		"01 one unit each": {list(ordinary, of(-1, "path", "/cart")), false, []line{pay(2, false), path(4)}},
		"02 a look":        {list(of(0, "path", "/pay", "user", "42")), false, []line{pay(2, false)}},
		"03 an addend":     {list(of(2, "path", "/pay", "user", "42")), false, []line{pay(0, false)}},
		"04 denied, and nothing is spent": {list(ordinary, of(-1, "path", "/cart")), true,
			[]line{pay(0, true), path(4)}},
		"05 given back":                 {list(negative(of(1, "path", "/pay", "user", "42"))), false, []line{pay(1, false)}},
		"06 it counts":                  {list(ordinary), false, []line{pay(0, false)}},
		"07 a limit that came with it":  {list(limited), false, []line{{rule: "pay", perUnit: 7, unit: hour, remaining: 6}}},
		"08 shadow":                     {list(of(-1, "trial", "a")), false, []line{{rule: "trial", perUnit: 1}}},
		"09 shadow above its limit":     {list(of(-1, "trial", "a")), false, []line{{rule: "trial", perUnit: 1}}},
		"10 unlimited":                  {list(of(-1, "staff", "a")), false, []line{{remaining: math.MaxUint32}}},
		"11 no rule":                    {list(of(-1, "other", "a")), false, []line{{}}},
		"12 a report that fits":         {list(of(300, "model", "m")), false, []line{tokens(600, false)}},
		"13 a report that does not fit": {list(of(1200, "model", "m")), true, []line{tokens(0, true)}},
		"14 a look after it":            {list(of(0, "model", "m")), true, []line{tokens(0, true)}},
		"15 a slot":                     {list(of(-1, "slot", "s")), false, []line{slots(1, false)}},
		"16 another":                    {list(of(-1, "slot", "s")), false, []line{slots(0, false)}},
		"17 no more":                    {list(of(-1, "slot", "s")), true, []line{slots(0, true)}},
		"18 one is released":            {list(negative(of(1, "slot", "s"))), false, []line{slots(1, false)}},
		"19 it can be had":              {list(of(-1, "slot", "s")), false, []line{slots(0, false)}},
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// TestEnvoy_Journey: what a call leaves is what the next one finds, whatever the store.
func TestEnvoy_Journey(t *testing.T) {
	for name, serve := range map[string]func(*testing.T) *World{"memory": Serve, "redis": ServeOnRedis} {
		t.Run(name, func(t *testing.T) {
			w := serve(t)
			if err := w.PutInForce([]byte(envoyRules)); err != nil {
				t.Fatal(err)
			}
			client := envoyClient(t, w)
			journey := envoyJourney()
			for _, step := range sorted(journey) {
				c := journey[step]
				r, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "shop",
					Descriptors: c.descriptors})
				if err != nil {
					t.Fatalf("%s: %v", step, err)
				}
				if got := r.GetOverallCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT; got != c.over {
					t.Errorf("%s: over %v, want %v", step, got, c.over)
				}
				if (len(r.GetRawBody()) > 0) != c.over {
					t.Errorf("%s: body %s", step, r.GetRawBody())
				}
				if len(r.GetStatuses()) != len(c.want) {
					t.Fatalf("%s: %d statuses, want %d", step, len(r.GetStatuses()), len(c.want))
				}
				for i, st := range r.GetStatuses() {
					limit := st.GetCurrentLimit()
					got := line{limit.GetName(), st.GetCode() == ratelimitv3.RateLimitResponse_OVER_LIMIT,
						limit.GetRequestsPerUnit(), limit.GetUnit(), limit.GetUnitMultiplier().GetValue(), st.GetLimitRemaining()}
					if got != c.want[i] {
						t.Errorf("%s: status %d is %+v, want %+v", step, i, got, c.want[i])
					}
				}
			}
		})
	}
}

func envoyClient(t *testing.T, w *World) ratelimitv3.RateLimitServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+w.GRPC(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return ratelimitv3.NewRateLimitServiceClient(conn)
}

// TestEnvoy_AnswerSaysWhenAndWhy: the time of a status, the metadata, and an unknown domain.
func TestEnvoy_AnswerSaysWhenAndWhy(t *testing.T) {
	w := Serve(t)
	if err := w.PutInForce([]byte(envoyRules)); err != nil {
		t.Fatal(err)
	}
	client := envoyClient(t, w)
	w.SetTime(noon.Add(20 * time.Second))
	pay := &ratelimitv3.RateLimitRequest{Domain: "shop", HitsAddend: 3,
		Descriptors: list(of(-1, "path", "/pay", "user", "42"))}
	for _, denied := range []bool{false, true} {
		r, err := client.ShouldRateLimit(t.Context(), pay)
		if err != nil {
			t.Fatal(err)
		}
		fields := r.GetDynamicMetadata().GetFields()
		// Without align, the window begins with the first request; or at a full minute.
		if s := r.GetStatuses()[0].GetDurationUntilReset().GetSeconds(); s != 60 && s != 40 {
			t.Errorf("denied %v: %d s", denied, s)
		}
		if fields["domain"].GetStringValue() != "shop" || fields["rule"].GetStringValue() != "pay" ||
			(fields["denied_by"].GetStringValue() == "pay") != denied || len(fields["limits"].GetListValue().GetValues()) != 1 ||
			(fields["metadata"].GetStructValue().GetFields()["team"].GetStringValue() == "payments") == denied {
			t.Errorf("denied %v: metadata %v", denied, fields)
		}
	}
	r, err := client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "unknown",
		Descriptors: list(of(-1, "a", "b"), of(-1, "c", "d"))})
	if err != nil || r.GetOverallCode() != ratelimitv3.RateLimitResponse_OK || len(r.GetStatuses()) != 2 ||
		r.GetDynamicMetadata() != nil || len(r.GetResponseHeadersToAdd()) != 0 {
		t.Errorf("unknown domain: %v, %v", r, err)
	}
	_, err = client.ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "shop"})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("no descriptors: %v", err)
	}
}
