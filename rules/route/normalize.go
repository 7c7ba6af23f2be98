package route

import (
	"bytes"
	"strings"

	"sluice/rules/chars"
)

// Normalize returns the form of a request's path that is compared with rules, so that no other
// spelling of a path evades a rule. It is the reading of application servers. It takes the path of a
// full URL, removes query, fragment, the ;parameters of segments, empty segments and the trailing
// slash (except that of the root), resolves . and .., adds a leading slash, and decodes
// percent-escapes except those of / ? # ; % and control bytes, which it writes in upper case. Case
// is kept. An empty path stays empty: it is an absent fact. A path in this form is returned
// without allocating, also from a target with a query.
func Normalize(path string) string {
	if path == "" || isNormal(path) {
		return path
	}
	if path = OfTarget(path); path != "" && isNormal(path) {
		return path
	}
	return resolveSegments(decodePath(withoutParams(path)))
}

// OfTarget returns the path of a request target as it was sent: without query and fragment, and of a full URL what
// follows the host.
func OfTarget(target string) string {
	if i := strings.IndexAny(target, "?#"); i >= 0 {
		target = target[:i]
	}
	if strings.HasPrefix(target, "/") {
		return target
	}
	scheme, rest, ok := strings.Cut(target, "://")
	if !ok || strings.Contains(scheme, "/") {
		return target
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// withoutParams cuts ;parameters from every segment.
func withoutParams(path string) string {
	if !strings.Contains(path, ";") {
		return path
	}
	b := make([]byte, 0, len(path))
	for seg := range strings.SplitSeq(path, "/") {
		seg, _, _ = strings.Cut(seg, ";")
		b = append(append(b, seg...), '/')
	}
	return string(b[:len(b)-1])
}

// changed marks the bytes, besides / and ., that Normalize may change.
var changed = func() (t [256]bool) {
	for c := range t {
		t[c] = c == '?' || c == '#' || c == ';' || c == '%' || isControl(byte(c)) //nolint:gosec // below 256
	}
	return t
}()

// isNormal reports whether a path certainly needs no change. It returns false for a path with an
// escape even if Normalize keeps that.
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
		case changed[c]:
			return false
		default:
			start = false
		}
	}
	return !start || len(p) == 1
}

// decodePath decodes the escapes that do not affect the ends of segments, and escapes bytes that
// must not be bare. Applied twice, it has the same result as once.
func decodePath(p string) string {
	b := make([]byte, 0, len(p)+8)
	for i := 0; i < len(p); i++ {
		c := p[i]
		if c == '%' && i+2 < len(p) && chars.IsHex(p[i+1]) && chars.IsHex(p[i+2]) {
			c = chars.Unhex(p[i+1])<<4 | chars.Unhex(p[i+2])
			i += 2
			if c == '/' || c == '?' || c == '#' || c == ';' {
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

// resolveSegments resolves . and .. and joins the remaining segments.
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

// Fold returns a normalised path with the ASCII letters in lower case. Escapes, which Normalize writes in upper case,
// stay. A path without such letters is returned without allocating.
func Fold(path string) string {
	at := 0
	for ; at < len(path); at++ {
		if c := path[at]; c == '%' {
			at += 2
		} else if c >= 'A' && c <= 'Z' {
			break
		}
	}
	if at >= len(path) {
		return path
	}
	b := []byte(path)
	for ; at < len(b); at++ {
		if c := b[at]; c == '%' {
			at += 2
		} else if c >= 'A' && c <= 'Z' {
			b[at] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// NormalizeMethod returns a method in upper case, so that "get" does not evade a rule for GET.
func NormalizeMethod(m string) string { return strings.ToUpper(m) }
