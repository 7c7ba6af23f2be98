package rulefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"

	"sluice/rules/tree"
)

// jsonReader builds items from a JSON file, strictly: one value, no repeated members, no half of a surrogate pair.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	line int // of offset seen
	seen int64
	// values counts the values of the current element.
	values int
}

func newJSONReader(data []byte) *jsonReader {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r
}

// end fails if more data follows.
func (r *jsonReader) end() error {
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return r.fail("has more data after the end of the JSON value")
	}
	return nil
}

// readJSON passes the elements of each section to d as it reads them.
func readJSON(data []byte, d *fileDecoder) error {
	r := newJSONReader(data)
	if _, err := r.token(); err != nil { // the brace that made it JSON
		return err
	}
	if err := r.file(d); err != nil {
		return err
	}
	return r.end()
}

func (r *jsonReader) file(d *fileDecoder) error {
	var names tree.Value
	for r.dec.More() {
		name, line, err := r.name(&names)
		if err != nil {
			return err
		}
		names.Members = append(names.Members, tree.Member{Name: name})
		r.values = 0
		if !d.begins(name, line) {
			if _, err := r.value(1); err != nil {
				return err
			}
			continue
		}
		if err := r.section(d, name, line); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

func (r *jsonReader) section(d *fileDecoder, name string, line int) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('[') {
		it, err := r.valueOf(t, 1)
		if err == nil {
			d.noList(&tree.Member{Name: name, Line: line, Value: it})
		}
		return err
	}
	for r.dec.More() {
		r.values = 0
		it, err := r.value(2)
		if err != nil {
			return err
		}
		if err := d.element(name, it); err != nil {
			return err
		}
	}
	_, err = r.token()
	return err
}

// name reads the name of the next member of an object.
func (r *jsonReader) name(of *tree.Value) (string, int, error) {
	t, err := r.token()
	if err != nil {
		return "", 0, err
	}
	name, _ := t.(string) // the decoder allows nothing else here
	if problem := of.Refuses(name); problem != "" {
		return "", 0, r.fail(problem)
	}
	return name, r.here(), nil
}

// here returns the line of the last token.
func (r *jsonReader) here() int {
	offset := min(r.dec.InputOffset(), int64(len(r.data)))
	r.line += bytes.Count(r.data[r.seen:offset], []byte{'\n'})
	r.seen = offset
	return r.line
}

func (r *jsonReader) fail(message string) error {
	line := r.here()
	column := int(r.seen) - bytes.LastIndexByte(r.data[:r.seen], '\n')
	return &tree.SyntaxError{Line: line, Column: column, Message: message}
}

func (r *jsonReader) token() (json.Token, error) {
	from := r.dec.InputOffset()
	t, err := r.dec.Token()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, r.fail("ends in the middle of the JSON value")
	case err != nil:
		return nil, r.fail("is not valid JSON: " + err.Error())
	}
	if text, is := t.(string); is && strings.ContainsRune(text, utf8.RuneError) &&
		halfPair.Match(pair.ReplaceAll(r.data[from:r.dec.InputOffset()], nil)) {
		return nil, r.fail("has half of a surrogate pair in a text")
	}
	return t, nil
}

// The decoder reads half of a surrogate pair as U+FFFD. It is what remains without whole pairs, and without backslashes
// as text.
var (
	pair     = regexp.MustCompile(`\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..`)
	halfPair = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
)

func (r *jsonReader) value(depth int) (tree.Value, error) {
	t, err := r.token()
	if err != nil {
		return tree.Value{}, err
	}
	return r.valueOf(t, depth)
}

// valueOf reads the value that starts with t.
func (r *jsonReader) valueOf(t json.Token, depth int) (tree.Value, error) {
	if r.values++; r.values > maxValues {
		return tree.Value{}, r.fail("one element has too many parts")
	}
	it := tree.Value{Line: r.here()}
	switch v := t.(type) {
	case string:
		it.Kind, it.Text = tree.Text, v
	case json.Number:
		it.Kind, it.Text = tree.Number, v.String()
		if tree.IsWhole(it.Text) {
			it.Kind = tree.Whole
		}
	case bool:
		it.Kind, it.Text = tree.Truth, "false"
		if v {
			it.Text = "true"
		}
	case json.Delim:
		if depth >= maxDepth {
			return tree.Value{}, r.fail("is nested too deeply")
		}
		if v == '[' {
			it.Kind = tree.List
			return r.elements(it, depth)
		}
		it.Kind = tree.Object
		return r.members(it, depth)
	}
	return it, nil
}

func (r *jsonReader) elements(it tree.Value, depth int) (tree.Value, error) {
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return tree.Value{}, err
		}
		it.List = append(it.List, v)
	}
	_, err := r.token()
	return it, err
}

func (r *jsonReader) members(it tree.Value, depth int) (tree.Value, error) {
	for r.dec.More() {
		name, line, err := r.name(&it)
		if err != nil {
			return tree.Value{}, err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return tree.Value{}, err
		}
		it.Members = append(it.Members, tree.Member{Name: name, Line: line, Value: v})
	}
	_, err := r.token()
	return it, err
}
