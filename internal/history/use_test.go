package history

import (
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

// Rows that were written before uses were counted are read, and say nothing of them.
func TestPack_KeepsTheUseAndReadsRowsWithoutOne(t *testing.T) {
	s := slots{3: {Figures{Allowed: 7, Denied: 2, WouldAllow: 1, Use: UseOf(84, 100)}, 5}, 9: {Figures{Allowed: 1}, -1},
		11: {Figures{Allowed: 2, Failed: 2}, 1}}
	if got := unpackSlots(s.pack()); !reflect.DeepEqual(got, s) {
		t.Errorf("%v became %v", s, got)
	}
	old := []byte{packedSlots, 3, 0b111, 6, 7, 2} // the peak plus 1, allowed, denied
	want := slots{3: {Figures{Allowed: 7, Denied: 2}, 5}}
	if got := unpackSlots(old); !reflect.DeepEqual(got, want) {
		t.Errorf("an old row is %v, want %v", got, want)
	}
	raised := s[3]
	raised.raise(slot{Figures{Use: UseOf(90, 100), Failed: 4}, 1})
	if raised.UsePercent() != 90 || raised.Peak != 5 || raised.Allowed != 7 || raised.Failed != 4 {
		t.Errorf("raised it is %+v", raised)
	}
}
