package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStore_OnAClusterSendsEachEntityToItsNode(t *testing.T) {
	cluster := testenv.Cluster(t)
	c := client(t, "redis://"+strings.Join(cluster.Addrs(), ","))
	s := open(t, c, redisstore.Options{})
	ctx := context.Background()
	const n = 300
	calls := make([]limiter.Call, n)
	for round := range 2 {
		for i := range calls {
			name := fmt.Sprintf("user:%d", i)
			calls[i].Request = limiter.Request{ID: fmt.Sprint(round), Asks: []limiter.Ask{ask(name, 1, limits(month)[1]), ask(name, 2, limits(month)[7])}}
		}
		s.DoAll(ctx, calls)
		for i := range calls {
			if calls[i].Err != nil {
				t.Fatal(calls[i].Err)
			}
			if got := calls[i].Result.Limits[0].Remaining; got != int64(99-round) {
				t.Fatalf("entity %d: remaining %d in round %d", i, got, round)
			}
		}
	}
	two := []limiter.Ask{ask("user:1", 1, limits(month)[1]), ask("user:2", 1, limits(month)[1])}
	err := s.Do(ctx, &limiter.Request{Asks: two}, &limiter.Result{})
	wantCause(t, err, limiter.CauseCluster, false)
	if got := do(t, s, limiter.OpPeek, "", two[0]).Limits[0].Remaining; got != 98 {
		t.Errorf("a refused request left remaining %d", got)
	}
}
