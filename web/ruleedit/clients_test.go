package ruleedit

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"sluice/internal/history"
	"sluice/limiter"
)

// hours are the requests of a client in hours from minutes, of which the last hour may be short.
func hours(minutes []int64) parts {
	from := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	p := parts{from: from, length: time.Hour, until: from.Add(time.Duration(len(minutes)) * time.Minute)}
	for i, n := range minutes {
		if i%60 == 0 {
			p.line = append(p.line, 0)
		}
		p.line[i/60] += n
	}
	return p
}

// decided is what a fixed window of a minute denies of the same requests, by the arithmetic that decides them.
func decided(minutes []int64, limit int64) (denied int64) {
	asks := []limiter.Ask{{Limit: limiter.Limit{Algorithm: limiter.FixedWindow, Count: limit, Window: 60_000}, Weight: 1}}
	var state limiter.State
	for i, n := range minutes {
		for range n {
			if !limiter.Decide(limiter.OpTake, asks, "", []*limiter.State{&state}, int64(i+1)*60_000, make([]bool, 1),
				make([]limiter.Decision, 1), make([]limiter.Charged, 1)) {
				denied++
			}
		}
	}
	return denied
}

func TestClients_EvenRequestsAreEstimatedExactly(t *testing.T) {
	minutes := make([]int64, 90)
	for i := range minutes {
		minutes[i] = 20
	}
	rate, would, unknown := hours(minutes).against(10, time.Minute)
	if want := decided(minutes, 10); would != float64(want) || want != 900 || rate != 20 || unknown {
		t.Errorf("%v a minute, %v denied, want 20 and %d", rate, would, want)
	}
	if rate, would, _ = hours(minutes).against(20, time.Minute); would != 0 || rate != 20 {
		t.Errorf("at the limit: %v denied of %v a minute", would, rate)
	}
}

// The estimate is never above what a fixed window denies, whatever the bursts.
func TestClients_TheEstimateIsTheLeast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minutes := rapid.SliceOfN(rapid.Int64Range(0, 30), 1, 150).Draw(t, "minutes")
		limit := rapid.Int64Range(1, 25).Draw(t, "limit")
		rate, would, _ := hours(minutes).against(limit, time.Minute)
		if exact := decided(minutes, limit); would > float64(exact)+1e-6 {
			t.Fatalf("estimated %v, denied %d", would, exact)
		}
		if over := rate > float64(limit)+1e-9; over != (would > 1e-6) && math.Abs(rate-float64(limit)) > 1e-6 {
			t.Fatalf("%v a minute with a limit of %d, and %v denied", rate, limit, would)
		}
	})
}

func TestClients_PartsAddUpToWindows(t *testing.T) {
	from := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	p := parts{line: []int64{100, 300, history.LineUnknown, 50}, from: from, length: time.Hour,
		until: from.Add(4 * time.Hour)}
	for _, c := range []struct {
		window      time.Duration
		limit       int64
		rate, would float64
	}{
		{time.Hour, 100, 300, 200},        // by hours
		{2 * time.Hour, 350, 400, 50},     // by two hours: the second two have one known hour
		{24 * time.Hour, 400, 450, 50},    // all in one window
		{90 * time.Minute, 150, 300, 200}, // two hours are 4/3 of a window
		{30 * time.Minute, 1000, 150, 0},  // below the limit
		{7 * 24 * time.Hour, 449, 450, 1}, // a window that is longer than the time
	} {
		rate, would, unknown := p.against(c.limit, c.window)
		if math.Abs(rate-c.rate) > 1e-9 || math.Abs(would-c.would) > 1e-9 || !unknown {
			t.Errorf("window %v, limit %d: rate %v, %v denied, unknown %v; want %v and %v", c.window, c.limit, rate, would,
				unknown, c.rate, c.would)
		}
	}
}
