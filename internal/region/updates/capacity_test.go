package updates

import (
	"testing"

	"sluice/internal/capacity"
)

func TestPlans_KnowHowManyBucketsANodeTells(t *testing.T) {
	if mostExported != capacity.ExportMost {
		t.Errorf("a node tells of %d buckets an interval, sluice plan says %d", mostExported, capacity.ExportMost)
	}
}
