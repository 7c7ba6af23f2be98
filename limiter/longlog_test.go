package limiter_test

import (
	"context"
	"testing"

	"sluice/limiter"
	"sluice/limiter/storetest"
)

// oneLog is a store of one bucket that remembers what named requests charged.
type oneLog struct {
	clock   func() int64
	state   limiter.State
	charged map[string]limiter.Charged
}

func (s *oneLog) DoAll(ctx context.Context, calls []limiter.Call) {
	for i := range calls {
		calls[i].Err = s.Do(ctx, &calls[i].Request, &calls[i].Result)
	}
}

func (s *oneLog) Do(_ context.Context, req *limiter.Request, res *limiter.Result) error {
	now, l := s.clock(), req.Asks[0].Limit
	*res = limiter.Result{Allowed: true, At: now, Limits: make([]limiter.Decision, 1)}
	d := &res.Limits[0]
	switch {
	case req.Op == limiter.OpRefund && req.ID == "":
		*d, _ = limiter.RefundNow(l, &s.state, now, req.Asks[0].Weight)
	case req.Op == limiter.OpRefund:
		*d, _ = limiter.Refund(l, &s.state, now, s.charged[req.ID])
		delete(s.charged, req.ID)
	case req.Op == limiter.OpSettle:
		*d, _ = limiter.Settle(l, &s.state, now, s.charged[req.ID], req.Asks[0].Weight)
	case req.Op == limiter.OpRelease:
		*d, _ = limiter.Release(l, &s.state, now, req.ID)
	case req.Op == limiter.OpRenew:
		*d, _ = limiter.Renew(l, &s.state, now, req.ID)
		res.Allowed = d.Allowed
	default:
		charged := make([]limiter.Charged, 1)
		res.Allowed = limiter.Decide(req.Op, req.Asks, req.ID, []*limiter.State{&s.state}, now, make([]bool, 1), res.Limits,
			charged)
		if req.ID != "" && charged[0].Weight > 0 {
			s.charged[req.ID] = charged[0]
		}
	}
	return nil
}

func TestModel_ADecisionReadsABoundedPartOfALog(t *testing.T) { counted(t, storetest.LongLogs) }

func TestModel_AChargeAboveTheLimitReadsABoundedPartOfALog(t *testing.T) {
	counted(t, storetest.CrowdedLogs)
}

func TestModel_ADecisionReadsABoundedPartOfSlots(t *testing.T) { counted(t, storetest.LongSlots) }

// counted runs a test that counts what decisions read.
func counted(t *testing.T, test func(*testing.T, storetest.Harness, func() int64)) {
	t.Helper()
	var reads int64
	limiter.CountRead(func(n int) { reads += int64(n) })
	defer limiter.CountRead(nil)
	test(t, storetest.Harness{New: func(_ *testing.T, clock func() int64) limiter.Store {
		return &oneLog{clock: clock, charged: map[string]limiter.Charged{}}
	}}, func() int64 { return reads })
	if reads == 0 {
		t.Error("nothing was counted")
	}
}
