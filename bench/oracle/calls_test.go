//go:build !race

package oracle

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// callConfig has small limits and long windows.
const callConfig = `domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 5}
    descriptors:
      - key: path
        value: /pay
        rate_limit: {unit: day, requests_per_unit: 3}
      - key: path
        rate_limit: {unit: hour, requests_per_unit: 4}
  - key: path
    value: /v1/*
    share_threshold: true
    rate_limit: {unit: day, requests_per_unit: 40}
  - key: path
    value: /v2/*
    rate_limit: {unit: week, requests_per_unit: 7}
  - key: tokens
    rate_limit: {unit: month, requests_per_unit: 1000}
  - key: seen
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: free
    rate_limit: {unlimited: true}
  - key: never
    rate_limit: {unit: day, requests_per_unit: 0}
  - key: base
    detailed_metric: true
    rate_limit: {unit: day, requests_per_unit: 2, name: base}
  - key: tier
    value: gold
    value_to_metric: true
    rate_limit: {unit: day, requests_per_unit: 6, replaces: [{name: base}]}
  - key: huge
    rate_limit: {unit: day, requests_per_unit: 4294967295}
  - key: nothing
`

// calls is how many calls each server gets, one after the other.
const calls = 10_000

// The peer's server and a node get the same calls, each on a Redis of its own, and answer alike.
func TestCalls_AreAnsweredAsThere(t *testing.T) {
	t.Parallel()
	there, here := startPeer(t, callConfig), startOurs(t, callConfig)
	// A window that ends in between would end at slightly different calls. Then all is done again, with other values. No
	// window of the configuration is shorter than an hour.
	for attempt := 0; ; attempt++ {
		hour := time.Now().Unix() / 3600
		s := session{t: t, there: there, here: here, rand: rand.New(rand.NewPCG(15, uint64(attempt))),
			prefix: fmt.Sprintf("%d-", attempt), spent: map[string]int64{}, apart: map[string]bool{}, count: tally{}}
		s.run()
		if time.Now().Unix()/3600 != hour {
			continue
		}
		for _, problem := range s.problems {
			t.Error(problem)
		}
		t.Logf("%d calls\n%s", calls, s.count)
		for _, want := range []string{"allowed", "denied", "several descriptors, denied", "a look",
			"a report that does not fit"} {
			if s.count[want] == 0 {
				t.Errorf("never happened: %s", want)
			}
		}
		return
	}
}

// session is one series of calls.
type session struct {
	t           *testing.T
	there, here *rater
	rand        *rand.Rand
	prefix      string // of all values
	problems    []string
	count       tally
	// spent is what has been spent here, by bucket: the units of calls that were allowed, and of all reports.
	spent map[string]int64
	// apart are the buckets in which a call of several descriptors that was denied has spent units there, and not here.
	apart map[string]bool
}

// An asked is a descriptor of a call.
type asked struct {
	sent *ratelimit.RateLimitDescriptor
	// bucket identifies its bucket; limit is that of its rule, -1 without a limit.
	bucket   string
	limit    int64
	explicit bool
	addend   int64
	shadow   bool
}

// report reports whether the addend is charged in any case.
func (a *asked) report() bool { return a.explicit && a.addend > 0 }

// descriptor returns a random one.
func (s *session) descriptor() asked {
	n := s.rand.IntN
	value := func(most int) string { return fmt.Sprintf("%s%d", s.prefix, n(most)) }
	path := pick(s.rand, []string{"/pay", "/cart", "/" + s.prefix})
	var a asked
	var pairs []pair
	switch n(14) {
	case 0, 1, 2:
		a.limit, pairs = 5, []pair{{"user", value(300)}}
	case 3, 4:
		a.limit, pairs = 4, []pair{{"user", value(200)}, {"path", path}}
		if path == "/pay" {
			a.limit = 3
		}
	case 5:
		// One bucket for all values, also of an earlier attempt.
		a.limit, a.bucket, pairs = 40, "/v1/*", []pair{{"path", "/v1/" + value(9)}}
	case 6:
		a.limit, pairs = 7, []pair{{"path", "/v2/" + value(100)}}
	case 7, 8:
		a.limit, pairs = 1000, []pair{{"tokens", value(50)}}
	case 9:
		a.limit, a.shadow, pairs = 3, true, []pair{{"seen", value(40)}}
	case 10:
		a.limit, pairs = -1, []pair{{"free", value(9)}}
	case 11:
		a.limit, pairs = 0, []pair{{"never", value(9)}}
	case 12:
		a.limit, pairs = 1<<32-1, []pair{{"huge", value(30)}}
	default:
		a.limit, pairs = -1, []pair{{"nothing", value(9)}, {"x", "y"}}
	}
	if a.bucket == "" {
		a.bucket = fmt.Sprint(pairs)
	}
	a.sent = &ratelimit.RateLimitDescriptor{}
	for _, p := range pairs {
		a.sent.Entries = append(a.sent.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: p.key, Value: p.value})
	}
	a.addend = 1
	return a
}

