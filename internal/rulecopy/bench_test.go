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
			c := sample()
			for i := len(c.Rules); i < n; i++ {
				r := c.Rules[0]
				r.ID, r.Name = int64(i+1), fmt.Sprintf("rule-%d", i)
				c.Rules = append(c.Rules, r)
			}
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
