package app

import (
	"testing"

	"sluice/internal/capacity"
)

func TestPlans_KnowTheConnectionsBetweenRegions(t *testing.T) {
	if regionConnections != capacity.ExchangeConnections || homeConnections != capacity.HomeConnections {
		t.Errorf("a node has %d and %d connections to a region, sluice plan says %d and %d", regionConnections,
			homeConnections, capacity.ExchangeConnections, capacity.HomeConnections)
	}
}
