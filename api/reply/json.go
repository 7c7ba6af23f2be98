package reply

import "unicode/utf8"

const lowerHex = "0123456789abcdef"

// bare marks the bytes that need no escape in a JSON string.
var bare = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString writes s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0 // start of what is not written yet
	for i := 0; i < len(s); {
		c := s[i]
		if bare[c] {
			i++
			continue
		}
		b = append(b, s[from:i]...)
		n := 1
		if c < utf8.RuneSelf {
			switch b = append(b, '\\'); c {
			case '"', '\\':
				b = append(b, c)
			default:
				b = append(b, 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
			}
		} else {
			var r rune
			r, n = utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
			b = utf8.AppendRune(b, r)
		}
		i += n
		from = i
	}
	return append(append(b, s[from:]...), '"')
}
