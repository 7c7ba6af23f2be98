package storetest

import (
	"pgregory.net/rapid"

	"sluice/limiter"
)

// The bounds of the clock of random traffic, ms: later than the longest generated
// window, so that no stored time becomes negative, and far from the end.
const (
	clockMin int64 = 10_000_000
	clockMax int64 = 4_000_000_000_000
)

var (
	genWindow  = rapid.SampledFrom([]int64{1, 2, 3, 7, 10, 50, 97, 1000, 1001, 60_000, 3_600_000})
	genCount   = rapid.SampledFrom([]int64{0, 1, 2, 3, 5, 7, 10, 100, 1000})
	genBuckets = rapid.SampledFrom([]int64{1, 2, 3, 4, 7, 10, 60})
	genAnchor  = rapid.SampledFrom([]int64{0, 1, -3, 250, 86_400_000})
	genOrigin  = rapid.SampledFrom([]int64{clockMin, 86_400_000, 1_795_000_000_123})
)

// siblings are the algorithms that can read a's state.
func siblings(a limiter.Algorithm) []limiter.Algorithm {
	var out []limiter.Algorithm
	for _, b := range limiter.Algorithms() {
		if b.Kind() == a.Kind() {
			out = append(out, b)
		}
	}
	return out
}

// drawLimit draws a valid limit of algorithm a.
func drawLimit(t *rapid.T, a limiter.Algorithm) limiter.Limit {
	l := limiter.Limit{Algorithm: a, Count: genCount.Draw(t, "count"), Window: genWindow.Draw(t, "window")}
	if a.Traits().MaxUnits == 0 && rapid.IntRange(0, 9).Draw(t, "big") == 0 {
		l.Count = rapid.Int64Range(1, limiter.MaxExact/l.Window/8).Draw(t, "big count")
	}
	switch a.Traits().Setting {
	case limiter.SettingBurst:
		l.Burst = l.Count
		if rapid.Bool().Draw(t, "own burst") && l.Count <= 1000 {
			l.Burst = genCount.Draw(t, "burst")
		}
	case limiter.SettingBuckets:
		l.Buckets = min(l.Window, genBuckets.Draw(t, "buckets"))
	case limiter.SettingAlign:
		if rapid.Bool().Draw(t, "first_hit") {
			l.Align = limiter.AlignFirstHit
		} else {
			l.Anchor = genAnchor.Draw(t, "anchor")
		}
	}
	return l
}

// editLimit draws an edit of l that keeps its key: another count, window, burst and
// so on, or an algorithm of the same kind. A bucket with a big rate only changes
// its burst: converting between extreme rates saturates and rounds to whole units,
// which the reference does not model.
func editLimit(t *rapid.T, l limiter.Limit) limiter.Limit {
	if l.Algorithm.Bucketed() && l.Count > 1000 {
		l.Burst = max(1, l.Burst/2)
		return l
	}
	next := drawLimit(t, rapid.SampledFrom(siblings(l.Algorithm)).Draw(t, "sibling"))
	if rapid.Bool().Draw(t, "keep window") && next.Count <= 1000 {
		next.Window = l.Window
		next.Buckets = min(next.Buckets, l.Window)
	}
	if next.Algorithm.Bucketed() {
		next.Count, next.Burst = min(next.Count, 1000), min(next.Burst, 1000)
	}
	return next
}

// drawWeight draws a weight around what l admits.
func drawWeight(t *rapid.T, l limiter.Limit) int64 {
	c := l.Capacity()
	switch rapid.IntRange(0, 5).Draw(t, "weight kind") {
	case 0:
		return rapid.Int64Range(0, c+2).Draw(t, "weight")
	case 1:
		return c / 2
	case 2:
		return rapid.Int64Range(0, 3).Draw(t, "small weight")
	default:
		return 1
	}
}

// drawStep draws how far the clock moves before the next request of l: mostly
// forward by about the scale of the window. wait is the retry-after of the last
// answer if it was a denial.
func drawStep(t *rapid.T, l limiter.Limit, wait int64, back bool) int64 {
	kinds := []string{"none", "none", "one", "tick", "part", "wait", "wait less one", "window", "far"}
	if back {
		kinds = append(kinds, "back one", "back part", "back far")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "step") {
	case "one":
		return 1
	case "tick":
		return rapid.Int64Range(0, 1+l.Window/7).Draw(t, "ms")
	case "part":
		return rapid.Int64Range(0, 2*l.Window).Draw(t, "ms")
	case "wait":
		return max(0, wait)
	case "wait less one":
		return max(0, wait-1)
	case "window":
		return l.Window
	case "far":
		return rapid.Int64Range(0, 40*l.Window).Draw(t, "ms")
	case "back one":
		return -1
	case "back part":
		return -rapid.Int64Range(0, 2*l.Window).Draw(t, "ms")
	case "back far":
		return -rapid.Int64Range(0, 40*l.Window).Draw(t, "ms")
	}
	return 0
}

// step moves the clock by d, within its bounds.
func step(c *Clock, d int64) { c.Set(min(max(c.Now()+d, clockMin), clockMax)) }
