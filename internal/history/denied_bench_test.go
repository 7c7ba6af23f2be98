package history

import (
	"fmt"
	"testing"
)

// BenchmarkDeniedOf is what twenty nodes post of a flood in which each key is denied once.
func BenchmarkDeniedOf(b *testing.B) {
	const last = 1_800_000_009
	tens := map[int64]deniedTen{}
	for i := range int64(600) {
		second := last - i
		if tens[second/10].keys == nil {
			tens[second/10] = deniedTen{keys: map[ruleKey]deniedSeconds{}}
		}
		for k := range 200 {
			key := ruleKey{"charges-per-user", fmt.Sprintf("user:%d-%d", second, k)}
			tens[second/10].keys[key] = deniedSeconds{second: {1, 0}}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got := deniedOf(tens, last); len(got) != 200*keySeconds {
			b.Fatalf("%d keys", len(got))
		}
	}
}
