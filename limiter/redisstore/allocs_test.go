//go:build !race

package redisstore_test

import (
	"context"
	"testing"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/redisstore"
)

func TestStoreDo_AllocationsOfALoneRequestAreBounded(t *testing.T) {
	s := open(t, client(t, testenv.SharedRedis(t).URL()), redisstore.Options{})
	req := limiter.Request{Asks: []limiter.Ask{ask(entity(), 1, limits(month)[1])}}
	var res limiter.Result
	got := testing.AllocsPerRun(500, func() {
		if err := s.Do(context.Background(), &req, &res); err != nil {
			t.Fatal(err)
		}
	})
	// Of these the key is the request's own; the others are the script call's,
	// which many requests share under load.
	if got > lone {
		t.Errorf("%v allocations, want at most %d", got, lone)
	}
}

const lone = 25
