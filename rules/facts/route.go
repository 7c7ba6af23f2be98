package facts

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"unicode/utf8"

	"sluice/rules/chars"
	"sluice/rules/match"
	"sluice/rules/route"
)

// node is a segment that the templates below it share.
type node struct {
	literal map[string]*node
	param   *node
	end     string // the template that ends here, "" for none
	tail    string // the template that ends here in /*
}

var errAmbiguous = errors.New("differs from another template only in the names of its parameters")

// addRoute adds a template.
func (r *Reader) addRoute(template string) error {
	p, err := route.Parse(template)
	if err != nil {
		return err
	}
	if r.routes == nil {
		r.routes = &node{}
	}
	n := r.routes
	if r.fold {
		p = p.Fold()
	}
	for _, seg := range p.Segments {
		next := n.param
		if seg != "" {
			next = n.literal[seg]
		}
		if next == nil {
			next = &node{}
			if seg == "" {
				n.param = next
			} else {
				if n.literal == nil {
					n.literal = map[string]*node{}
				}
				n.literal[seg] = next
			}
		}
		n = next
	}
	at := &n.end
	if p.Tail {
		at = &n.tail
	}
	switch {
	case *at == "":
	case r.fold: // the first of several templates that differ in case
		return nil
	default:
		return errAmbiguous
	}
	*at = template
	return nil
}

// match returns the best template for the rest of a path, "" if none fits: at the left-most segment
// where two that fit differ, a literal beats a parameter, which beats /*. more is false if no segment
// is left. It visits a node at most once.
func (n *node) match(rest string, more bool) string {
	if !more {
		if n.end != "" {
			return n.end
		}
		return n.tail
	}
	seg, after, more := strings.Cut(rest, "/")
	if next := n.literal[seg]; next != nil {
		if t := next.match(after, more); t != "" {
			return t
		}
	}
	if n.param != nil && seg != "" {
		if t := n.param.match(after, more); t != "" {
			return t
		}
	}
	return n.tail
}

// route returns the route of a request: the template that fits best, or its path if none fits.
func (r *Reader) route(target string) string {
	path := route.Normalize(target)
	if r.raw {
		path = route.OfTarget(target)
	}
	if path == "" && target != "" {
		path = "/"
	}
	if r.routes != nil && strings.HasPrefix(path, "/") {
		compared := path
		if r.fold {
			compared = route.Fold(path)
		}
		if t := r.routes.match(compared[1:], path != "/"); t != "" {
			return t
		}
	}
	return shorten(escapeInvalid(path))
}

// escapeInvalid percent-encodes the bytes of a path that are not UTF-8, which no check may carry. To
// the engine, %FF and the byte 0xFF are the same.
func escapeInvalid(path string) string {
	if utf8.ValidString(path) {
		return path
	}
	b := make([]byte, 0, len(path)+16)
	for i, size := 0, 0; i < len(path); i += size {
		var r rune
		if r, size = utf8.DecodeRuneInString(path[i:]); r == utf8.RuneError && size == 1 {
			b = chars.AppendEscaped(b, path[i])
		} else {
			b = append(b, path[i:i+size]...)
		}
	}
	return string(b)
}

// longSegment is the longest segment that shorten keeps, in bytes.
const longSegment = 64

// shorten bounds a path by rules.MaxText. Long segments are hashed, so that the path still fits the
// patterns of rules that it fitted before, and segments beyond the bound are cut.
func shorten(path string) string {
	if len(path) <= match.MaxText {
		return path
	}
	b := make([]byte, 0, match.MaxText)
	for i, seg := range strings.Split(path, "/") {
		if len(seg) > longSegment {
			sum := sha256.Sum256([]byte(seg))
			seg = "~" + base64.RawURLEncoding.EncodeToString(sum[:12])
		}
		if len(b)+1+len(seg) > match.MaxText {
			break
		}
		if i > 0 {
			b = append(b, '/')
		}
		b = append(b, seg...)
	}
	return string(b)
}
