package view

import (
	"fmt"
	"strings"

	"sluice/rules/chars"
)

// visible writes hidden characters as JSON escapes, except line breaks.
func visible(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '\n' || chars.Visible(c):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\u{%x}`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
