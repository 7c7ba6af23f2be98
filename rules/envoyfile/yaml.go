package envoyfile

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"sluice/rules/chars"
	"sluice/rules/rulefile"
	"sluice/rules/tree"
)

// Bounds of one document. A document of 100,000 descriptors in a usual form stays below them.
const (
	maxDocument = 16 << 20 // bytes
	// maxWeight bounds the memory that the library takes, which is about 300 bytes for each unit of weight.
	maxWeight = 1_500_000
	// maxDepth is how deep values may be nested, with those of aliases.
	maxDepth = 100
	// maxValues bounds the values, where those of an alias count each time.
	maxValues = 2_000_000
)

// split says what to do about a document above a bound.
const split = "split its descriptors into several documents (--- and the domain again) and import them merged " +
	"(--merge-domains, merge_domains=true)"

// yamlReader turns the nodes of one YAML document into values.
//
// The library has the grammar of the one that envoyproxy/ratelimit uses, and so reads the same files. It keeps aliases
// as references, which only this reader follows, so that nothing expands in memory.
type yamlReader struct {
	anchors map[*yaml.Node]anchored
	values  int
	// problem adds a problem and its line.
	problem func(line int, format string, args ...any)
}

// anchored is the value of a node, with its size in values and how deep it is nested.
type anchored struct {
	value       tree.Value
	size, depth int
}

// loading is locked while a large document is read, so that only one takes much memory at a time.
var loading sync.Mutex

// yaml reads a YAML document and calls found if it has a value.
func (r *reader) yaml(data []byte, found func(tree.Value) error) error {
	if len(data) > maxDocument {
		return rulefile.TooLarge("has a document of more than %d bytes (16 MiB) at %s: %s", maxDocument, r.at(1), split)
	}
	switch w := weight(data); {
	case w > maxWeight:
		return rulefile.TooLarge("has a document with too many parts at %s; it can have about 100,000 descriptors of five "+
			"lines each, fewer of longer ones: %s", r.at(1), split)
	case w > maxWeight/10:
		loading.Lock()
		defer loading.Unlock()
	}
	if at, what := unreadable(data); what != "" {
		r.problem(lineAt(data, at), "%s", what)
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(
		loaderlimits.New(loaderlimits.DepthFunc(checkDepth), loaderlimits.AliasNone())))
	if err != nil {
		return err
	}
	for {
		var root yaml.Node
		switch err := loader.Load(&root); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			line, message := syntax(data, err)
			r.problem(line, "%s", message)
			return nil
		}
		y := yamlReader{anchors: map[*yaml.Node]anchored{}, problem: r.problem}
		for _, n := range root.Content {
			v, _, err := y.value(n, 0)
			if err == nil && v.Kind != tree.Null {
				err = found(v)
			}
			var bad *badValue
			if errors.As(err, &bad) {
				r.problem(bad.line, "%s", bad.message)
			} else if err != nil {
				return err
			}
		}
	}
}

// errDepth is about values that are nested too deeply.
var errDepth = fmt.Errorf("nested more than %d deep", maxDepth)

func checkDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return errDepth
	}
	return nil
}

// badValue ends the reading of a document.
type badValue struct {
	line    int
	message string
}

func (e *badValue) Error() string { return e.message }

// weight estimates the memory that a document needs: the bytes of it that can begin or end a value. A comma, after
// which a value can be empty, weighs more.
func weight(data []byte) (n int) {
	for _, c := range data {
		if strings.IndexByte("[]{}:\"'\n\r-?!&*|>%@#`", c) >= 0 {
			n++
		} else if c == ',' {
			n += 4
		}
	}
	return n
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
		}
		i += size
	}
	return 0, ""
}

func lineAt(data []byte, at int) int { return 1 + bytes.Count(data[:at], []byte{'\n'}) }

