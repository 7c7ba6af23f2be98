package memstore_test

import (
	"testing"

	"sluice/limiter/storetest"
)

func TestStore_HighWaterConforms(t *testing.T) { storetest.HighWater(t, harness) }
