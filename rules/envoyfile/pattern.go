package envoyfile

import (
	"strings"

	"sluice/rules/entries"
)

// covers reports whether the pattern p matches every text that q matches.
func covers(p, q string) bool {
	// A byte that no pattern contains stands for any text of q: only a * of p matches it.
	return entries.Fits(p, strings.ReplaceAll(q, "*", "\xff"))
}

// ends are what a pattern has before its first * and after its last one.
type ends struct{ head, tail string }

func endsOf(pattern string) ends {
	return ends{pattern[:strings.IndexByte(pattern, '*')], pattern[strings.LastIndexByte(pattern, '*')+1:]}
}

// overlap reports whether some text matches two patterns with these ends: if the ends agree, because what is between
// them can always be written one after the other.
func (a *ends) overlap(b *ends) bool {
	return (strings.HasPrefix(a.head, b.head) || strings.HasPrefix(b.head, a.head)) &&
		(strings.HasSuffix(a.tail, b.tail) || strings.HasSuffix(b.tail, a.tail))
}
