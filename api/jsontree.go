package api

import (
	"strconv"
)

// jsonKind is what a JSON value is.
type jsonKind uint8

const (
	jsonNull jsonKind = iota
	jsonBool
	jsonNumber
	jsonString
	jsonArray
	jsonObject
)

// jsonValue is a JSON value as a tree, for the paths where speed does not
// matter. Members keep their order; names are distinct.
type jsonValue struct {
	kind    jsonKind
	text    string // of a string or number
	truth   bool
	items   []jsonValue
	names   []string
	members []jsonValue
}

// member finds a member of an object, nil if it has none of that name.
func (v *jsonValue) member(name string) *jsonValue {
	for i := range v.names {
		if v.names[i] == name {
			return &v.members[i]
		}
	}
	return nil
}

// parseJSON reads a body that must be one object, as strictly as scanner does.
func parseJSON(data []byte) (*jsonValue, error) {
	var s scanner
	if err := s.start(data); err != nil {
		return nil, err
	}
	if s.peek() != '{' {
		return nil, s.fail("a JSON object is expected")
	}
	v, err := s.tree(0)
	if err != nil {
		return nil, err
	}
	return &v, s.end()
}

func (s *scanner) tree(depth int) (jsonValue, error) {
	if depth > maxDepth {
		return jsonValue{}, s.fail("nested deeper than %d", maxDepth)
	}
	switch c := s.peek(); {
	case c == '"':
		b, err := s.str()
		return jsonValue{kind: jsonString, text: string(b)}, err
	case c == '-' || c >= '0' && c <= '9':
		b, err := s.number()
		return jsonValue{kind: jsonNumber, text: string(b)}, err
	case c == '{':
		return s.objectTree(depth)
	case c == '[':
		return s.arrayTree(depth)
	}
	w, err := s.word()
	if err != nil || w == "null" {
		return jsonValue{}, err
	}
	return jsonValue{kind: jsonBool, truth: w == "true"}, nil
}

func (s *scanner) arrayTree(depth int) (jsonValue, error) {
	v := jsonValue{kind: jsonArray}
	s.pos++
	for {
		ok, err := s.more(']', len(v.items))
		if err != nil || !ok {
			return v, err
		}
		e, err := s.tree(depth + 1)
		if err != nil {
			return v, err
		}
		v.items = append(v.items, e)
	}
}

func (s *scanner) objectTree(depth int) (jsonValue, error) {
	v := jsonValue{kind: jsonObject}
	seen := map[string]bool{}
	s.pos++
	for {
		ok, err := s.more('}', len(v.names))
		if err != nil || !ok {
			return v, err
		}
		raw, err := s.member()
		if err != nil {
			return v, err
		}
		name := string(raw)
		if seen[name] {
			return v, s.fail("member %s appears twice", strconv.Quote(clip(name)))
		}
		seen[name] = true
		e, err := s.tree(depth + 1)
		if err != nil {
			return v, err
		}
		v.names, v.members = append(v.names, name), append(v.members, e)
	}
}
