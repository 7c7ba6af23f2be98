//go:build beside

package app

import (
	"os"
	"testing"
)

// TestRegionsBeside runs a region of an earlier version, which SLUICE_BESIDE names, beside two of this one, and
// upgrades it:
//
//	make test-beside-regions FROM=b5441723
func TestRegionsBeside(t *testing.T) {
	old := os.Getenv("SLUICE_BESIDE")
	if old == "" {
		t.Fatal("say which commit, as in make test-beside-regions FROM=b5441723")
	}
	g := newGlobe(t, globeOptions{before: old, beforeAt: map[string]bool{"us0": true, "us1": true}})
	g.under("beside", usual, func() func() { return func() {} })
	g.under("beside-loss", usual, g.lossy)
	g.under("beside-cut", usual, func() func() {
		return g.cutLinks(func(l link) bool { return (l.from == "us") != (l.to == "us") })
	})
	g.leftAtOld = map[string]bool{}
	for i := range 2 {
		if err := g.node("us", i).end(); err != nil {
			t.Errorf("it ended with %v", err)
		}
		g.start("us", i)
	}
	g.under("beside-upgraded", usual, g.lossy)
}
