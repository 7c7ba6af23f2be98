package rulefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/scanner"
	"github.com/goccy/go-yaml/token"

	"sluice/rules/tree"
)

// yamlReader builds items from the tokens of a YAML file. It reads the part of YAML that rules
// need, in one pass and in linear time: block and flow lists and objects, plain and quoted
// scalars. Block texts, anchors, aliases, tags, merge keys, directives and several documents are
// refused, so that nothing can expand.
//
// It does not use the parser of the YAML package: with that, an import of 100,000 rules
// (BenchmarkParse) takes 1.8 times as long and 1.7 times the memory, and its time and memory grow
// with the square of the depth, because each node holds its path as text.
type yamlReader struct {
	tokens []*token.Token
	at     int
	end    token.Position
}

func readYAML(data []byte) (tree.Value, error) {
	r := yamlReader{end: token.Position{Line: 1, Column: 1}}
	return r.document(data)
}

// document reads the only document of data.
func (r *yamlReader) document(data []byte) (root tree.Value, err error) {
	if err := r.scan(data); err != nil {
		return tree.Value{}, err
	}
	if t := r.peek(); t != nil && t.Type == token.DocumentHeaderType {
		r.at++
	}
	if r.peek() == nil {
		return tree.Value{}, &syntaxError{1, 1, "is empty"}
	}
	if root, err = r.block(0, 0); err != nil {
		return tree.Value{}, err
	}
	if t := r.peek(); t != nil && t.Type == token.DocumentEndType {
		r.at++
	}
	if t := r.peek(); t != nil {
		return tree.Value{}, unexpected(t)
	}
	return root, nil
}

// blockText matches the head of a block text, | or > at the end of a line.
var blockText = regexp.MustCompile(`(?m)(?:^|[ \t:,\[{-])[|>][-+0-9]*[ \t]*(?:[ \t]#.*)?$`)

// maxMergeSigns bounds how often << may occur in a file, in texts.
const maxMergeSigns = 100

// scan splits a file into tokens. It first refuses constructs that make the scanner extremely slow
// (block texts, which no field of a rule needs, and runs of <<), and stops at the first invalid
// token.
func (r *yamlReader) scan(data []byte) error {
	data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	data = bytes.ReplaceAll(data, []byte("\r"), []byte("\n"))
	switch {
	case countSigns(data) > maxSigns:
		return &syntaxError{1, 1, "has too many parts; split the file"}
	case bytes.Count(data, []byte("<<")) > maxMergeSigns:
		return &syntaxError{1, 1, "contains << too often; merge keys are not supported in rules files"}
	}
	if at := blockText.FindIndex(data); at != nil {
		line := 1 + bytes.Count(data[:at[0]], []byte("\n"))
		column := at[1] - bytes.LastIndexByte(data[:at[0]], '\n') - 1
		return &syntaxError{line, column, "block texts (| and >) are not supported in rules files; write the text in quotes"}
	}
	var s scanner.Scanner
	s.Init(string(data))
	for {
		found, scanErr := s.Scan()
		if errors.Is(scanErr, io.EOF) {
			return nil
		}
		if err := r.take(found); err != nil {
			return err
		}
		if scanErr != nil {
			return &syntaxError{r.end.Line, r.end.Column, "cannot be read as YAML"}
		}
	}
}

// take stores tokens, except comments.
func (r *yamlReader) take(found token.Tokens) error {
	for _, t := range found {
		if t.Position == nil {
			return &syntaxError{r.end.Line, r.end.Column, "cannot be read as YAML"}
		}
		r.end = *t.Position
		if t.Type == token.CommentType {
			continue
		}
		if err := refuse(t); err != nil {
			return err
		}
		r.tokens = append(r.tokens, t)
	}
	return nil
}

func countSigns(data []byte) (n int) {
	for _, c := range data {
		if strings.IndexByte(",[]{}:\"'\n-?!&*|>%@#`", c) >= 0 {
			n++
		}
	}
	return n
}

