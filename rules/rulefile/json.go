package rulefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"sluice/rules"
	"sluice/rules/tree"
)

// jsonReader builds items from a JSON file, strictly: one value, no repeated members.
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
	seen := map[string]bool{}
	for r.dec.More() {
		name, line, err := r.name(func(name string) bool { return seen[name] }, len(seen))
		if err != nil {
			return err
		}
		seen[name] = true
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

// name reads the name of a member of an object that already has n.
func (r *jsonReader) name(seen func(string) bool, n int) (string, int, error) {
	t, err := r.token()
	if err != nil {
		return "", 0, err
	}
	name, _ := t.(string) // the decoder allows nothing else here
	line := r.here()
	if seen(name) {
		return "", 0, r.fail("the member " + rules.JSONText(name) + " appears twice")
	}
	if n == maxMembers {
		return "", 0, r.fail("an object has too many members")
	}
	return name, line, nil
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
	return &syntaxError{line, column, message}
}

func (r *jsonReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil, r.fail("ends in the middle of the JSON value")
	case err != nil:
		return nil, r.fail("is not valid JSON")
	}
	return t, nil
}

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
		name, line, err := r.name(func(name string) bool {
			return slices.ContainsFunc(it.Members, func(m tree.Member) bool { return m.Name == name })
		}, len(it.Members))
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
