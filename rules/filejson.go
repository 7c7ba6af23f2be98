package rules

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// jsonReader builds items from a JSON file, strictly: one value, no repeated
// members.
type jsonReader struct {
	data []byte
	dec  *json.Decoder
	line int // of offset seen
	seen int64
	// values counts those of the element that is being read.
	values int
}

// readJSONValue reads one value.
func readJSONValue(data []byte) (item, error) {
	r := newJSONReader(data)
	it, err := r.value(0)
	if err != nil {
		return item{}, err
	}
	return it, r.end()
}

func newJSONReader(data []byte) *jsonReader {
	r := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	return r
}

// end fails if there is more.
func (r *jsonReader) end() error {
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return r.fail("there is more after the end of the JSON value")
	}
	return nil
}

// readJSON hands the elements of each section to d as they come.
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
			d.noList(&member{name: name, line: line, value: it})
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

// name reads the name of a member of an object that has n already.
func (r *jsonReader) name(seen func(string) bool, n int) (string, int, error) {
	t, err := r.token()
	if err != nil {
		return "", 0, err
	}
	name, _ := t.(string) // the decoder allows nothing else here
	line := r.here()
	if seen(name) {
		return "", 0, r.fail("the member " + jsonText(name) + " appears twice")
	}
	if n == maxMembers {
		return "", 0, r.fail("an object has too many members")
	}
	return name, line, nil
}

// here is the line of the last token.
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
		return nil, r.fail("the JSON value ends too early")
	case err != nil:
		return nil, r.fail("is not valid JSON")
	}
	return t, nil
}

func (r *jsonReader) value(depth int) (item, error) {
	t, err := r.token()
	if err != nil {
		return item{}, err
	}
	return r.valueOf(t, depth)
}

// valueOf reads the value that begins with t.
func (r *jsonReader) valueOf(t json.Token, depth int) (item, error) {
	if r.values++; r.values > maxValues {
		return item{}, r.fail("one element has too many parts")
	}
	it := item{line: r.here()}
	switch v := t.(type) {
	case string:
		it.kind, it.text = itemText, v
	case json.Number:
		it.kind, it.text = itemOther, v.String()
		if isDecimal(it.text) {
			it.kind = itemWhole
		}
	case bool:
		it.kind, it.text = itemTruth, "false"
		if v {
			it.text = "true"
		}
	case json.Delim:
		if depth >= maxDepth {
			return item{}, r.fail("is nested too deeply")
		}
		if v == '[' {
			it.kind = itemList
			return r.elements(it, depth)
		}
		it.kind = itemObject
		return r.members(it, depth)
	}
	return it, nil
}

func (r *jsonReader) elements(it item, depth int) (item, error) {
	for r.dec.More() {
		v, err := r.value(depth + 1)
		if err != nil {
			return item{}, err
		}
		it.list = append(it.list, v)
	}
	_, err := r.token()
	return it, err
}

func (r *jsonReader) members(it item, depth int) (item, error) {
	for r.dec.More() {
		name, line, err := r.name(func(name string) bool {
			return slices.ContainsFunc(it.members, func(m member) bool { return m.name == name })
		}, len(it.members))
		if err != nil {
			return item{}, err
		}
		v, err := r.value(depth + 1)
		if err != nil {
			return item{}, err
		}
		it.members = append(it.members, member{name: name, line: line, value: v})
	}
	_, err := r.token()
	return it, err
}
