package rulefile_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/rules/rulefile"
)

// BenchmarkParse measures an import of 100,000 rules as an export writes them, without the database.
func BenchmarkParse(b *testing.B) {
	var text strings.Builder
	text.WriteString("rules:\n")
	for i := range 100_000 {
		fmt.Fprintf(&text, `  - name: charges-%d
    description: "what a user is charged"
    scope: user
    route: /v1/charges/%d
    limit: 5
    window_ms: 1000
    algorithm: token_bucket
    burst: 20
    tiers:
      gold: {limit: 50}
    is_active: true
`, i, i)
	}
	data := []byte(text.String())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := rulefile.Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}
