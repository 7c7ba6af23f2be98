package yamltree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"sluice/rules/tree"
)

// Reader says what documents may contain, and reads them. A document costs at most about 300 bytes of memory for each
// unit of its Weight, and time in proportion.
//
// The library keeps aliases as references, which only the Reader follows, so that nothing expands in memory.
type Reader struct {
	// Depth is the greatest nesting of values, including values of aliases.
	Depth int
	// Values bounds the values of a document. Values of an alias count each time.
	Values int
	// Plain restricts documents to the form of rules files: one document without anchors, aliases, merge keys and tags.
	Plain bool
	// Scalar returns the kind and the text of a scalar. A problem that is not "" is what is wrong with it.
	Scalar func(n *yaml.Node) (kind tree.Kind, text, problem string)
	// Problem receives every problem. Its column counts characters.
	Problem func(*tree.SyntaxError)

	anchors map[*yaml.Node]anchored
	values  int
}

// anchored is the value of a node, with its size in values and how deep it is nested.
type anchored struct {
	value       tree.Value
	size, depth int
}

// Weight estimates the memory that a document needs: the bytes of it that can begin or end a value. A comma, after
// which a value can be empty, weighs more.
func Weight(data []byte) (n int) {
	for _, c := range data {
		if strings.IndexByte("[]{}:\"'\n\r-?!&*|>%@#`", c) >= 0 {
			n++
		} else if c == ',' {
			n += 4
		}
	}
	return n
}

// Read calls found with the value of each document. It stops at an error of found, which it returns, and at the first
// document with a problem of its form.
func (r *Reader) Read(data []byte, found func(tree.Value) error) error {
	if at, what := unreadable(data); what != "" {
		line := data[bytes.LastIndexByte(data[:at], '\n')+1 : at]
		r.problem(lineAt(data, at), 1+utf8.RuneCount(line), what)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthFunc(r.checkDepth), loaderlimits.AliasNone())))
	if err != nil {
		return err
	}
	for documents := 0; ; documents++ {
		var root yaml.Node
		switch err := loader.Load(&root); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			r.syntax(data, err)
			return nil
		case r.Plain && documents > 0:
			r.Problem(badAt(&root, "a second document begins here; a rules file has one"))
			return nil
		}
		r.anchors, r.values = map[*yaml.Node]anchored{}, 0
		for _, n := range root.Content {
			v, _, err := r.value(n, 0)
			if err == nil {
				err = found(v)
			}
			var bad *tree.SyntaxError
			if errors.As(err, &bad) {
				r.Problem(bad)
			} else if err != nil {
				return err
			}
		}
	}
}

func (r *Reader) problem(line, column int, message string) {
	r.Problem(&tree.SyntaxError{Line: line, Column: column, Message: message})
}

func badAt(n *yaml.Node, format string, args ...any) *tree.SyntaxError {
	return &tree.SyntaxError{Line: n.Line, Column: n.Column, Message: fmt.Sprintf(format, args...)}
}

// errDepth is about values that are nested too deeply.
func (r *Reader) errDepth() error { return fmt.Errorf("nested more than %d deep", r.Depth) }

// checkDepth stops the library before it takes much memory. A document in brackets begins with one level of them, but
// the level of the outermost block is not nested yet.
func (r *Reader) checkDepth(level int, in *yaml.DepthContext) error {
	if in.Kind == yaml.DepthKindBlock {
		level--
	}
	if level > r.Depth {
		return r.errDepth()
	}
	return nil
}

// unreadable returns what no YAML can contain, and where; "" if there is nothing.
func unreadable(data []byte) (at int, what string) {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			return i, "is not valid UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r', r == 0x7f:
			return i, fmt.Sprintf("contains the control character %U, which YAML does not allow", r)
		case r == 0xfffe, r == 0xffff:
			return i, fmt.Sprintf("contains %U, which YAML does not allow", r)
		}
		i += size
	}
	return 0, ""
}

func lineAt(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte{'\n'}) }

// syntax reports an error of the library.
func (r *Reader) syntax(data []byte, err error) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		r.problem(1, 1, "cannot be read as YAML: "+err.Error())
		return
	}
	line, column := max(1, e.Mark.Line), max(1, e.Mark.Column)
	if text := lineOf(data, line); strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t") {
		r.problem(line, column, "the line is indented with a tab, which YAML does not allow: replace each tab by spaces")
		return
	}
	from := max(1, e.ContextMark.Line)
	if last := lineAt(data, len(bytes.TrimRight(data, " \t\r\n"))); line > last { // at the end of the document
		line, column = last, 1+utf8.RuneCountInString(lineOf(data, last))
		if e.ContextMsg != "" && from <= last { // what is not closed
			line, column = from, max(1, e.ContextMark.Column)
		}
	}
	if e.Message == r.errDepth().Error() {
		r.problem(line, column, "is "+e.Message)
		return
	}
	message := "cannot be read as YAML: " + e.Message
	if e.ContextMsg != "" {
		message += ", " + e.ContextMsg
	}
	if e.ContextMsg != "" && from < line {
		message += fmt.Sprintf(" that begins %d lines before", line-from)
	}
	r.problem(line, column, message)
}

