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

// overlap reports whether some text matches both patterns, each of which has a *.
func overlap(p, q string) bool {
	// They must agree on what is before their first * and after their last one. What is between can always be written
	// one after the other.
	head := func(s string) string { return s[:strings.IndexByte(s, '*')] }
	tail := func(s string) string { return s[strings.LastIndexByte(s, '*')+1:] }
	a, b := head(p), head(q)
	c, d := tail(p), tail(q)
	return (strings.HasPrefix(a, b) || strings.HasPrefix(b, a)) && (strings.HasSuffix(c, d) || strings.HasSuffix(d, c))
}
