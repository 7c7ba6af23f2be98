package envoyfile

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sluice/rules/entries"
)

// TestPatterns_CoverAndOverlapAsTheirTextsDo compares with all short texts of two letters.
func TestPatterns_CoverAndOverlapAsTheirTextsDo(t *testing.T) {
	texts := []string{""}
	for i := 0; len(texts[i]) < 8; i++ {
		texts = append(texts, texts[i]+"a", texts[i]+"b")
	}
	pattern := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"", "a", "b", "ab"}), 2, 4).Draw(t, "parts"), "*")
	})
	rapid.Check(t, func(t *rapid.T) {
		p, q := pattern.Draw(t, "p"), pattern.Draw(t, "q")
		both, onlyQ := false, false
		for _, s := range texts {
			inP, inQ := entries.Fits(p, s), entries.Fits(q, s)
			both = both || inP && inQ
			onlyQ = onlyQ || inQ && !inP
		}
		a, b := endsOf(p), endsOf(q)
		if overlap := a.overlap(&b); both && !overlap || overlap && !both && len(p)+len(q) <= 8 {
			t.Errorf("overlap(%q, %q) = %t", p, q, !both)
		}
		if covers(p, q) && onlyQ {
			t.Errorf("%q does not cover %q", p, q)
		}
	})
}
