package limiter_test

import (
	"testing"

	"sluice/limiter"
	"sluice/limiter/memstore"
	"sluice/limiter/storetest"
)

func TestLog_ADecisionReadsABoundedPart(t *testing.T) {
	var reads int64
	limiter.CountRead(func(n int) { reads += int64(n) })
	defer limiter.CountRead(nil)
	storetest.LongLogs(t, storetest.Harness{New: func(t *testing.T, clock func() int64) limiter.Store {
		s := memstore.New(memstore.Options{Clock: clock})
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}, func() int64 { return reads })
}
