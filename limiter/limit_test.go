package limiter

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimitProblems_NameEveryBadField(t *testing.T) {
	ok := Limit{Algorithm: FixedWindow, Count: 10, Window: 1000}
	tests := []struct {
		name string
		edit func(*Limit)
		want []string
	}{
		{"a plain limit is valid", func(*Limit) {}, nil},
		{"limit 0 is valid: it blocks all", func(l *Limit) { l.Count = 0 }, nil},
		{"no algorithm", func(l *Limit) { l.Algorithm = 0 }, []string{"algorithm"}},
		{"unknown algorithm", func(l *Limit) { l.Algorithm = 200 }, []string{"algorithm"}},
		{"several at once", func(l *Limit) { l.Count, l.Window = -1, 0 }, []string{"limit", "window_ms"}},
		{"limit beyond a double", func(l *Limit) { l.Count = MaxExact + 1 }, []string{"limit"}},
		{"largest fixed window", func(l *Limit) { l.Count = MaxExact }, nil},
		{"window too long", func(l *Limit) { l.Window = MaxWindow + 1 }, []string{"window_ms"}},
		{"burst on a window", func(l *Limit) { l.Burst = 1 }, []string{"burst"}},
		{"negative burst", func(l *Limit) { l.Algorithm, l.Burst = GCRA, -1 }, []string{"burst"}},
		{"burst times window too large", func(l *Limit) { l.Algorithm, l.Burst = TokenBucket, MaxExact/1000+1 },
			[]string{"burst"}},
		{"burst times window just fits", func(l *Limit) { l.Algorithm, l.Burst = TokenBucket, MaxExact/1000 }, nil},
		{"align on a bucket", func(l *Limit) { l.Algorithm, l.Align = LeakyQueue, AlignFirstHit }, []string{"align"}},
		{"anchor on a log", func(l *Limit) { l.Algorithm, l.Anchor = SlidingWindowLog, 5 }, []string{"anchor_ms"}},
		{"anchor with first_hit", func(l *Limit) { l.Align, l.Anchor = AlignFirstHit, 5 }, []string{"anchor_ms"}},
		{"anchor out of range", func(l *Limit) { l.Anchor = -MaxWindow - 1 }, []string{"anchor_ms"}},
		{"buckets on a fixed window", func(l *Limit) { l.Buckets = 5 }, []string{"buckets"}},
		{"no buckets", func(l *Limit) { l.Algorithm = SlidingWindowBuckets }, []string{"buckets"}},
		{"more buckets than ms", func(l *Limit) { l.Algorithm, l.Buckets, l.Window = SlidingWindowBuckets, 11, 10 },
			[]string{"buckets"}},
		{"limit times window too large", func(l *Limit) { l.Algorithm, l.Count = SlidingWindowCounter, MaxExact/1000+1 },
			[]string{"limit"}},
		{"limit times window just fits", func(l *Limit) { l.Algorithm, l.Count = SlidingWindowCounter, MaxExact/1000 }, nil},
		{"log too long", func(l *Limit) { l.Algorithm, l.Count = SlidingWindowLog, MaxLogUnits+1 }, []string{"limit"}},
		{"too many slots", func(l *Limit) { l.Algorithm, l.Count = Concurrency, MaxSlots+1 }, []string{"limit"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := ok
			tt.edit(&l)
			var got []string
			for _, p := range l.Problems() {
				got = append(got, p.Field)
				if p.Message == "" {
					t.Errorf("field %s has no message", p.Field)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if (l.Validate() == nil) != (tt.want == nil) {
				t.Errorf("Validate() = %v, want an error: %v", l.Validate(), tt.want != nil)
			}
		})
	}
}

func TestAlgorithmNames_RoundTrip(t *testing.T) {
	for _, a := range Algorithms() {
		got, err := ParseAlgorithm(a.String())
		if err != nil || got != a {
			t.Errorf("ParseAlgorithm(%q) = %v, %v", a, got, err)
		}
		if len(a.Kind()) != 2 {
			t.Errorf("%s has kind %q, want two letters", a, a.Kind())
		}
	}
	_, err := ParseAlgorithm("leaky")
	if err == nil || !strings.Contains(err.Error(), "leaky_bucket") {
		t.Errorf("ParseAlgorithm(leaky) = %v, want an error that lists the names", err)
	}
}

func TestStrictest_PrefersDenialThenLongestWaitThenSmallestShare(t *testing.T) {
	tests := []struct {
		name string
		ds   []Decision
		want int
	}{
		{"none", nil, -1},
		{"a denial beats an empty allowance", []Decision{{Allowed: true}, {RetryAfter: 1, Remaining: 5}}, 1},
		{"the longer wait", []Decision{{RetryAfter: 10}, {RetryAfter: 20, Remaining: 9}}, 1},
		{"never is the longest wait", []Decision{{RetryAfter: Never, Remaining: 9}, {RetryAfter: 1 << 40}}, 0},
		{"the smaller share that is left, whatever the units", []Decision{{Allowed: true, Limit: 5, Remaining: 3},
			{Allowed: true, Limit: MaxExact, Remaining: MaxExact / 2},
			{Allowed: true, Limit: MaxExact, Remaining: MaxExact}}, 1},
		{"a limit of nothing has no share left", []Decision{{Allowed: true, Limit: 5},
			{Allowed: true, Limit: 9, Remaining: 1},
			{Allowed: true}}, 0},
		{"of equal shares, the fewer remaining", []Decision{{Allowed: true, Limit: 100, Remaining: 100},
			{Allowed: true, Limit: 10, Remaining: 10}}, 1},
		{"the fewer remaining", []Decision{{Allowed: true, Remaining: 3}, {Allowed: true, Remaining: 2}}, 1},
		{"the first of equals", []Decision{{Allowed: true, Remaining: 2}, {Allowed: true, Remaining: 2}}, 0},
	}
	for _, tt := range tests {
		if got := Strictest(tt.ds); got != tt.want {
			t.Errorf("%s: Strictest = %d, want %d", tt.name, got, tt.want)
		}
	}
}
