package route

import (
	"bytes"
	"strings"

	"sluice/rules/chars"
)

// Normalize returns the one spelling of a request's path that rules are
// compared with, so that no other spelling slips past a rule: query and
// fragment cut off, a leading slash, no empty segments, . and .. resolved, no
// trailing slash except on the root, percent-escapes decoded unless they stand
// for / ? # % or a control byte (those keep their escape, in upper case). Case
// is kept. The empty route stays empty: it is an absent fact. A route already
// in this form is returned as it is, without allocating.
func Normalize(path string) string {
	if path == "" || isNormal(path) {
		return path
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 {
		path = path[:i]
	}
	return resolveSegments(decodePath(path))
}

// isNormal reports whether a path needs no change. It may say no to a
// route that Normalize then leaves alone (one that keeps an escape).
func isNormal(p string) bool {
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
		if c == '%' && i+2 < len(p) && chars.IsHex(p[i+1]) && chars.IsHex(p[i+2]) {
			c = chars.Unhex(p[i+1])<<4 | chars.Unhex(p[i+2])
			i += 2
			if c == '/' || c == '?' || c == '#' {
				b = chars.AppendEscaped(b, c)
				continue
			}
		}
		if c == '%' || isControl(c) {
			b = chars.AppendEscaped(b, c)
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

// NormalizeMethod folds a method to upper case, so that "get" does not slip
// past a rule for GET.
func NormalizeMethod(m string) string { return strings.ToUpper(m) }
