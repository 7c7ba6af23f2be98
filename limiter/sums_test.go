package limiter

import (
	"testing"
)

var tenASecond = Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 1000}

func TestSums_CheckRefusesWhatNoRegionSends(t *testing.T) {
	good := Sums{Born: 5, Shape: 1, Taken: 9, Given: 2, Windows: []WindowUnits{{4, 3}, {2, 4}}}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Sums){
		"negative":              func(m *Sums) { m.Born = -1 },
		"too large":             func(m *Sums) { m.Taken = MaxExact + 1 },
		"given more than taken": func(m *Sums) { m.Given = 10 },
		"window of more":        func(m *Sums) { m.Windows = []WindowUnits{{Number: 4, Units: 10}} },
		"windows of more":       func(m *Sums) { m.Given = 3 },
		"negative window":       func(m *Sums) { m.Windows = []WindowUnits{{Number: 4, Units: -1}} },
		"wrong order":           func(m *Sums) { m.Windows = []WindowUnits{{Number: 2}, {Number: 4}} },
		"twice":                 func(m *Sums) { m.Windows = []WindowUnits{{Number: 2}, {Number: 2}} },
		"far away":              func(m *Sums) { m.Windows = []WindowUnits{{Number: MaxExact + 1}} },
		"too many":              func(m *Sums) { m.Windows = make([]WindowUnits, MaxSumWindows+1) },
	} {
		m := good
		if change(&m); m.Check() == nil {
			t.Errorf("%s: %+v is accepted", name, m)
		}
	}
}

func TestSums_AnIncarnationEndsWhereNumbersNoLongerFit(t *testing.T) {
	for name, c := range map[string]struct {
		limit Limit
		now   int64
		ends  bool
	}{
		"the next window":             {tenASecond, 6000, false},
		"a clock that steps back":     {tenASecond, 500, true},
		"another window":              {Limit{Algorithm: SlidingWindowCounter, Count: 10, Window: 2000}, 5500, true},
		"another count":               {Limit{Algorithm: SlidingWindowCounter, Count: 90, Window: 1000}, 5500, false},
		"another algorithm of a kind": {Limit{Algorithm: FixedWindow, Count: 10, Window: 1000}, 5500, false},
	} {
		s, m := State{Exists: true, At: 5500}, Sums{}
		m.Spend(tenASecond, &s, 5500, 3)
		born := m.Born
		s.At = c.now
		m.Spend(c.limit, &s, c.now, 2)
		if (m.Born > born) != c.ends || c.ends && m.Taken != 2 || !c.ends && m.Taken != 5 {
			t.Errorf("%s: %+v, born %d before", name, m, born)
		}
	}
}

func TestSums_CountNoFurtherThanAStoreHolds(t *testing.T) {
	s, m := State{Exists: true, At: 5500}, Sums{}
	m.Spend(tenASecond, &s, 5500, MaxExact)
	born := m.Born
	m.Spend(tenASecond, &s, 5500, 7)
	if m.Born <= born || m.Taken != 7 || m.Windows[0].Units != 7 {
		t.Errorf("%+v, want 7 taken in an incarnation of its own", m)
	}
}

func TestApply_AResetLeavesWhatWasBornAfterIt(t *testing.T) {
	now := int64(5500)
	s, own, received := State{}, Sums{}, Received{}
	from := func(born, reset, units int64) *Sums {
		m := Sums{}
		m.Spend(tenASecond, &State{Exists: true, At: now}, now, units)
		m.Born, m.Reset = born, reset
		return &m
	}
	for _, c := range []struct {
		region  string
		sums    *Sums
		outcome Outcome
		used    int64
	}{
		{"a", from(1000, 0, 2), Applied, 2},
		{"b", from(5200, 0, 3), Applied, 5}, // began after a's reset, of which it has not heard
		{"a", from(5100, 5100, 4), Applied, 7},
		{"c", from(5000, 0, 1), Repeated, 7}, // was born before the reset
		{"b", from(5200, 5100, 3), Repeated, 7},
	} {
		if got, _ := Apply(tenASecond, &s, &own, &received, c.region, c.sums, now); got != c.outcome || s.Used != c.used {
			t.Errorf("%s: outcome %d and %d used, want %d and %d", c.region, got, s.Used, c.outcome, c.used)
		}
	}
	if own.Reset != 5100 {
		t.Errorf("%+v, want the reset of 5100", own)
	}
}

func TestSums_LiveAsLongAsTheirUnitsCount(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		want  int64
	}{
		{Limit{Algorithm: FixedWindow, Count: 5, Window: 1000}, 2000 + SumsMargin},
		{tenASecond, 3000 + SumsMargin},
		{Limit{Algorithm: SlidingWindowBuckets, Count: 5, Window: 1000, Buckets: 10}, 1200 + SumsMargin},
		{Limit{Algorithm: TokenBucket, Count: 5, Window: 1000, Burst: 20}, 12_000 + SumsMargin},
		{Limit{Algorithm: TokenBucket, Count: 0, Window: 1000, Burst: 20}, 3*oneOff + SumsMargin},
		{Limit{Algorithm: SlidingWindowLog, Count: 5, Window: MaxWindow}, MaxWindow},
	} {
		if got := (&Sums{}).Life(c.limit); got != c.want {
			t.Errorf("%s: %d, want %d", c.limit.Algorithm, got, c.want)
		}
	}
}

func TestSums_SmallCountsAreNotWorthTelling(t *testing.T) {
	l := Limit{Algorithm: FixedWindow, Count: 3000, Window: 60_000}
	of := func(units int64) *Sums {
		return &Sums{Taken: 5000, Windows: []WindowUnits{{Number: 5, Units: units}}}
	}
	given := of(1)
	given.Given = 1
	for _, c := range []struct {
		sums *Sums
		want bool
	}{{of(10), false}, {of(11), true}, {given, true}, {&Sums{Born: 5, Reset: 5}, true}, {&Sums{}, false}} {
		if got := c.sums.Worth(l, WorthParts(3)); got != c.want {
			t.Errorf("%+v: %v", c.sums, got)
		}
	}
}
