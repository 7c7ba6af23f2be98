package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/rules/chars"
)

// Within reports whether a value looks like a credential, or a word of it does, as in token:sk_live_… and "sk_live_…",
// even with the escapes of URLs and of names of buckets.
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

// secretWord reports whether a word of a value looks like a credential, where letters, digits, _ and - make a word, and
// dots too if dots is true, as in a JWT.
func secretWord(v string, dots bool) bool {
	from := 0
	for i := 0; i <= len(v); {
		c, size := utf8.DecodeRuneInString(v[i:])
		if i < len(v) && (isWord(c) || c == '.' && dots) {
			i += size
			continue
		}
		if i-from < len(v) && Secret(v[from:i]) || secretPart(v[from:i]) {
			return true
		}
		i += max(size, 1)
		from = i
	}
	return false
}

func isWord(c rune) bool {
	return c == '_' || c == '-' || unicode.IsLetter(c) || unicode.IsDigit(c) || unicode.IsMark(c)
}

// minPart is the shortest part of a word that can be a credential, the length of a key of AWS. Shorter ones, as in
// en-sk-users and user_pk_17, are harmless.
const minPart = 20

// secretPart reports whether what follows a - or _ in a word looks like a credential, as in acme-AKIA… and key_9f86….
func secretPart(word string) bool {
	for {
		n := strings.IndexAny(word, "-_")
		if n < 0 || len(word)-n-1 < minPart {
			return false
		}
		word = word[n+1:]
		first, _, _ := strings.Cut(word, "-")
		first, _, _ = strings.Cut(first, "_")
		known := (hasSecretPrefix(word) || isJWT(word)) && strings.ContainsAny(word, "0123456789")
		if known || looksRandom(first) {
			return true
		}
	}
}
