package envoy

import (
	"strings"
	"testing"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/rules"
)

func TestByFacts_NegativeHitsReleaseTheOldestLease(t *testing.T) {
	bothWays(t, byFactsNegativeHitsReleaseTheOldestLease)
}

func byFactsNegativeHitsReleaseTheOldestLease(t *testing.T, by way) {
	f := newFixture(t, by, perUser(1, func(r *rules.Rule) { r.Algorithm = "concurrency" }))
	back := descriptorOf("u", "42")
	back.HitsAddend, back.IsNegativeHits = wrapperspb.UInt64(1), true
	for i, step := range []struct {
		asked *commonv3.RateLimitDescriptor
		code  ratelimitv3.RateLimitResponse_Code
	}{
		{descriptorOf("u", "42"), ok}, {descriptorOf("u", "42"), over}, {back, ok}, {descriptorOf("u", "42"), ok},
		{descriptorOf("u", "42"), over},
	} {
		r, err := f.call("api", step.asked)
		if err != nil || r.GetOverallCode() != step.code {
			t.Errorf("step %d: %v, %v, want %s", i, r, err, step.code)
		}
	}
}

func TestByFacts_DescriptorsDescribeOneRequest(t *testing.T) {
	bothWays(t, byFactsDescriptorsDescribeOneRequest)
}

func byFactsDescriptorsDescribeOneRequest(t *testing.T, by way) {
	f := newFixture(t, by, perUser(5))
	addend := func(d *commonv3.RateLimitDescriptor, n uint64, negative bool) *commonv3.RateLimitDescriptor {
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(n), negative
		return d
	}
	user := func() *commonv3.RateLimitDescriptor { return descriptorOf("u", "42", "generic_key", "x") }
	verb := func() *commonv3.RateLimitDescriptor { return descriptorOf("verb", "GET") }
	for _, step := range []struct {
		name        string
		descriptors []*commonv3.RateLimitDescriptor
		code        ratelimitv3.RateLimitResponse_Code
		remaining   uint32
	}{
		{"one unit for both", []*commonv3.RateLimitDescriptor{user(), verb()}, ok, 4},
		{"the largest addend", []*commonv3.RateLimitDescriptor{addend(user(), 2, false), addend(verb(), 3, false)}, ok, 1},
		{"a look", []*commonv3.RateLimitDescriptor{addend(user(), 0, false), addend(verb(), 0, false)}, ok, 1},
		{"too many", []*commonv3.RateLimitDescriptor{addend(user(), 2, false), verb()}, over, 1},
		{"a refund", []*commonv3.RateLimitDescriptor{addend(user(), 2, true), addend(verb(), 1, true)}, ok, 3},
		{"it counts", []*commonv3.RateLimitDescriptor{addend(user(), 3, false)}, ok, 0},
	} {
		r, err := f.call("api", step.descriptors...)
		if err != nil {
			t.Fatal(err)
		}
		if r.GetOverallCode() != step.code || len(r.GetStatuses()) != len(step.descriptors) {
			t.Errorf("%s: got %v", step.name, r)
		}
		for _, st := range r.GetStatuses() {
			if st.GetCode() != step.code || st.GetLimitRemaining() != step.remaining ||
				st.GetCurrentLimit().GetName() != "per-user" {
				t.Errorf("%s: got %v, want %s with %d", step.name, st, step.code, step.remaining)
			}
		}
		denied := step.code == over
		if (len(r.GetRawBody()) > 0) != denied ||
			(r.GetDynamicMetadata().GetFields()["denied_by"].GetStringValue() == "per-user") != denied {
			t.Errorf("%s: body %s, metadata %v", step.name, r.GetRawBody(), r.GetDynamicMetadata())
		}
	}
	if got := f.counted("domain", "api", "denied"); got != 1 {
		t.Errorf("%d denied calls of the domain counted, want 1", got)
	}
	_, err := f.call("api", addend(user(), 1, true), verb())
	f.wantCode("refund and take", err, codes.InvalidArgument)
	r, err := f.call("api", user(), descriptorOf("remote_address", "here"))
	if err != nil || r.GetOverallCode() != over {
		t.Errorf("a client's text that is no address: %v, %v; an error would let the request pass", r, err)
	}
	f.store.fault = gone
	r, err = f.call("api", addend(user(), 1, true))
	degraded := r.GetDynamicMetadata().GetFields()["degraded"].GetStringValue()
	if err != nil || r.GetOverallCode() != ok || degraded != rules.FailOpen {
		t.Errorf("a refund that is lost: %v, %v", r, err)
	}
	r, err = f.call("api", user())
	if err != nil || r.GetOverallCode() != over || !strings.Contains(string(r.GetRawBody()), `"status":503`) {
		t.Errorf("closed: %v, %v", r, err)
	}
}
