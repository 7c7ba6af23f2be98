package api

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"sluice/rules/chars"
)

// scanner reads one JSON text (RFC 8259) strictly: valid UTF-8, no half
// surrogates, bounded depth, nothing after the value. Its errors are
// *malformedError with a position.
type scanner struct {
	data []byte
	pos  int
	tmp  []byte // unescaped strings
}

// maxDepth bounds nesting.
const maxDepth = 32

// malformedError describes invalid JSON (400).
type malformedError struct {
	message string
}

func (e *malformedError) Error() string { return e.message }

func (s *scanner) fail(format string, args ...any) error {
	line := 1 + bytes.Count(s.data[:min(s.pos, len(s.data))], []byte{'\n'})
	return &malformedError{message: fmt.Sprintf(format, args...) + fmt.Sprintf(" (line %d, byte %d)", line, s.pos+1)}
}

// start checks that the whole text is valid UTF-8.
func (s *scanner) start(data []byte) error {
	s.data, s.pos = data, 0
	if !utf8.Valid(data) {
		return &malformedError{message: "the body is not valid UTF-8"}
	}
	if s.peek() == 0 {
		return &malformedError{message: "the body is empty; a JSON object is expected"}
	}
	return nil
}

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// end fails unless only white space is left.
func (s *scanner) end() error {
	if s.peek() != 0 || s.pos < len(s.data) {
		return s.fail("unexpected data after the value")
	}
	return nil
}

// more moves to the next element of the object or array that ends with closing;
// n counts the elements so far. It consumes the closing bracket.
func (s *scanner) more(closing byte, n int) (bool, error) {
	c := s.peek()
	if c == closing {
		s.pos++
		return false, nil
	}
	if n > 0 {
		if c != ',' {
			return false, s.fail("expected ',' or '%c'", closing)
		}
		s.pos++
		if s.peek() == closing {
			return false, s.fail("a value is missing after ','")
		}
	}
	return true, nil
}

// member reads the name of the next member of an object and the colon. The name is valid
// until the next string is read.
func (s *scanner) member() ([]byte, error) {
	if s.peek() != '"' {
		return nil, s.fail("a member name in quotes is expected")
	}
	name, err := s.str()
	if err != nil {
		return nil, err
	}
	if s.peek() != ':' {
		return nil, s.fail("expected ':' after a member name")
	}
	s.pos++
	return name, nil
}

// str reads a string. The result is valid until the next one is read.
func (s *scanner) str() ([]byte, error) {
	s.pos++
	start := s.pos
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.data[start : s.pos-1], nil
		case c == '\\':
			return s.escaped(start)
		case c < 0x20:
			return nil, s.fail("control character in a string")
		}
		s.pos++
	}
	return nil, s.fail("a string is not terminated")
}

// escaped continues a string that began at start and has an escape at pos.
func (s *scanner) escaped(start int) ([]byte, error) {
	s.tmp = append(s.tmp[:0], s.data[start:s.pos]...)
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; {
		case c == '"':
			s.pos++
			return s.tmp, nil
		case c == '\\':
			if err := s.escape(); err != nil {
				return nil, err
			}
		case c < 0x20:
			return nil, s.fail("control character in a string")
		default:
			s.tmp = append(s.tmp, c)
			s.pos++
		}
	}
	return nil, s.fail("a string is not terminated")
}

func (s *scanner) escape() error {
	if s.pos+1 >= len(s.data) {
		return s.fail("a string is not terminated")
	}
	c := s.data[s.pos+1]
	if c == 'u' {
		return s.unicode()
	}
	i := bytes.IndexByte([]byte(`"\/bfnrt`), c)
	if i < 0 {
		return s.fail("invalid escape in a string")
	}
	s.tmp = append(s.tmp, "\"\\/\b\f\n\r\t"[i])
	s.pos += 2
	return nil
}

func (s *scanner) unicode() error {
	r := s.hex4()
	if utf16.IsSurrogate(r) {
		r = utf16.DecodeRune(r, s.hex4())
		if r == utf8.RuneError {
			return s.fail("incomplete surrogate pair in a string")
		}
	}
	if r < 0 {
		return s.fail("invalid escape in a string")
	}
	s.tmp = utf8.AppendRune(s.tmp, r)
	return nil
}

// hex4 reads \uXXXX and returns -1 for any other text.
func (s *scanner) hex4() rune {
	if s.pos+6 > len(s.data) || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return -1
	}
	var r rune
	for _, c := range s.data[s.pos+2 : s.pos+6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	s.pos += 6
	return r
}

// number reads a number's text.
func (s *scanner) number() ([]byte, error) {
	start := s.pos
	s.accept("-")
	switch {
	case s.accept("0"):
	case s.digits() == 0:
		return nil, s.fail("a value is expected")
	}
	if s.accept(".") && s.digits() == 0 {
		return nil, s.fail("digits are expected after the decimal point")
	}
	if s.accept("eE") {
		s.accept("+-")
		if s.digits() == 0 {
			return nil, s.fail("digits are expected in the exponent")
		}
	}
	return s.data[start:s.pos], nil
}

func (s *scanner) accept(set string) bool {
	if s.pos < len(s.data) && bytes.IndexByte([]byte(set), s.data[s.pos]) >= 0 {
		s.pos++
		return true
	}
	return false
}

func (s *scanner) digits() (n int) {
	for s.pos < len(s.data) && s.data[s.pos] >= '0' && s.data[s.pos] <= '9' {
		s.pos++
		n++
	}
	return n
}

// word reads true, false or null.
func (s *scanner) word() (string, error) {
	for _, w := range []string{"true", "false", "null"} {
		if bytes.HasPrefix(s.data[s.pos:], []byte(w)) {
			s.pos += len(w)
			return w, nil
		}
	}
	return "", s.fail("a value is expected")
}

// skip skips a value and checks its syntax and the names of its members.
func (s *scanner) skip(depth int) error {
	if depth > maxDepth {
		return s.fail("nested more than %d levels deep", maxDepth)
	}
	var err error
	switch c := s.peek(); {
	case c == '"':
		_, err = s.str()
	case c == '{':
		err = s.skipObject(depth)
	case c == '[':
		s.pos++
		for n := 0; err == nil; n++ {
			var ok bool
			if ok, err = s.more(']', n); !ok {
				break
			}
			err = s.skip(depth + 1)
		}
	case c == '-' || c >= '0' && c <= '9':
		_, err = s.number()
	default:
		_, err = s.word()
	}
	return err
}

func (s *scanner) skipObject(depth int) error {
	s.pos++
	seen := map[string]bool{}
	for n := 0; ; n++ {
		ok, err := s.more('}', n)
		if err != nil || !ok {
			return err
		}
		name, err := s.member()
		if err != nil {
			return err
		}
		if seen[string(name)] {
			return s.fail("member %s appears twice", strconv.Quote(clip(string(name))))
		}
		seen[string(name)] = true
		if err := s.skip(depth + 1); err != nil {
			return err
		}
	}
}

// clip shortens text of a client for use in an error.
func clip(v string) string {
	const most = 64
	if len(v) <= most {
		return v
	}
	n := most
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n] + "…"
}

// shownName is clip for the name of a member that a caller chose, as the field of an error: people read errors, and a
// mark that turns the direction of text, for instance, would change what follows.
func shownName(v string) string { return chars.Shown(clip(v)) }
