package quantity_test

import (
	"testing"
	"time"

	"sluice/rules/quantity"
)

func TestAmount_SeparatesThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 10_000: "10,000", 1_234_567: "1,234,567",
		-1234: "−1,234"} {
		if got := quantity.Amount(n); got != want {
			t.Errorf("Amount(%d) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{1.25: "1.25", 2: "2", 1240.5: "1,240.5", 0.005: "0.005", 0: "0"} {
		if got := quantity.Decimal(n); got != want {
			t.Errorf("Decimal(%v) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0/s", 0.04: "under 0.1/s", 0.25: "0.2/s", 9.94: "9.9/s", 9.96: "10/s",
		1240.4: "1,240/s"} {
		if got := quantity.Rate(n); got != want {
			t.Errorf("Rate(%v) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0/s", 0.005: "0.005/s", 2.5: "2.5/s", 20_000: "20,000/s"} {
		if got := quantity.RoundRate(n); got != want {
			t.Errorf("RoundRate(%v) = %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{512: "512 B", 42_500: "42.5 kB", 1_800_000: "1.8 MB"} {
		if got := quantity.Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShare_IsNoneOrAllOnlyIfExactlySo(t *testing.T) {
	for _, c := range []struct {
		part, whole int64
		want        string
	}{{0, 5, "0%"}, {0, 0, "0%"}, {5, 5, "100%"}, {997, 1000, "99.7%"}, {4, 10_000, "under 0.1%"}, {1, 1000, "0.1%"},
		{99_999, 100_000, "over 99.9%"}, {1<<62 - 1, 1 << 62, "over 99.9%"}, {24, 1000, "2.4%"}, {1, 20, "5%"},
		{999, 10_000, "10%"}, {472, 1000, "47%"}, {986, 1000, "99%"}, {12, 10, "120%"}, {10_001, 10_000, "over 100%"},
		{100, 1, "10,000%"}} {
		if got := quantity.Share(c.part, c.whole); got != c.want {
			t.Errorf("Share(%d, %d) = %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

func TestLength_HasAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", time.Microsecond: "under 1 ms",
		216 * time.Millisecond: "216 ms", 2600 * time.Millisecond: "2.6 s", 3 * time.Second: "3 s",
		48_900 * time.Millisecond: "48 s", time.Minute: "1 min", 105 * time.Second: "1 min 45 s", time.Hour: "1 h",
		2*time.Hour + 5*time.Minute + 59*time.Second: "2 h 5 min", 24 * time.Hour: "1 day",
		76*time.Hour + time.Minute: "3 days 4 h", 3653 * 24 * time.Hour: "3,653 days"} {
		if got := quantity.Length(d); got != want {
			t.Errorf("Length(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestWait_IsNeverTooShort(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0 s", time.Microsecond: "1 ms", 999 * time.Millisecond: "999 ms",
		1001 * time.Millisecond: "1.1 s", 9950 * time.Millisecond: "10 s", 11_800 * time.Millisecond: "12 s",
		59_001 * time.Millisecond: "1 min", 105_400 * time.Millisecond: "1 min 46 s",
		time.Hour - time.Millisecond: "1 h", 2*time.Hour + time.Second: "2 h 1 min",
		24*time.Hour + time.Second: "1 day 1 h"} {
		if got := quantity.Wait(d); got != want {
			t.Errorf("Wait(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestPeriod_IsSingularForOne(t *testing.T) {
	for ms, want := range map[int64][2]string{60_000: {"minute", "1 minute"}, 900_000: {"15 minutes", "15 minutes"},
		1500: {"1,500 ms", "1,500 ms"}, 604_800_000: {"week", "1 week"}, 1000: {"second", "1 second"},
		0: {"0 ms", "0 ms"}} {
		if got := [2]string{quantity.Period(ms), quantity.Exactly(ms)}; got != want {
			t.Errorf("Period and Exactly of %d = %q, want %q", ms, got, want)
		}
	}
}
