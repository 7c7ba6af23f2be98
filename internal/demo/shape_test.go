package demo

import (
	"math/rand/v2"
	"testing"

	"sluice/internal/history"
)

// A whole day has its least traffic at night, and three percent of it are denied.
func TestDecidedAt_ADayHasAWaveAndAFewDenials(t *testing.T) {
	const day = 20_000 * 86_400
	var hours [24]history.Figures
	var sum history.Figures
	for second := range int64(86_400) {
		c := decidedAt(day+second, false, second%360 < floodSeconds)
		hours[second/3600].Add(c.all)
		sum.Add(c.all)
	}
	if share := float64(sum.Denied) / float64(sum.Total()); share < 0.025 || share > 0.04 {
		t.Errorf("%.1f %% of a day are denied", 100*share)
	}
	if night, noon := hours[2].Total(), hours[14].Total(); noon < 2*night || noon > 4*night {
		t.Errorf("%d requests in the hour from 02:00, %d in that from 14:00", night, noon)
	}
	if again := decidedAt(day, false, true); again.all != decidedAt(day, false, true).all {
		t.Error("a second has other figures the second time")
	}
}

// The live traffic goes on where the past ends: it has the flows in the same parts.
func TestTraffic_HasTheFlowsOfThePast(t *testing.T) {
	tr := &traffic{rng: rand.New(rand.NewPCG(seed, 0))}
	const n = 100_000
	count := map[string]int{}
	for range n {
		q := tr.next()
		count[q.Descriptor.Route]++
	}
	for i := range flows {
		f := &flows[i]
		if got := 100 * float64(count[f.route]) / n; got < f.percent-1 || got > f.percent+1 {
			t.Errorf("%.1f %% are %s, want %v", got, f.route, f.percent)
		}
	}
}

func TestUserOf_EveryUserHasTheirWeight(t *testing.T) {
	count := map[int]int64{}
	for n := range weights {
		count[userOf(n)]++
	}
	for user := 1; user <= users; user++ {
		if count[user] != weight(user) {
			t.Errorf("user %d has %d of %d numbers, want %d", user, count[user], weights, weight(user))
		}
	}
}
