package facts

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"sluice/rules/match"
)

// request is a request that is being read, with the claims of its token once they are needed.
type request struct {
	*Request
	reader  *Reader
	decoded bool
	claims  map[string]json.RawMessage
}

// text returns the first value among the sources of a fact, "" if there is none.
func (w *request) text(f *fact) string {
	for i := range f.sources {
		s := &f.sources[i]
		if s.from == fromValue {
			return s.name
		}
		if v := w.value(s); v != "" {
			return text(v)
		}
	}
	return ""
}

// number returns the first whole number among the sources of a field. Numbers above
// limiter.MaxExact may be returned as any other number above it.
func (w *request) number(f *fact) (int64, bool) {
	for i := range f.sources {
		s := &f.sources[i]
		if s.from == fromValue {
			return s.number, true
		}
		if n, ok := parseNumber(w.value(s)); ok {
			return n, true
		}
	}
	return 0, false
}

// value returns the text of one source, "" if the request does not have it. If a header or cookie has several values,
// it is the first that is not empty.
func (w *request) value(s *source) string {
	switch s.from {
	case fromHeader:
		if s.name == "Host" { // not among the headers
			return w.Host
		}
		return first(w.Header[s.name])
	case fromCookie:
		return cookie(w.Header["Cookie"], s.name)
	case fromClaim:
		if !w.decoded {
			w.decoded = true
			w.claims = decodeClaims(first(w.Header[w.reader.claims]))
		}
		return claimText(claim(w.claims, s.name))
	case fromValue:
	}
	return s.name
}

// first returns the first value that is not empty.
func first(values []string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}

// cookie returns the first value of a cookie that is not empty, without the quotes around it.
func cookie(headers []string, name string) string {
	for _, line := range headers {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			n, v, ok := strings.Cut(strings.TrimSpace(pair), "=")
			if !ok || strings.TrimSpace(n) != name {
				continue
			}
			v = strings.TrimSpace(v)
			if len(v) > 1 && v[0] == '"' && v[len(v)-1] == '"' {
				v = v[1 : len(v)-1]
			}
			if v != "" {
				return v
			}
		}
	}
	return ""
}

// decodeClaims returns the claims of a JSON Web Token, nil if it is none. It verifies nothing: the
// gateway did.
func decodeClaims(header string) map[string]json.RawMessage {
	const scheme = "bearer "
	if len(header) > len(scheme) && strings.EqualFold(header[:len(scheme)], scheme) {
		header = strings.TrimSpace(header[len(scheme):])
	}
	parts := strings.Split(header, ".")
	if len(parts) != 3 { // header, payload, signature
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || !utf8.Valid(payload) {
		return nil
	}
	var claims map[string]json.RawMessage
	if json.Unmarshal(payload, &claims) != nil {
		return nil
	}
	return claims
}

// claim returns the claim at a path such as groups[0] or org.id, nil if there is none. A name may have dots and
// brackets itself: at each step the longest name that the object has counts.
func claim(object map[string]json.RawMessage, path string) json.RawMessage {
	if v, ok := object[path]; ok {
		return v
	}
	for cut := len(path) - 1; cut > 0; cut-- {
		if c := path[cut]; c != '.' && c != '[' {
			continue
		}
		if v, ok := object[path[:cut]]; ok {
			return within(v, path[cut:])
		}
	}
	return nil
}

// within follows the rest of a path, which begins with a dot or a bracket, into a claim.
func within(v json.RawMessage, rest string) json.RawMessage {
	for strings.HasPrefix(rest, "[") {
		digits, after, _ := strings.Cut(rest[1:], "]")
		i, err := strconv.Atoi(digits)
		var list []json.RawMessage
		if err != nil || json.Unmarshal(v, &list) != nil || i < 0 || i >= len(list) {
			return nil
		}
		v, rest = list[i], after
	}
	if rest == "" {
		return v
	}
	var object map[string]json.RawMessage
	if rest[0] != '.' || json.Unmarshal(v, &object) != nil {
		return nil
	}
	return claim(object, rest[1:])
}

// claimText returns a claim that is a string, a number as it is written, or true or false. Any other
// claim counts as missing.
func claimText(claim json.RawMessage) string {
	claim = bytes.TrimSpace(claim)
	if len(claim) == 0 {
		return ""
	}
	switch c := claim[0]; {
	case c == '"':
		var v string
		if json.Unmarshal(claim, &v) != nil {
			return ""
		}
		return v
	case c == '-' || c >= '0' && c <= '9' || c == 't' || c == 'f':
		return string(claim)
	}
	return ""
}

// parseNumber reads decimal digits. A number that is too large becomes the largest.
func parseNumber(v string) (int64, bool) {
	if v == "" || strings.Trim(v, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return math.MaxInt64, true
	}
	return n, true
}

// hashed begins a text that stands for one which is too long or not UTF-8.
const hashed = "%h"

// text returns a text that the engine takes: v itself, or the hash of one that is longer than
// rules.MaxText or not UTF-8. A text that begins like a hash is hashed too, so that two different
// texts never become one.
func text(v string) string {
	if len(v) <= match.MaxText && utf8.ValidString(v) && !strings.HasPrefix(v, hashed) {
		return v
	}
	sum := sha256.Sum256([]byte(v))
	return hashed + base64.RawURLEncoding.EncodeToString(sum[:])
}