// refuse names valid YAML that is not supported here.
func refuse(t *token.Token) error {
	what := ""
	switch t.Type {
	case token.InvalidType:
		return at(t, "%s", t.Error)
	case token.AnchorType, token.AliasType, token.MergeKeyType:
		what = "anchors, aliases and merge keys"
	case token.TagType, token.DirectiveType:
		what = "tags and directives"
	case token.LiteralType, token.FoldedType:
		what = "block texts (| and >)"
	case token.MappingKeyType:
		what = "keys marked with ?"
	default:
		return nil
	}
	return at(t, "%s are not supported in rules files", what)
}

func at(t *token.Token, format string, args ...any) error {
	return &syntaxError{t.Position.Line, t.Position.Column, fmt.Sprintf(format, args...)}
}

func unexpected(t *token.Token) error { return at(t, "unexpected %.40q", t.Value) }

func (r *yamlReader) peek() *token.Token {
	if r.at < len(r.tokens) {
		return r.tokens[r.at]
	}
	return nil
}

// ahead reports whether the token n places ahead has a type.
func (r *yamlReader) ahead(n int, typ token.Type) bool {
	return r.at+n < len(r.tokens) && r.tokens[r.at+n].Type == typ
}

// block reads the value at the current token, which is to the right of column parent.
func (r *yamlReader) block(parent, depth int) (tree.Value, error) {
	t := r.peek()
	switch {
	case t == nil:
		return tree.Value{}, &syntaxError{r.end.Line, r.end.Column, "ends before a value"}
	case depth > maxDepth:
		return tree.Value{}, at(t, "is nested too deeply")
	case t.Position.Column <= parent:
		return tree.Value{}, at(t, "must be indented further")
	case t.Type == token.SequenceEntryType:
		return r.blockList(depth)
	case r.isKey(t):
		return r.blockObject(depth)
	}
	return r.flow(depth)
}

func (r *yamlReader) blockList(depth int) (tree.Value, error) {
	first := r.peek()
	out := tree.Value{Kind: tree.List, Line: first.Position.Line}
	for {
		dash := r.peek()
		if dash == nil || dash.Type != token.SequenceEntryType || dash.Position.Column != first.Position.Column {
			return out, nil
		}
		r.at++
		value := tree.Value{Line: dash.Position.Line}
		if next := r.peek(); next != nil && next.Position.Column > dash.Position.Column {
			var err error
			if value, err = r.block(dash.Position.Column, depth+1); err != nil {
				return tree.Value{}, err
			}
		}
		out.List = append(out.List, value)
	}
}

func (r *yamlReader) blockObject(depth int) (tree.Value, error) {
	first := r.peek()
	column := first.Position.Column
	out := tree.Value{Kind: tree.Object, Line: first.Position.Line}
	for {
		key := r.peek()
		if key == nil || key.Position.Column != column || !r.isKey(key) {
			return out, nil
		}
		r.at += 2
		value, err := r.memberValue(key, column, depth)
		if err != nil {
			return tree.Value{}, err
		}
		if err := addMember(&out, key, value); err != nil {
			return tree.Value{}, err
		}
	}
}

// isKey reports whether the current token t is the key of a member.
func (r *yamlReader) isKey(t *token.Token) bool {
	return isScalar(t) && r.ahead(1, token.MappingValueType)
}

// memberValue reads the value after a colon: on its line, or an indented block (a list may start
// at the key's own column), or nothing.
func (r *yamlReader) memberValue(key *token.Token, column, depth int) (tree.Value, error) {
	next := r.peek()
	if next == nil {
		return tree.Value{Line: key.Position.Line}, nil
	}
	if next.Position.Line == r.tokens[r.at-1].Position.Line { // that of the colon
		if next.Type == token.SequenceEntryType {
			return tree.Value{}, unexpected(next)
		}
		return r.flow(depth + 1)
	}
	list := next.Type == token.SequenceEntryType
	switch {
	case next.Position.Column > column:
		return r.block(column, depth+1)
	case list && next.Position.Column == column:
		return r.block(column-1, depth+1)
	}
	return tree.Value{Line: key.Position.Line}, nil
}

