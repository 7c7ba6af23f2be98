package rulecopy

import (
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkSave is what one edit costs in the background, sync included.
func BenchmarkSave(b *testing.B) {
	for _, n := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", n), func(b *testing.B) {
			c := grown(n)
			path := filepath.Join(b.TempDir(), "rules.copy")
			b.ReportAllocs()
			for b.Loop() {
				if err := save(path, here, c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
