package fleet_test

import (
	"context"
	"testing"
	"time"

	"sluice/internal/fleet"
	"sluice/internal/testenv"
)

func TestQuotaBoard_EachNodeReadsTheDemandOfTheOthersUntilItEnds(t *testing.T) {
	srv := testenv.SharedRedis(t)
	now := time.Now()
	exchange := func(node, bucket string, holders int, perSecond float64, after time.Duration) (int, float64) {
		t.Helper()
		b, err := fleet.NewQuotaBoard(client(t, srv.URL()), "quotas:", node)
		if err != nil {
			t.Fatal(err)
		}
		own := fleet.QuotaDemand{Holders: holders, PerSecond: perSecond, Having: holders, Held: 100 * int64(holders)}
		others, err := b.Exchange(t.Context(), bucket, own, 60_000, now.Add(after))
		if err != nil {
			t.Fatal(err)
		}
		read, err := b.Others(t.Context(), bucket, now.Add(after))
		if err != nil || read != others || others.Having != others.Holders || others.Held != 100*int64(others.Holders) {
			t.Errorf("%s reads %+v after %+v, %v", node, read, others, err)
		}
		return others.Holders, others.PerSecond
	}
	if n, sum := exchange("a", "{x}|1|fw", 2, 10.5, 0); n != 0 || sum != 0 {
		t.Errorf("alone: %d with %v", n, sum)
	}
	if n, sum := exchange("b", "{x}|1|fw", 1, 3, time.Second); n != 2 || sum != 10.5 {
		t.Errorf("b reads %d with %v", n, sum)
	}
	if n, sum := exchange("a", "{x}|1|fw", 2, 20, 2*time.Second); n != 1 || sum != 3 {
		t.Errorf("a reads %d with %v", n, sum)
	}
	if n, sum := exchange("c", "{x}|1|fw", 0, 0, 61_500*time.Millisecond); n != 2 || sum != 20 {
		t.Errorf("after the end of b, c reads %d with %v", n, sum)
	}
	if n, sum := exchange("c", "{y}|1|fw", 0, 0, 0); n != 0 || sum != 0 {
		t.Errorf("of another bucket: %d with %v", n, sum)
	}
}

func TestQuotaBoard_AFailureIsOfTheStore(t *testing.T) {
	b, err := fleet.NewQuotaBoard(client(t, testenv.SharedRedis(t).URL()), "quotas:", "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Exchange(ctx, "{x}", fleet.QuotaDemand{Holders: 1, PerSecond: 1}, 1000, time.Now()); err == nil {
		t.Error("no error after the caller has left")
	}
	if _, err := b.Others(ctx, "{x}", time.Now()); err == nil {
		t.Error("no error of a look after the caller has left")
	}
}
