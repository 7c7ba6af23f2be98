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

// Escape writes the characters of a text that a line would not keep or show as %XX: % itself, characters that are
// invisible or Unsafe, blanks at the ends, and the characters in also. Unescape reverses it.
func Escape(text, also string) string {
	trimmed := strings.TrimSpace(text)
	start := strings.Index(text, trimmed)
	return string(AppendShown(nil, text, func(i int, r rune) bool {
		return r == '%' || i < start || i >= start+len(trimmed) || strings.ContainsRune(also, r)
	}))
}

// Shown returns a text of a caller as people may see it, on a page, in a file or in a terminal: on one line, with each
// byte of what is not Visible, or not UTF-8, as %XX. A % stays, so the text cannot be read back.
func Shown(text string) string {
	if plain(text) {
		return text
	}
	return string(AppendShown(nil, text, nil))
}

// ShownLines is Shown for a text of several lines: line feeds and tabs stay.
func ShownLines(text string) string {
	if plain(text) {
		return text
	}
	b := make([]byte, 0, len(text))
	for len(text) > 0 {
		i := strings.IndexAny(text, "\n\t")
		if i < 0 {
			return string(AppendShown(b, text, nil))
		}
		b = append(AppendShown(b, text[:i], nil), text[i])
		text = text[i+1:]
	}
	return string(b)
}

// plain reports whether a text is ASCII that Shown keeps.
func plain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// AppendShown appends what Shown returns. It also writes as %XX the characters for which also, given the index in the
// text, returns true. also may be nil.
func AppendShown(dst []byte, text string, also func(i int, r rune) bool) []byte {
	for i, n := 0, 0; i < len(text); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(text[i:])
		if r == utf8.RuneError && n == 1 || !Visible(r) || also != nil && also(i, r) {
			for _, c := range []byte(text[i : i+n]) {
				dst = AppendEscaped(dst, c)
			}
			continue
		}
		dst = append(dst, text[i:i+n]...)
	}
	return dst
}

// Cell returns a text of a caller for a cell of a CSV file: what Shown returns, after a ' if a spreadsheet could
// evaluate it as a formula.
func Cell(text string) string {
	if text = Shown(text); IsFormula(text) {
		return "'" + text
	}
	return text
}

// IsFormula reports whether a spreadsheet could evaluate a text as a formula. Each ' before it is ignored.
func IsFormula(text string) bool {
	first, size := utf8.DecodeRuneInString(strings.TrimLeft(text, "'"))
	return size > 0 && strings.ContainsRune("=+-@＝＋－＠|%\t\r\n", first)
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

// UnescapeShown reverses Escape in a text that people may have edited: a %XX that Escape would not write, such as %41,
// stands for itself.
func UnescapeShown(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		end := i
		for end+2 < len(s) && s[end] == '%' && IsHex(s[end+1]) && IsHex(s[end+2]) {
			end += 3
		}
		for plain := Unescape(s[i:end]); plain != ""; {
			_, size := utf8.DecodeRuneInString(plain)
			typed := s[i : i+3*size]
			if Escape(plain[:size], "") == strings.ToUpper(typed) {
				typed = plain[:size]
			}
			b.WriteString(typed)
			plain, i = plain[size:], i+3*size
		}
		if i < len(s) {
			b.WriteByte(s[i])
			i++
		}
	}
	return b.String()
}
