package rulefile

import (
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"sluice/rules/tree"
)

// Bounds of one document of another format.
const (
	// MaxDocument is the longest document, in bytes.
	MaxDocument = 8 << 20
	// documentDepth is how deep its values may be nested.
	documentDepth = 100
	// maxExpanded bounds its values, where those of an alias count again.
	maxExpanded = 500_000
)

// ReadDocument reads one YAML document of another format, in which anchors, aliases and merge keys
// may be used. A document that only has comments is Null. An error comes with its line.
func ReadDocument(data []byte) (v tree.Value, line int, err error) {
	switch {
	case len(data) > MaxDocument:
		return v, 1, TooLarge("has a document of more than %d bytes (8 MiB)", MaxDocument)
	case !utf8.Valid(data):
		return v, 1, errors.New("must be valid UTF-8")
	}
	r := yamlReader{end: token.Position{Line: 1, Column: 1}, deepest: documentDepth,
		anchors: map[string]anchor{}}
	v, err = r.document(data)
	var se *syntaxError
	switch {
	case errors.As(err, &se) && se.message == emptyDocument:
		return tree.Value{}, 1, nil
	case errors.As(err, &se):
		return v, se.line, errors.New(se.message)
	}
	return v, 1, err
}

// anchor is a value with a name, which has size values.
type anchor struct {
	value tree.Value
	size  int
}

// anchored reads a value that may have an anchor before it.
func (r *yamlReader) anchored(read func() (tree.Value, error)) (tree.Value, error) {
	t := r.peek()
	if t == nil || t.Type != token.AnchorType {
		return read()
	}
	r.at++
	name := r.peek()
	if name == nil || !isScalar(name) {
		return tree.Value{}, unexpected(t)
	}
	r.at++
	if next := r.peek(); next != nil && next.Position.Line == name.Position.Line && r.isKey(next) {
		return tree.Value{}, at(t, "an anchor of a key is not supported; write it on the line before")
	}
	before := r.values
	v, err := read()
	if err == nil {
		r.anchors[name.Value] = anchor{v, r.values - before}
	}
	return v, err
}

// alias returns the value of an anchor. The values are shared, not copied.
func (r *yamlReader) alias(t *token.Token) (tree.Value, error) {
	name := r.peek()
	if name == nil || !isScalar(name) {
		return tree.Value{}, unexpected(t)
	}
	r.at++
	a, known := r.anchors[name.Value]
	if !known {
		return tree.Value{}, at(t, "there is no anchor %.40q before this alias", name.Value)
	}
	if r.values += a.size; r.values > maxExpanded {
		return tree.Value{}, at(t, "the aliases expand to more than %d values", maxExpanded)
	}
	return a.value, nil
}

// merge replaces the member << of an object by the members of its value that the object does not
// have itself.
func (r *yamlReader) merge(out *tree.Value) error {
	i := slices.IndexFunc(out.Members, func(m tree.Member) bool { return m.Name == "<<" })
	if r.anchors == nil || out.Kind != tree.Object || i < 0 {
		return nil
	}
	m := out.Members[i]
	out.Members = slices.Delete(out.Members, i, i+1)
	from := []tree.Value{m.Value}
	if m.Value.Kind == tree.List {
		from = m.Value.List
	}
	for _, v := range from {
		if v.Kind != tree.Object {
			return &syntaxError{m.Line, 1, "<< needs an object or a list of objects"}
		}
		for _, other := range v.Members {
			if out.Member(other.Name) != nil {
				continue
			}
			if len(out.Members) == maxMembers {
				return &syntaxError{m.Line, 1, "an object has too many members"}
			}
			out.Members = append(out.Members, other)
		}
	}
	return nil
}
