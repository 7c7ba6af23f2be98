package rules

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/limiter"
	"sluice/rules/chars"
)

// DisplayKey is the name of a bucket for people, such as user:42 or
// user:42+ip:203.0.113.7 or global. It is the one notation for keys: every
// surface prints it, and ParseOverrideKey and FindBucket read it back to exactly
// that bucket. A credential or a long value shows as sha256: and the first 12
// characters of its hash. What cannot be printed, and what could be read in
// another way, is written %XX:
//
//	user a*               user:a%2A
//	user a%b              user:a%25b
//	user ip:1             user:ip%3A1
//	user a+ip:1, tier b   user:a%2Bip:1+tier:b
//
// Buckets of different rules may have the same name.
func DisplayKey(key limiter.Key) string {
	facts, _, _ := strings.Cut(string(key), "|")
	// Most keys have one fact that needs no escape: it is shown as it stands.
	if n := len(facts) - 1; n > 0 && facts[0] == '{' && facts[n] == '}' && !strings.ContainsAny(facts[1:n], "{}%*+") {
		colons := 1
		if strings.HasPrefix(facts[1:], "attr:") {
			colons = 2
		}
		if strings.Count(facts, ":") == colons {
			return facts[1:n]
		}
	}
	return displayFacts(string(appendShort(nil, []byte(facts))), strings.Contains(facts, "+"))
}

// DisplayDirectKey returns the key of a caller who sent the limit, as that caller wrote it, with
// unprintable characters as %XX. A hashed key shows as sha256: and the first 12 characters of the
// hash.
func DisplayDirectKey(key limiter.Key) string {
	facts, _, _ := strings.Cut(string(key), "|")
	v := strings.TrimSuffix(strings.TrimPrefix(facts, "{key:"), "}")
	if hash, ok := strings.CutPrefix(v, "%h"); ok {
		return hashWord + hash[:min(len(hash), shownHash)]
	}
	if !strings.Contains(v, "%") {
		return v
	}
	return string(appendPrintable(nil, chars.Unescape(v), nil))
}

// displayFacts writes the facts of a key, or of a wildcard as far as it goes. several reports that
// the scope has more than one fact.
func displayFacts(facts string, several bool) string {
	out := make([]byte, 0, len(facts)+8)
	for i, part := range strings.Split(facts, "+") {
		if i > 0 {
			out = append(out, '+')
		}
		part = strings.TrimSuffix(strings.TrimPrefix(part, "{"), "}")
		out = displayFact(out, part, several)
	}
	return string(out)
}

// displayFact writes one fact.
func displayFact(dst []byte, part string, several bool) []byte {
	label, value, own := cutLabel(part)
	dst = append(dst, label...)
	if hash, ok := strings.CutPrefix(value, "%h"); ok {
		return append(append(dst, hashWord...), hash...)
	}
	text := chars.Unescape(value)
	// Escape a colon after which the value would read like a hash, or, without its label, like
	// another fact.
	colon := -1
	if hash, ok := strings.CutPrefix(text, hashWord); ok && (isHashText(hash, shownHash) || isHashText(hash, hashLen)) {
		colon = len(hashWord) - 1
	} else if own && !several && beginsWithFact(text) {
		colon = strings.IndexByte(text, ':')
	}
	return appendPrintable(dst, text, func(i int, r rune) bool {
		switch r {
		case '%', '*', ' ':
			return true
		case '+':
			return several || own && beginsWithFact(text[i+1:])
		}
		return i == colon
	})
}

// cutLabel splits a fact into its label and its value. own reports that the label is that of a
// known fact.
func cutLabel(part string) (label, value string, own bool) {
	at := strings.IndexByte(part, ':')
	if at < 0 {
		return "", part, false
	}
	own = beginsWithFact(part)
	if part[:at] == factNames[factAttr] {
		if next := strings.IndexByte(part[at+1:], ':'); next >= 0 {
			at += 1 + next
		}
	}
	return part[:at+1], part[at+1:], own
}

// beginsWithFact reports whether a text begins like a fact: user:, attr: and so on.
func beginsWithFact(text string) bool {
	name, _, ok := strings.Cut(text, ":")
	return ok && slices.Contains(factNames[:], name)
}

// appendPrintable appends text with unprintable characters as %XX, and also those for which also
// returns true; also may be nil.
func appendPrintable(dst []byte, text string, also func(i int, r rune) bool) []byte {
	for i, n := 0, 0; i < len(text); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !unicode.IsPrint(r) || chars.Unsafe(r) || also != nil && also(i, r) {
			for _, c := range []byte(text[i : i+n]) {
				dst = chars.AppendEscaped(dst, c)
			}
			continue
		}
		dst = append(dst, text[i:i+n]...)
	}
	return dst
}
