package rules

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxRoute is the longest route of a rule, in bytes.
const MaxRoute = 1024

// pattern is a rule's route, parsed. A segment "" is a {param}.
type pattern struct {
	segments []string
	tail     bool // ends in /*: matches the path before it and all below
	params   bool
}

// exact reports whether the pattern is a plain path.
func (p pattern) exact() bool { return !p.tail && !p.params }

// parseRoute reads a rule's route. Its error says what is allowed.
func parseRoute(route string) (pattern, error) {
	switch {
	case !strings.HasPrefix(route, "/"):
		return pattern{}, fmt.Errorf("must start with /")
	case len(route) > MaxRoute:
		return pattern{}, fmt.Errorf("must not be longer than %d bytes", MaxRoute)
	case !utf8.ValidString(route):
		return pattern{}, fmt.Errorf("must be valid UTF-8")
	case strings.ContainsFunc(route, isUnsafeRune):
		return pattern{}, fmt.Errorf("must not contain control characters")
	case strings.ContainsAny(route, "?#"):
		return pattern{}, fmt.Errorf("must not contain ? or #; a route is a path without query and fragment")
	}
	var p pattern
	rest := route[1:]
	if rest == "*" {
		return pattern{tail: true}, nil
	}
	if head, ok := strings.CutSuffix(rest, "/*"); ok {
		p.tail, rest = true, head
	}
	if rest == "" && !p.tail {
		return p, nil
	}
	for seg := range strings.SplitSeq(rest, "/") {
		s, err := parseSegment(seg)
		if err != nil {
			return pattern{}, err
		}
		p.params = p.params || s == ""
		p.segments = append(p.segments, s)
	}
	if normal := NormalizeRoute(route); normal != route {
		return pattern{}, fmt.Errorf("must be written in its normal form, %s", normal)
	}
	return p, nil
}

// parseSegment gives "" for a {param}, else the segment itself.
func parseSegment(seg string) (string, error) {
	switch {
	case seg == "":
		return "", fmt.Errorf("must not contain empty segments (// or a trailing /)")
	case seg == "." || seg == "..":
		return "", fmt.Errorf("must not contain . or .. as a segment")
	case strings.Contains(seg, "*"):
		return "", fmt.Errorf("may contain * only as its last segment, /*")
	case !strings.ContainsAny(seg, "{}"):
		return seg, nil
	}
	if len(seg) < 3 || seg[0] != '{' || seg[len(seg)-1] != '}' || !isMemberName(seg[1:len(seg)-1]) {
		return "", fmt.Errorf("may contain { and } only around a whole segment, such as /users/{id}, with a name of letters, digits, _, . and -")
	}
	return "", nil
}

// matches reports whether a normalised path fits, by comparing segment after
// segment. The index answers the same for all rules at once.
func (p pattern) matches(path string) bool {
	if path == "" {
		return false
	}
	rest := path[1:]
	for i, want := range p.segments {
		if rest == "" {
			return false
		}
		seg, after, more := strings.Cut(rest, "/")
		if want != "" && want != seg {
			return false
		}
		if !more && i < len(p.segments)-1 {
			return false
		}
		rest = after
	}
	return p.tail || rest == ""
}
