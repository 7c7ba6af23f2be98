package home

import (
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/storetest"
)

// Two regions over two Redis behave as one store: a key is decided at its home, whichever region is asked.
func TestStore_Conforms(t *testing.T) {
	two := testenv.Redis(t)
	regions := func(t *testing.T, clock func() int64) map[string]*place {
		return world(t, 10*time.Second, map[string]limiter.Store{
			"eu": onRedis(t, testenv.SharedRedis(t), clock), "us": onRedis(t, two, clock),
		})
	}
	storetest.Run(t, storetest.Harness{
		New: func(t *testing.T, clock func() int64) limiter.Store { return regions(t, clock)["eu"] },
		Pair: func(t *testing.T) (a, b limiter.Store) {
			w := regions(t, nil)
			return w["eu"], w["us"]
		},
	})
}
