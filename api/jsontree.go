package api

import (
	"strconv"

	"sluice/rules/tree"
)

// parseJSON reads a body that must be one object, as strictly as scanner, for handlers
// that need not be fast.
func parseJSON(data []byte) (*tree.Value, error) {
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

func (s *scanner) tree(depth int) (tree.Value, error) {
	if depth > maxDepth {
		return tree.Value{}, s.fail("nested more than %d levels deep", maxDepth)
	}
	switch c := s.peek(); {
	case c == '"':
		b, err := s.str()
		return tree.Value{Kind: tree.Text, Text: string(b)}, err
	case c == '-' || c >= '0' && c <= '9':
		b, err := s.number()
		v := tree.Value{Kind: tree.Number, Text: string(b)}
		if tree.IsWhole(v.Text) {
			v.Kind = tree.Whole
		}
		return v, err
	case c == '{':
		return s.objectTree(depth)
	case c == '[':
		return s.arrayTree(depth)
	}
	w, err := s.word()
	if err != nil || w == "null" {
		return tree.Value{}, err
	}
	return tree.Value{Kind: tree.Truth, Text: w}, nil
}

func (s *scanner) arrayTree(depth int) (tree.Value, error) {
	v := tree.Value{Kind: tree.List}
	s.pos++
	for {
		ok, err := s.more(']', len(v.List))
		if err != nil || !ok {
			return v, err
		}
		e, err := s.tree(depth + 1)
		if err != nil {
			return v, err
		}
		v.List = append(v.List, e)
	}
}

func (s *scanner) objectTree(depth int) (tree.Value, error) {
	v := tree.Value{Kind: tree.Object}
	seen := map[string]bool{}
	s.pos++
	for {
		ok, err := s.more('}', len(v.Members))
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
		v.Members = append(v.Members, tree.Member{Name: name, Value: e})
	}
}
