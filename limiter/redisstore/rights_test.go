package redisstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestRights_ThoseDocumentedAreEnoughForEverything(t *testing.T) {
	c := client(t, testenv.Redis(t).DocumentedUser(t))
	s := open(t, c, redisstore.Options{})
	for i, l := range limits(month) {
		a := ask(entity(), i, l)
		take(t, s, "id", a)
		do(t, s, limiter.OpPeek, "", a)
		if l.Algorithm == limiter.Concurrency {
			do(t, s, limiter.OpRenew, "id", a)
			do(t, s, limiter.OpRelease, "id", a)
		} else {
			do(t, s, limiter.OpCharge, "", a)
			do(t, s, limiter.OpRefund, "id", a)
			do(t, s, limiter.OpRefund, "", a)
		}
		do(t, s, limiter.OpReset, "", a)
	}
	spans := ask(entity(), 1, limits(month)[0])
	spans.Spans = true
	take(t, s, "", spans)
	sums, err := s.Export(t.Context(), 10, time.Minute)
	if err != nil || len(sums) != 1 {
		t.Fatalf("exported %v, %v", sums, err)
	}
	if err := s.Confirm(t.Context(), sums); err != nil {
		t.Error(err)
	}
	req := limiter.Request{Op: limiter.OpApply, ID: "us", Sums: &sums[0].Sums, Asks: []limiter.Ask{spans}}
	if err := s.Do(t.Context(), &req, &limiter.Result{}); err != nil {
		t.Error(err)
	}
	if began, err := s.BeginRestore(t.Context(), "a"); err != nil || !began {
		t.Errorf("restore began: %v, %v", began, err)
	}
	if known, next, err := s.Recall(t.Context(), "us", ""); err != nil || len(known) != 1 || next != "" {
		t.Errorf("recalled %v, then %q, %v", known, next, err)
	}
	req = limiter.Request{Op: limiter.OpRestore, Sums: &sums[0].Sums, Asks: []limiter.Ask{spans}}
	if err := s.Do(t.Context(), &req, &limiter.Result{}); err != nil {
		t.Error(err)
	}
	if ended, err := s.EndRestore(t.Context(), "a"); err != nil || !ended {
		t.Errorf("restore ended: %v, %v", ended, err)
	}
	do(t, s, limiter.OpReset, "", spans)
	covered := ask(entity(), 1, limits(month)[0])
	covered.HighWater = &limiter.HighWater{Name: "7:5"}
	take(t, s, "", covered)
	if marks, err := s.HighWater(t.Context()); err != nil || marks["7:5"] != 1 {
		t.Errorf("the high-water marks are %v (%v)", marks, err)
	}
	if err := c.FlushAll(context.Background()).Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("the user may do more than it needs: %v", err)
	}
	if err := c.Get(context.Background(), "foreign").Err(); err == nil || !strings.HasPrefix(err.Error(), "NOPERM") {
		t.Errorf("the user may read foreign keys: %v", err)
	}
	other := open(t, c, redisstore.Options{Prefix: "other:"})
	wantCause(t, try(other, time.Second, ask(entity(), 1, limits(month)[0])), limiter.CauseAuth, false)
}
