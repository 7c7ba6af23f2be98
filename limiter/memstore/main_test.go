package memstore_test

import (
	"testing"

	"go.uber.org/goleak"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newStore returns a store that is closed with the test.
func newStore(t testing.TB, o memstore.Options) *memstore.Store {
	t.Helper()
	s := memstore.New(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var harness = storetest.Harness{New: func(t *testing.T, clock func() int64) limiter.Store {
	return newStore(t, memstore.Options{Clock: clock})
}}

func TestModel_Conforms(t *testing.T) { storetest.Model(t, harness) }

func TestPeriods_Conform(t *testing.T) { storetest.Periods(t, harness) }

func TestModel_Vectors(t *testing.T) { storetest.Vectors(t, harness) }

func TestStore_WeathersStorms(t *testing.T) { storetest.Storm(t, harness) }
