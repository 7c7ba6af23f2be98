package history

import (
	"math"
	"reflect"
	"testing"
)

func TestUseOf_IsInPercentAndUnknownIsNotZero(t *testing.T) {
	for _, c := range []struct{ used, limit, want int64 }{
		{0, 100, 0}, {50, 100, 50}, {100, 100, 100}, {101, 100, 101}, {1, 3, 33}, {0, 0, 100}, {5, 0, 100}, {1 << 50, 1, 999},
		{1<<53 - 1, 1<<53 - 1, 100}, {1<<54 - 2, 1<<53 - 1, 200}, {-3, 10, 0},
	} {
		f := Figures{Use: UseOf(c.used, c.limit)}
		if got := f.UsePercent(); got != c.want {
			t.Errorf("%d of %d is %d%%, want %d%%", c.used, c.limit, got, c.want)
		}
	}
	var unknown Figures
	if unknown.UsePercent() != -1 {
		t.Error("a use that is not known is a number")
	}
	unknown.Add(Figures{Use: UseOf(3, 10)})
	unknown.Add(Figures{Use: UseOf(9, 10)})
	unknown.Add(Figures{Use: UseOf(1, 10)})
	if unknown.UsePercent() != 90 {
		t.Errorf("of several periods the use is %d%%", unknown.UsePercent())
	}
}

// A row that cannot be read says nothing.
func TestPack_KeepsEveryFigureAndReadsNothingElse(t *testing.T) {
	s := slots{3: {Figures{Allowed: 7, Denied: 2, WouldAllow: 1, Use: UseOf(84, 100)}, 5}, 9: {Figures{Allowed: 1}, -1},
		11: {Figures{Allowed: 2, Denied: 3, Failed: 2, Degraded: 4, DegradedDenied: 3}, 1}}
	if got := unpackSlots(s.pack()); !reflect.DeepEqual(got, s) {
		t.Errorf("%v became %v", s, got)
	}
	if sum, ok := unpackSum(s.pack()); !ok || sum != s.sum() {
		t.Errorf("the sum is %+v, want %+v", sum, s.sum())
	}
	for name, damaged := range map[string][]byte{"of another version": {9, 3, 0b11, 1, 2}, "cut": s.pack()[:12],
		"none": nil} {
		if got := unpackSlots(damaged); len(got) != 0 {
			t.Errorf("a row that is %s has %v", name, got)
		}
	}
	if longest := (slots{3: {FiguresOf([NumFigures]int64{math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64,
		math.MaxInt64, math.MaxInt64, math.MaxInt64, math.MaxInt64}), math.MaxInt64 - 1}}).pack(); len(longest) > 2*SumBytes {
		t.Errorf("a row of one minute has %d bytes", len(longest))
	}
}

// TestGrowing_IsTheRowOfItsMinutes: also if the clock of a node was set back, so that a minute comes again.
func TestGrowing_IsTheRowOfItsMinutes(t *testing.T) {
	g := newGrowing()
	g.add(58, slot{Figures{Allowed: 3, Use: 7}, 2})
	g.add(59, slot{Figures{Denied: 1}, 1})
	g.add(58, slot{Figures{Allowed: 4, Use: 2}, 5})
	g.add(0, slot{Figures{}, 0})
	want := slots{58: {Figures{Allowed: 7, Use: 7}, 5}, 59: {Figures{Denied: 1}, 1}, 0: {Figures{}, 0}}
	if got := unpackSlots(g.pack()); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if sum, ok := unpackSum(g.pack()); !ok || sum != want.sum() {
		t.Errorf("the sum is %+v, want %+v", sum, want.sum())
	}
}
