package chars

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unsafe reports whether r is not allowed in a text of one line: controls, line and paragraph
// separators, and the marks that reverse the direction of text, which make a line read
// differently.
func Unsafe(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' ||
		r == '\u200e' || r == '\u200f' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// MaxName bounds the name of an attribute or field, in bytes.
const MaxName = 64

// IsName reports whether s is a valid name of an attribute or field.
func IsName(s string) bool {
	if s == "" || len(s) > MaxName {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !IsAlnum(c) && c != '_' && c != '.' && c != '-' {
			return false
		}
	}
	return true
}

// IsAlnum reports whether c is an ASCII letter or digit.
func IsAlnum(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// IsHex reports whether c is a hexadecimal digit.
func IsHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// Unhex returns the value of a hexadecimal digit.
func Unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xdf - 'A' + 10
}

const upperHex = "0123456789ABCDEF"

// AppendEscaped appends a byte as %XX.
func AppendEscaped(b []byte, c byte) []byte {
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// Escape writes the characters of a text that a line would not keep or show as %XX: % itself, those that are
// invisible or Unsafe, blanks at the ends, and those of also.
func Escape(text, also string) string {
	trimmed := strings.TrimSpace(text)
	start := strings.Index(text, trimmed)
	b := make([]byte, 0, len(text))
	for i, r := range text {
		edge := i < start || i >= start+len(trimmed)
		if r != '%' && !edge && Visible(r) && !strings.ContainsRune(also, r) {
			b = utf8.AppendRune(b, r)
			continue
		}
		for _, c := range []byte(string(r)) {
			b = AppendEscaped(b, c)
		}
	}
	return string(b)
}

// Visible reports whether people see r, and see it where it is.
func Visible(r rune) bool { return unicode.IsPrint(r) && !Unsafe(r) }

// Unescape decodes %XX. A % that does not start one stands for itself.
func Unescape(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) && IsHex(s[i+1]) && IsHex(s[i+2]) {
			b = append(b, Unhex(s[i+1])<<4|Unhex(s[i+2]))
			i += 2
			continue
		}
		b = append(b, s[i])
	}
	return string(b)
}
