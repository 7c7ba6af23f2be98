package home

import (
	"testing"
	"time"

	"sluice/internal/testenv"
	"sluice/limiter"
	"sluice/limiter/storetest"
)

// twoRegions over two Redis behave as one store: a key is decided at its home, whichever region is asked.
func twoRegions(t *testing.T) storetest.Harness {
	two := testenv.Redis(t)
	regions := func(t *testing.T, clock func() int64) map[string]*place {
		return world(t, 10*time.Second, map[string]limiter.Store{
			"eu": onRedis(t, testenv.SharedRedis(t), clock), "us": onRedis(t, two, clock),
		})
	}
	return storetest.Harness{
		New: func(t *testing.T, clock func() int64) limiter.Store { return regions(t, clock)["eu"] },
		Pair: func(t *testing.T) (a, b limiter.Store) {
			w := regions(t, nil)
			return w["eu"], w["us"]
		},
	}
}

func TestModel_Conforms(t *testing.T) {
	h := twoRegions(t)
	// The random streams of the suite find here what they find without regions, and take long.
	for name, part := range map[string]func(*testing.T, storetest.Harness){
		"Vectors": storetest.Vectors, "Looks": storetest.Looks, "Records": storetest.Records, "Oldest": storetest.Oldest,
		"Settlements": storetest.Settlements, "Errors": storetest.Errors,
	} {
		t.Run(name, func(t *testing.T) { part(t, h) })
	}
}

func TestStore_WeathersStorms(t *testing.T) { storetest.Storm(t, twoRegions(t)) }
