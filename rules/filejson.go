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
}

func readJSON(data []byte) (item, error) {
	r := jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), line: 1}
	r.dec.UseNumber()
	root, err := r.value(0)
	if err != nil {
		return item{}, err
	}
	if _, err := r.dec.Token(); !errors.Is(err, io.EOF) {
		return item{}, r.fail("there is more after the end of the JSON value")
	}
	return root, nil
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
		t, err := r.token()
		if err != nil {
			return item{}, err
		}
		name, _ := t.(string) // the decoder allows nothing else here
		line := r.here()
		if slices.ContainsFunc(it.members, func(m member) bool { return m.name == name }) {
			return item{}, r.fail("the member " + jsonText(name) + " appears twice")
		}
		if len(it.members) == maxMembers {
			return item{}, r.fail("an object has too many members")
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
