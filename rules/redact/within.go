package redact

import (
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
)

// Within reports whether a value looks like a credential, or a word of it does, as in token:sk_live_… and
// "sk_live_…", also with the escapes of URLs and of names of buckets.
func Within(v string) bool {
	const escaped = 3 // times at most, such as a URL in a URL whose escapes the name of a bucket escapes
	for range escaped {
		if Secret(v) || secretWord(v, false) || secretWord(v, true) {
			return true
		}
		if !strings.Contains(v, "%") {
			return false
		}
		v = chars.Unescape(v)
	}
	return secretWord(v, true)
}

// secretWord reports whether a part of a value looks like a credential, where letters, digits, _ and - make a part, and
// dots if it says so: those of a JWT are within, others are not.
func secretWord(v string, dots bool) bool {
	from := 0
	for i := 0; i <= len(v); i++ {
		if i < len(v) {
			if c := v[i]; c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' ||
				c == '.' && dots || c >= utf8.RuneSelf {
				continue
			}
		}
		if i-from < len(v) && Secret(v[from:i]) {
			return true
		}
		from = i + 1
	}
	return false
}