// run makes all calls, then looks what has been spent.
func (s *session) run() {
	limits := map[string]asked{}
	for n := range calls {
		q := &rls.RateLimitRequest{Domain: "shop"}
		list := []asked{s.descriptor()}
		if n%3 == 0 {
			for range 1 + s.rand.IntN(3) {
				list = append(list, s.descriptor())
			}
		}
		if chance(s.rand, 15) {
			q.HitsAddend = uint32(1 + s.rand.IntN(4))
		}
		for i := range list {
			a := &list[i]
			if q.HitsAddend > 0 {
				a.explicit, a.addend = true, int64(q.HitsAddend)
			}
			if tokens := a.limit == 1000; tokens || chance(s.rand, 15) {
				most := 4
				if tokens {
					most = 400
				}
				a.explicit, a.addend = true, int64(s.rand.IntN(most))
				if chance(s.rand, 20) {
					a.addend = 0
				}
				a.sent.HitsAddend = wrapperspb.UInt64(uint64(a.addend))
			}
			q.Descriptors = append(q.Descriptors, a.sent)
			limits[a.bucket] = *a
		}
		s.compare(q, list)
	}
	for bucket, a := range limits {
		if a.limit < 0 {
			continue
		}
		a.sent.HitsAddend = wrapperspb.UInt64(0)
		got := s.here.ask(s.t, &rls.RateLimitRequest{Domain: "shop", Descriptors: []*ratelimit.RateLimitDescriptor{a.sent}})
		if want := max(0, a.limit-s.spent[bucket]); int64(got.Statuses[0].LimitRemaining) != want {
			s.problem("%s: %d of %d remain in the end, want %d", bucket, got.Statuses[0].LimitRemaining, a.limit, want)
		}
	}
}

func (s *session) problem(format string, args ...any) {
	if len(s.problems) < 20 {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

// compare makes one call on both servers.
func (s *session) compare(q *rls.RateLimitRequest, list []asked) {
	there, here := askBoth(s.t, s.there, s.here, q)
	apart, looked := false, false
	for i, a := range list {
		apart = apart || s.apart[a.bucket]
		// There, a denied call without an addend has spent, and a look then sees a level above the limit.
		if a.addend == 0 && s.spent[a.bucket] == a.limit && there.Statuses[i].Code == rls.RateLimitResponse_OVER_LIMIT {
			s.count["a look after a denial of the same bucket: OK here, over the limit there"]++
			looked = true
		}
	}
	denied := here.OverallCode == rls.RateLimitResponse_OVER_LIMIT
	if !apart && !looked && here.OverallCode != there.OverallCode {
		s.problem("%v\nhere:  %v\nthere: %v", q, here, there)
	}
	for i, a := range list {
		h, th := here.Statuses[i], there.Statuses[i]
		remaining := h.LimitRemaining
		if th.CurrentLimit == nil && th.LimitRemaining == 0 && remaining == math.MaxUint32 {
			s.count["a leaf without a limit: unlimited here, no rule there"]++
			remaining = 0
		}
		fits := remaining == th.LimitRemaining
		if apart || denied && len(list) > 1 {
			fits = remaining >= th.LimitRemaining // more was spent there, never here
		}
		switch {
		case apart:
			fits = fits && h.Code <= th.Code
		case looked && a.addend == 0:
			fits = fits && h.Code == rls.RateLimitResponse_OK
		default:
			fits = fits && h.Code == th.Code
		}
		l := th.CurrentLimit
		if (l == nil) != (h.CurrentLimit == nil) || h.CurrentLimit.GetRequestsPerUnit() != l.GetRequestsPerUnit() ||
			h.CurrentLimit.GetUnit() != l.GetUnit() {
			fits = false
		}
		if !fits {
			s.problem("descriptor %d of %v\nhere:  %v\nthere: %v", i, q, h, th)
		}
	}
	// A report is charged in any case. Takes are made together with an allowed call, or not at all.
	for _, a := range list {
		switch {
		case a.limit < 0:
		case a.report() || !denied:
			s.spent[a.bucket] += a.addend
		case len(list) > 1:
			s.apart[a.bucket] = true
		}
	}
	s.tally(list, denied)
}

func (s *session) tally(list []asked, denied bool) {
	what := []string{"allowed"}
	if denied {
		what[0] = "denied"
	}
	if len(list) > 1 {
		what[0] = "several descriptors, " + what[0]
	}
	for _, a := range list {
		if a.explicit && a.addend == 0 {
			what = append(what, "a look")
		}
		if a.explicit && a.limit > 0 && s.spent[a.bucket] > a.limit && s.spent[a.bucket]-a.addend < a.limit {
			what = append(what, "a report that does not fit")
		}
	}
	for _, w := range what {
		s.count[w]++
	}
}
