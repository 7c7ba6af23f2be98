package rules

import (
	"bytes"
	"strings"
)

// NormalizeRoute gives the one spelling of a request's path that rules are
// compared with, so that no other spelling slips past a rule: query and
// fragment cut off, a leading slash, no empty segments, . and .. resolved, no
// trailing slash except on the root, percent-escapes decoded unless they stand
// for / ? # % or a control byte (those keep their escape, in upper case). Case
// is kept. The empty route stays empty: it is an absent fact. A route already
// in this form is returned as it is, without allocating.
func NormalizeRoute(path string) string {
	if path == "" || isNormalRoute(path) {
		return path
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return resolveSegments(decodePath(path))
}

// isNormalRoute reports whether a path needs no change. It may say no to a
// route that NormalizeRoute then leaves alone (one that keeps an escape).
func isNormalRoute(p string) bool {
	if p[0] != '/' {
		return false
	}
	start := true // the previous byte was a slash
	for i := 1; i < len(p); i++ {
		c := p[i]
		switch {
		case c == '/' || c == '.':
			if start {
				return false
			}
			start = c == '/'
		case c == '?' || c == '#' || c == '%' || isControl(c):
			return false
		default:
			start = false
		}
	}
	return !start || len(p) == 1
}

// decodePath decodes the escapes that change nothing about where segments end,
// and escapes what must not stand bare, so that decoding twice is decoding once.
func decodePath(p string) string {
	b := make([]byte, 0, len(p)+8)
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '%' && i+2 < len(p) && isHex(p[i+1]) && isHex(p[i+2]) {
			c = unhex(p[i+1])<<4 | unhex(p[i+2])
			i += 2
			if c == '/' || c == '?' || c == '#' {
				b = appendEscaped(b, c)
				continue
			}
		}
		if c == '%' || isControl(c) {
			b = appendEscaped(b, c)
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// resolveSegments joins the segments that remain after . and .. are resolved.
func resolveSegments(p string) string {
	b := make([]byte, 0, len(p)+1)
	for seg := range strings.SplitSeq(p, "/") {
		switch seg {
		case "", ".":
		case "..":
			b = b[:max(0, bytes.LastIndexByte(b, '/'))]
		default:
			b = append(append(b, '/'), seg...)
		}
	}
	if len(b) == 0 {
		return "/"
	}
	return string(b)
}

func isControl(c byte) bool { return c < 0x20 || c == 0x7f }

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xdf - 'A' + 10
}

const upperHex = "0123456789ABCDEF"

func appendEscaped(b []byte, c byte) []byte {
	return append(b, '%', upperHex[c>>4], upperHex[c&15])
}

// normalizeMethod folds a method to upper case, so that "get" does not slip
// past a rule for GET.
func normalizeMethod(m string) string { return strings.ToUpper(m) }
