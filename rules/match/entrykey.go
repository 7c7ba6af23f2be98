package match

import (
	"strings"

	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/chars"
	"sluice/rules/entries"
	"sluice/rules/redact"
)

// The key of a descriptor of Envoy is
//
//	{shop:path=/pay+user=b}|17|fw
//
// with the domain, and the key and the value of every entry. A byte that could be taken for a separator is written %XX
// in each of them, so that different descriptors never have the same key. A value that looks like a credential, and a
// part that is too long, is replaced by its hash; see limiter.AppendHashed. If all values that fit a pattern share a
// bucket, the pattern replaces them, with its * in clear. A key that is too long as a whole consists of the domain and
// a hash.

// maxEntriesFacts is the longest key of a descriptor that is written in clear, in bytes.
const maxEntriesFacts = 1024

// entriesKind ends the keys of descriptors without a rule. Their limits count in fixed windows.
var entriesKind = "|d|" + limiter.FixedWindow.Kind()

// plainPart marks the bytes that stand for themselves in a part of the key of a descriptor.
var plainPart = func() (t [256]bool) {
	for c := range t {
		t[c] = chars.IsAlnum(byte(c)) || strings.IndexByte("-_.~/@,;!$()", byte(c)) >= 0
	}
	return t
}()

// appendPart appends a part of a key. A * stands for itself only in a pattern.
func appendPart(dst []byte, part string, pattern bool) []byte {
	start, whole := len(dst), 0
	for whole < len(part) && plainPart[part[whole]] {
		whole++
	}
	if whole > limiter.MaxKeyValue {
		return limiter.AppendHashed(dst, part)
	}
	dst = append(dst, part[:whole]...)
	for i := whole; i < len(part); i++ {
		if c := part[i]; plainPart[c] || pattern && c == '*' {
			dst = append(dst, c)
		} else {
			dst = chars.AppendEscaped(dst, c)
		}
		if len(dst)-start > limiter.MaxKeyValue {
			return limiter.AppendHashed(dst[:start], part)
		}
	}
	return dst
}

// appendDomain appends what comes before the first entry. A domain that is the name of a fact has
// its first byte escaped, so that no key of another rule begins in the same way.
func appendDomain(dst []byte, domain string) []byte {
	dst = append(dst, '{')
	if ownLabel(domain) {
		dst = chars.AppendEscaped(dst, domain[0])
		domain = domain[1:]
	}
	return append(appendPart(dst, domain, false), ':')
}

// appendEntryKey appends the key of an entry. first reports whether it is the first.
func appendEntryKey(dst []byte, key string, first bool) []byte {
	if !first {
		dst = append(dst, '+')
	}
	return append(appendPart(dst, key, false), '=')
}

// appendEntryValue appends the value of an entry, or the pattern of an element that shares a bucket.
func appendEntryValue(dst []byte, value, shared string) []byte {
	switch {
	case shared != "":
		return appendPart(dst, shared, true)
	case secretEntry(value):
		return limiter.AppendHashed(dst, value)
	}
	return appendPart(dst, value, false)
}

// secretEntry reports whether a value, or a segment of a path, looks like a credential.
func secretEntry(value string) bool {
	return redact.Secret(value) || value != "" && value[0] == '/' && redact.SecretPath(value)
}

// appendEntries appends the facts of the key of a descriptor, in braces. r is nil without a rule.
func appendEntries(dst []byte, r *rules.Rule, domain string, list []entries.Entry) []byte {
	start := len(dst)
	dst = appendDomain(dst, domain)
	behind := len(dst)
	for i := range list {
		dst = appendEntryKey(dst, list[i].Key, i == 0)
		dst = appendEntryValue(dst, list[i].Value, r.SharedPattern(i))
	}
	return append(boundEntries(dst, start, behind), '}')
}

// boundEntries replaces the part of dst from behind on by a hash if the facts, which begin at start,
// are too long.
func boundEntries(dst []byte, start, behind int) []byte {
	if len(dst)-start > maxEntriesFacts {
		return limiter.AppendHashed(dst[:behind], string(dst[start:]))
	}
	return dst
}

// displayEntries writes the facts of a key for people, or the given facts of a wildcard.
func displayEntries(facts string, show Show) string {
	domain, list, _ := strings.Cut(strings.TrimSuffix(facts[1:], "}"), ":")
	out := append(displayPart(nil, domain, ":"), ':')
	if !strings.Contains(list, "=") {
		return string(show.replace(displayPart(out, list, ""), len(out), len(out)))
	}
	for i, entry := range strings.Split(list, "+") {
		if i > 0 {
			out = append(out, '+')
		}
		key, value, _ := strings.Cut(entry, "=")
		label := len(out)
		out = append(displayPart(out, key, "+="), '=')
		out = show.replace(displayPart(out, value, "+"), label, len(out))
	}
	return string(out)
}

// displayPart writes a part of a key. It escapes the given separators.
func displayPart(dst []byte, part, separators string) []byte {
	if hash, ok := strings.CutPrefix(part, "%h"); ok {
		return append(append(dst, hashWord...), hash...)
	}
	for i, text := range strings.Split(part, "*") { // a * in clear belongs to a pattern
		if i > 0 {
			dst = append(dst, '*')
		}
		text = chars.Unescape(text)
		colon := -1
		if hash, ok := strings.CutPrefix(text, hashWord); ok && isShownHash(hash) {
			colon = len(hashWord) - 1
		}
		dst = chars.AppendShown(dst, text, func(i int, r rune) bool {
			return r == '%' || r == '*' || r == ' ' || strings.ContainsRune(separators, r) || i == colon
		})
	}
	return dst
}

// isShownHash reports whether a text is a hash as people see it.
func isShownHash(text string) bool { return isHashText(text, shownHash) || isHashText(text, hashLen) }