// addMember appends a member and refuses a repeated name.
func addMember(it *tree.Value, key *token.Token, value tree.Value) error {
	if slices.ContainsFunc(it.Members, func(m tree.Member) bool { return m.Name == key.Value }) {
		return at(key, "the member %.40q appears twice", key.Value)
	}
	if len(it.Members) == maxMembers {
		return at(key, "an object has more than %d members", maxMembers)
	}
	it.Members = append(it.Members, tree.Member{Name: key.Value, Line: key.Position.Line, Value: value})
	return nil
}

// flow reads a scalar, or a list or object in brackets.
func (r *yamlReader) flow(depth int) (tree.Value, error) {
	t := r.peek()
	switch {
	case t == nil:
		return tree.Value{}, &syntaxError{r.end.Line, r.end.Column, "ends inside a bracket"}
	case depth > maxDepth:
		return tree.Value{}, at(t, "is nested too deeply")
	}
	r.at++
	switch t.Type {
	case token.SequenceStartType, token.MappingStartType:
		return r.brackets(t, depth)
	}
	if !isScalar(t) {
		return tree.Value{}, unexpected(t)
	}
	return scalar(t), nil
}

// brackets reads until the bracket that closes open.
func (r *yamlReader) brackets(open *token.Token, depth int) (tree.Value, error) {
	out := tree.Value{Kind: tree.List, Line: open.Position.Line}
	closing := token.SequenceEndType
	if open.Type == token.MappingStartType {
		out.Kind, closing = tree.Object, token.MappingEndType
	}
	for {
		t := r.peek()
		if t == nil {
			return tree.Value{}, at(open, "the bracket is not closed")
		}
		if t.Type == closing {
			r.at++
			return out, nil
		}
		if err := r.entry(&out, t, depth); err != nil {
			return tree.Value{}, err
		}
		if t := r.peek(); t != nil && t.Type == token.CollectEntryType {
			r.at++
		} else if t != nil && t.Type != closing {
			return tree.Value{}, unexpected(t)
		}
	}
}

// entry reads one element of a list in brackets, or one member of an object.
func (r *yamlReader) entry(out *tree.Value, t *token.Token, depth int) error {
	if out.Kind == tree.Object {
		if !r.isKey(t) {
			return unexpected(t)
		}
		r.at += 2
	}
	value, err := r.flow(depth + 1)
	if err != nil {
		return err
	}
	if out.Kind == tree.Object {
		return addMember(out, t, value)
	}
	out.List = append(out.List, value)
	return nil
}

func isScalar(t *token.Token) bool {
	switch t.Type {
	case token.StringType, token.SingleQuoteType, token.DoubleQuoteType, token.NullType, token.ImplicitNullType,
		token.IntegerType, token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
		token.FloatType, token.InfinityType, token.NanType, token.BoolType:
		return true
	}
	return false
}

func scalar(t *token.Token) tree.Value {
	it := tree.Value{Kind: tree.Text, Text: t.Value, Line: t.Position.Line}
	switch t.Type {
	case token.NullType, token.ImplicitNullType:
		it.Kind = tree.Null
	case token.BoolType:
		it.Kind = tree.Truth
	case token.IntegerType:
		it.Kind = tree.Whole
	case token.BinaryIntegerType, token.OctetIntegerType, token.HexIntegerType,
		token.FloatType, token.InfinityType, token.NanType:
		it.Kind = tree.Number
	case token.StringType:
		if tree.IsWhole(t.Value) { // too long for the lexer, a number all the same
			it.Kind = tree.Whole
		}
	}
	return it
}