// syntax returns the line and the message of an error of the library.
func syntax(data []byte, err error) (line int, message string) {
	var e *yaml.LoadError
	if !errors.As(err, &e) {
		return 1, "cannot be read as YAML: " + err.Error()
	}
	line = max(1, e.Mark.Line)
	if text := lineOf(data, line); strings.Contains(text[:len(text)-len(strings.TrimLeft(text, " \t"))], "\t") {
		return line, "the line is indented with a tab, which YAML does not allow: replace each tab by spaces"
	}
	from := max(1, e.ContextMark.Line)
	if last := lineAt(data, len(bytes.TrimRight(data, " \t\r\n"))); line > last {
		line = min(from, last) // what is not closed
	}
	message = "cannot be read as YAML: " + e.Message
	if e.ContextMsg != "" {
		message += ", " + e.ContextMsg
	}
	if e.ContextMsg != "" && from < line {
		message += fmt.Sprintf(" that begins %d lines before", line-from)
	}
	return line, message
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
func (r *yamlReader) value(n *yaml.Node, depth int) (v tree.Value, height int, err error) {
	if n.Kind == yaml.AliasNode {
		return r.alias(n, depth)
	}
	if r.values++; r.values > maxValues {
		return v, 0, &badValue{n.Line, fmt.Sprintf("the document has more than %d values, those of aliases counted "+
			"each time: %s", maxValues, split)}
	}
	if depth > maxDepth {
		return v, 0, &badValue{n.Line, "cannot be read: " + errDepth.Error()}
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
		v.Kind, v.Text = r.scalar(n)
	}
	if n.Anchor != "" && err == nil {
		r.anchors[n] = anchored{v, 1 + r.values - before, height}
	}
	n.Content = nil
	return v, height, err
}

func (r *yamlReader) elements(v *tree.Value, n *yaml.Node, depth int) (height int, err error) {
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

// members reads the members of an object. The member << adds those of other objects that the object does not have.
func (r *yamlReader) members(v *tree.Value, n *yaml.Node, depth int) (height int, err error) {
	var merged []tree.Value
	seen := make(map[string]struct{}, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		value, below, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return 0, err
		}
		height = max(height, below+1)
		for key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		_, twice := seen[key.Value]
		switch {
		case key.Kind != yaml.ScalarNode:
			r.problem(key.Line, "a key must be text")
			continue
		case key.Value == "<<" && key.Tag == "!!merge":
			merged = append(merged, r.merged(key.Line, value)...)
			continue
		case twice:
			r.problem(key.Line, "the member %s appears twice", shown(key.Value))
			continue
		}
		seen[key.Value] = struct{}{}
		v.Members = append(v.Members, tree.Member{Name: key.Value, Line: key.Line, Value: value})
	}
	for _, from := range merged {
		for _, m := range from.Members {
			if _, has := seen[m.Name]; !has {
				seen[m.Name] = struct{}{}
				v.Members = append(v.Members, m)
			}
		}
	}
	return height, nil
}

// merged returns the objects of the member <<.
func (r *yamlReader) merged(line int, v tree.Value) []tree.Value {
	list := []tree.Value{v}
	if v.Kind == tree.List {
		list = v.List
	}
	if slices.ContainsFunc(list, func(v tree.Value) bool { return v.Kind != tree.Object }) {
		r.problem(line, "<< needs an object or a list of objects")
		return nil
	}
	return list
}

// alias returns the value of an anchor. The values are shared, not copied.
func (r *yamlReader) alias(n *yaml.Node, depth int) (tree.Value, int, error) {
	a, known := r.anchors[n.Alias]
	if r.values += a.size; r.values > maxValues {
		return a.value, 0, &badValue{n.Line, fmt.Sprintf("the aliases expand to more than %d values", maxValues)}
	}
	switch {
	case !known:
		return a.value, 0, &badValue{n.Line, "the value of the anchor " + shown(n.Value) + " contains itself"}
	case depth+a.depth > maxDepth:
		return a.value, 0, &badValue{n.Line, "the aliases are " + errDepth.Error()}
	}
	return a.value, a.depth, nil
}

// scalar returns the kind and the text of a value by its tag, written or implied. An unknown tag means nothing, as in
// envoyproxy/ratelimit.
func (r *yamlReader) scalar(n *yaml.Node) (tree.Kind, string) {
	bad := false
	kind := tree.Text
	switch n.ShortTag() {
	case "!!null":
		kind = tree.Null
	case "!!bool":
		kind = tree.Truth
		word := strings.ToLower(n.Value)
		bad = word != "true" && word != "false" && !slices.Contains(truths, word)
	case "!!int":
		if kind = tree.Number; tree.IsWhole(n.Value) {
			kind = tree.Whole
			break
		}
		_, whole := wholeNumber(n.Value)
		bad = !whole
	case "!!float":
		kind = tree.Number
		_, number := realNumber(n.Value)
		bad = !number
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if bad = err != nil || !utf8.Valid(data); !bad {
			return tree.Text, string(data)
		}
	}
	if bad {
		r.problem(n.Line, "%s is not a value of the tag %s", shown(n.Value), n.ShortTag())
		kind = tree.Text
	}
	return kind, n.Value
}

// realNumber reads a number with a fraction, or one without bounds or value (.inf, .nan).
func realNumber(text string) (float64, bool) {
	text = strings.ReplaceAll(text, "_", "")
	if infinite, dot := strings.CutPrefix(strings.TrimLeft(strings.ToLower(text), "+-"), "."); dot &&
		(infinite == "inf" || infinite == "nan") {
		return math.Inf(1), true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

// notAConfiguration recognises other files that people import by mistake. It returns "" for a configuration.
func notAConfiguration(root *tree.Value) string {
	kind := root.Member("kind")
	if kind == nil || kind.Kind != tree.Text || root.Member("apiVersion") == nil {
		return ""
	}
	if kind.Text != "ConfigMap" {
		return "this is an object of Kubernetes (" + shown(kind.Text) + "), not a configuration of envoyproxy/ratelimit"
	}
	name, key := "NAME", "KEY"
	if m := root.Member("metadata"); m != nil && m.Member("name") != nil && chars.IsName(m.Member("name").Text) {
		name = m.Member("name").Text
	}
	if m := root.Member("data"); m != nil && len(m.Members) > 0 && chars.IsName(m.Members[0].Name) {
		key = m.Members[0].Name
	}
	return "this is a ConfigMap of Kubernetes, and each text in its data is a configuration: import those, for example " +
		"with kubectl get configmap " + name + ` -o go-template='{{index .data "` + key + `"}}' | sluice rules import-envoy -`
}
