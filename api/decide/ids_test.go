package decide

import (
	"context"
	"testing"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/entries"
	"sluice/rules/match"
)

// named keeps the requests with an id that a store was asked.
type named struct {
	limiter.Store

	reqs []limiter.Request
}

func (s *named) Do(ctx context.Context, req *limiter.Request, res *limiter.Result) error {
	if req.ID != "" {
		s.reqs = append(s.reqs, *req)
	}
	return s.Store.Do(ctx, req, res)
}

func (s *named) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

// The store is told of an id that was made for a request, which nobody repeats after a failure.
func TestIDs_ThoseOfCallersMayBeRepeated(t *testing.T) {
	slots, plain, shadow := perUser("slots", rules.FailOpen, 9), perUser("plain", rules.FailOpen, 9),
		perUser("shadow", rules.FailOpen, 9)
	slots.Algorithm, slots.WindowMS, shadow.Mode = "concurrency", 60_000, rules.ModeShadow
	slots.Route, plain.Route, shadow.Route = new("/slots"), new("/plain"), new("/plain")
	envoy := shop("envoy", "user", 9, func(r *rules.Rule) { r.Algorithm = "concurrency" })
	store := &named{}
	f := newFixture(t, []rules.Rule{slots, plain, shadow, envoy}, func(opt *CheckerOptions) {
		store.Store = opt.Store
		opt.Store, opt.Secrets = store, oneSecret{}
	})
	slot, take := match.Descriptor{Route: "/slots"}, match.Descriptor{Route: "/plain"}
	for name, c := range map[string]struct {
		q     Question
		calls int
		want  bool
	}{
		"a lease":                        {Question{Descriptor: slot}, 1, true},
		"a lease with an id":             {Question{Descriptor: slot, RequestID: "x"}, 1, false},
		"a reservation":                  {Question{Descriptor: take, reserve: 1000}, 2, true},
		"a reservation with an id":       {Question{Descriptor: take, RequestID: "y", reserve: 1000}, 2, false},
		"a take with an id, after those": {Question{Descriptor: take, RequestID: "z"}, 2, false},
	} {
		store.reqs, c.q.Weight = nil, 1
		f.asks(limiter.OpTake, c.q)
		if len(store.reqs) != c.calls {
			t.Errorf("%s: %d requests, want %d", name, len(store.reqs), c.calls)
		}
		for _, req := range store.reqs {
			if req.Unrepeated != c.want {
				t.Errorf("%s: unrepeated %v, want %v", name, req.Unrepeated, c.want)
			}
		}
	}
	store.reqs = nil
	var a DescriptorAnswer
	q := DescriptorQuestion{Domain: "shop", Descriptors: []AskedDescriptor{
		{Entries: []entries.Entry{{Key: "user", Value: "42"}}, Addend: 1}}}
	if err := f.DoDescriptors(t.Context(), &q, &a); err != nil || len(store.reqs) != 1 || !store.reqs[0].Unrepeated {
		t.Errorf("a lease of a descriptor: %v %+v", err, store.reqs)
	}
}