// lineOf returns the text of a line.
func lineOf(data []byte, line int) string {
	for n := 1; n < line; n++ {
		_, data, _ = bytes.Cut(data, []byte{'\n'})
	}
	text, _, _ := bytes.Cut(data, []byte{'\n'})
	return string(text)
}

// value returns the value of a node at a depth, and how deep it is nested itself. It releases the nodes below.
func (r *Reader) value(n *yaml.Node, depth int) (v tree.Value, height int, err error) {
	if err := r.refuse(n); err != nil {
		return v, 0, err
	}
	if n.Kind == yaml.AliasNode {
		return r.alias(n, depth)
	}
	if r.values++; r.values > r.Values {
		return v, 0, badAt(n, "the document has more than %d values, those of aliases counted each time", r.Values)
	}
	if depth > r.Depth {
		return v, 0, badAt(n, "is %s", r.errDepth())
	}
	before := r.values
	v.Line = n.Line
	switch n.Kind {
	case yaml.SequenceNode:
		v.Kind, v.List = tree.List, make([]tree.Value, 0, len(n.Content))
		height, err = r.elements(&v, n, depth)
	case yaml.MappingNode:
		v.Kind, v.Members = tree.Object, make([]tree.Member, 0, len(n.Content)/2)
		height, err = r.members(&v, n, depth)
	default:
		var problem string
		if v.Kind, v.Text, problem = r.Scalar(n); problem != "" {
			r.problem(n.Line, n.Column, problem)
		}
	}
	if n.Anchor != "" && err == nil {
		r.anchors[n] = anchored{v, 1 + r.values - before, height}
	}
	n.Content = nil
	return v, height, err
}

// refuse names what a plain document must not have.
func (r *Reader) refuse(n *yaml.Node) error {
	switch {
	case !r.Plain:
		return nil
	case n.Kind == yaml.AliasNode, n.Anchor != "", n.Tag == "!!merge":
		return badAt(n, "anchors, aliases and merge keys are not supported in rules files")
	case n.Style&yaml.TaggedStyle != 0, n.Tag == "!":
		return badAt(n, "tags are not supported in rules files")
	}
	return nil
}

func (r *Reader) elements(v *tree.Value, n *yaml.Node, depth int) (height int, err error) {
	for _, e := range n.Content {
		element, below, err := r.value(e, depth+1)
		if err != nil {
			return 0, err
		}
		v.List = append(v.List, element)
		height = max(height, below+1)
	}
	return height, nil
}

// members reads the members of an object. The member << adds members of other objects that the object lacks.
func (r *Reader) members(v *tree.Value, n *yaml.Node, depth int) (height int, err error) {
	var merged []tree.Value
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if err := r.refuse(key); err != nil {
			return 0, err
		}
		value, below, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return 0, err
		}
		height = max(height, below+1)
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		problem := v.Refuses(key.Value)
		switch {
		case key.Kind != yaml.ScalarNode:
			r.problem(key.Line, key.Column, "a key must be text")
		case key.Value == "<<" && key.Tag == "!!merge":
			merged = append(merged, r.merged(key, value)...)
		case r.Plain && n.Style&yaml.FlowStyle != 0 && value.Kind == tree.Null && value.Text == "":
			r.problem(key.Line, key.Column, "the member "+tree.Shown(key.Value)+" has no value; write a blank after the colon, "+
				"and text with a comma in quotes")
		case problem != "":
			r.problem(key.Line, key.Column, problem)
		default:
			v.Members = append(v.Members, tree.Member{Name: key.Value, Line: key.Line, Value: value})
		}
	}
	for _, from := range merged {
		for _, m := range from.Members {
			if v.Refuses(m.Name) == "" {
				v.Members = append(v.Members, m)
			}
		}
	}
	return height, nil
}

// merged returns the objects of the member <<.
func (r *Reader) merged(key *yaml.Node, v tree.Value) []tree.Value {
	list := []tree.Value{v}
	if v.Kind == tree.List {
		list = v.List
	}
	if slices.ContainsFunc(list, func(v tree.Value) bool { return v.Kind != tree.Object }) {
		r.problem(key.Line, key.Column, "<< needs an object or a list of objects")
		return nil
	}
	return list
}

// alias returns the value of an anchor. The values are shared, not copied.
func (r *Reader) alias(n *yaml.Node, depth int) (tree.Value, int, error) {
	a, known := r.anchors[n.Alias]
	if r.values += a.size; r.values > r.Values {
		return a.value, 0, badAt(n, "the aliases expand to more than %d values", r.Values)
	}
	switch {
	case !known:
		return a.value, 0, badAt(n, "the value of the anchor %s contains itself", tree.Shown(n.Value))
	case depth+a.depth > r.Depth:
		return a.value, 0, badAt(n, "the aliases are %s", r.errDepth())
	}
	return a.value, a.depth, nil
}
