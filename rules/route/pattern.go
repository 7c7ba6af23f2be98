package route

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
)

// Max is the longest route of a rule, in bytes.
const Max = 1024

// Pattern is the parsed route of a rule. A segment "" is a {param}.
type Pattern struct {
	Segments []string
	Tail     bool // ends in /*: matches the path before it and all below
	params   bool
}

// Fold returns the pattern with its segments folded as by the function Fold.
func (p Pattern) Fold() Pattern {
	segments := make([]string, len(p.Segments))
	for i, seg := range p.Segments {
		segments[i] = Fold(seg)
	}
	p.Segments = segments
	return p
}

// Exact reports whether the pattern is a plain path.
func (p Pattern) Exact() bool { return !p.Tail && !p.params }

// Parse parses a rule's route. Its error describes what is allowed.
func Parse(route string) (Pattern, error) {
	switch {
	case !strings.HasPrefix(route, "/"):
		return Pattern{}, fmt.Errorf("must start with /")
	case len(route) > Max:
		return Pattern{}, fmt.Errorf("must not be longer than %d bytes", Max)
	case !utf8.ValidString(route):
		return Pattern{}, fmt.Errorf("must be valid UTF-8")
	case strings.ContainsFunc(route, chars.Unsafe):
		return Pattern{}, fmt.Errorf("must not contain control characters")
	case strings.ContainsAny(route, "?#"):
		return Pattern{}, fmt.Errorf("must not contain ? or #; a route is a path without query and fragment")
	}
	var p Pattern
	rest := route[1:]
	if rest == "*" {
		return Pattern{Tail: true}, nil
	}
	if head, ok := strings.CutSuffix(rest, "/*"); ok {
		p.Tail, rest = true, head
	}
	if rest == "" && !p.Tail {
		return p, nil
	}
	for seg := range strings.SplitSeq(rest, "/") {
		s, err := parseSegment(seg)
		if err != nil {
			return Pattern{}, err
		}
		p.params = p.params || s == ""
		p.Segments = append(p.Segments, s)
	}
	if normal := Normalize(route); normal != route {
		return Pattern{}, fmt.Errorf("must be written in its normal form, %s", normal)
	}
	return p, nil
}

// parseSegment returns "" for a {param}, otherwise the segment itself.
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
	if len(seg) < 3 || seg[0] != '{' || seg[len(seg)-1] != '}' || !chars.IsName(seg[1:len(seg)-1]) {
		return "", fmt.Errorf("may contain { and } only around a whole segment, such as /users/{id}, with a name of " +
			"letters, digits, _, . and -")
	}
	return "", nil
}

// Matches reports whether the pattern matches a normalised path. It compares segment by segment;
// the index does the same for all rules at once.
func (p Pattern) Matches(path string) bool {
	if path == "" {
		return false
	}
	rest := path[1:]
	for i, want := range p.Segments {
		if rest == "" {
			return false
		}
		seg, after, more := strings.Cut(rest, "/")
		if want != "" && want != seg {
			return false
		}
		if !more && i < len(p.Segments)-1 {
			return false
		}
		rest = after
	}
	return p.Tail || rest == ""
}
