package rulefile

import (
	"bytes"
	"errors"
	"regexp"

	"sluice/rules/field"
	"sluice/rules/tree"
)

// longSection matches the line that starts a section of a long file.
var longSection = regexp.MustCompile(`^([A-Za-z0-9_-]+):[ \t]*(\[\])?[ \t]*(?:#.*)?$`)

// readLongYAML reads a file that is too long for one read, in the form that an export writes: each section starts on a
// separate line, and each element from a line that starts with a dash to the next such line at the same column.
// Elements are read as in a short file, a batch at a time.
func readLongYAML(data []byte, d *fileDecoder) error {
	r := longReader{d: d, seen: map[string]bool{}, indent: -1}
	for n := 1; len(data) > 0; n++ {
		line := data
		if end := bytes.IndexByte(data, '\n'); end >= 0 {
			line = data[:end+1]
		}
		if err := r.line(n, line, data); err != nil {
			return err
		}
		data = data[len(line):]
	}
	return r.end()
}

type longReader struct {
	d    *fileDecoder
	seen map[string]bool
	// section is the section of the next element, "" before the first; indent is the column of its
	// dashes, -1 before the first of them.
	section string
	indent  int
	// begun is the line of the section; empty reports that the section is written as [].
	begun int
	empty bool
	// batch holds the lines of the current elements, which start at line first.
	batch    []byte
	first    int
	elements int
}

// line takes line n; rest starts with it.
func (r *longReader) line(n int, line, rest []byte) error {
	text := bytes.TrimRight(line, " \t\r\n")
	bare := bytes.TrimLeft(text, " ")
	indent := len(text) - len(bare)
	dash := bytes.Equal(bare, []byte("-")) || bytes.HasPrefix(bare, []byte("- "))
	switch {
	case len(bare) == 0 || bare[0] == '#':
		return r.more(n, line)
	case r.section == "" && string(text) == "---", string(text) == "..." && len(bytes.TrimSpace(rest)) == len(text):
		return nil
	case dash && r.section != "" && !r.empty && (r.indent < 0 || indent == r.indent):
		if len(r.batch) >= maxBatch {
			if err := r.flush(); err != nil {
				return err
			}
		}
		if r.batch == nil {
			r.batch, r.first, r.elements = rest[:0], n, 0
		}
		r.indent = indent
		r.elements++
		return r.more(n, line)
	case r.batch != nil && indent > r.indent:
		return r.more(n, line)
	}
	name := longSection.FindSubmatch(text)
	if name == nil || indent > 0 {
		return &tree.SyntaxError{Line: n, Column: indent + 1, Message: "is not allowed here in a file of more than 1 MiB: " +
			"write each section and element on a separate line, as an export does, or use JSON"}
	}
	if err := r.end(); err != nil {
		return err
	}
	r.section, r.indent, r.begun, r.empty = string(name[1]), -1, n, len(name[2]) > 0
	if r.seen[r.section] {
		return &tree.SyntaxError{Line: n, Column: 1, Message: "the member " + field.JSONText(r.section) + " appears twice"}
	}
	r.seen[r.section] = true
	if !r.d.begins(r.section, n) {
		return &tree.SyntaxError{Line: n, Column: 1, Message: "only rules, pools and profiles are allowed here"}
	}
	return nil
}

// more adds a line to the batch.
func (r *longReader) more(n int, line []byte) error {
	if r.batch == nil {
		return nil
	}
	if len(r.batch)+len(line) > maxWhole+maxBatch {
		return &tree.SyntaxError{Line: n, Column: 1, Message: "one element has more than 1 MiB"}
	}
	r.batch = r.batch[:len(r.batch)+len(line)] // the lines follow one another
	return nil
}

// end ends a section.
func (r *longReader) end() error {
	if r.section != "" && r.indent < 0 && !r.empty {
		r.d.noList(&tree.Member{Name: r.section, Line: r.begun, Value: tree.Value{Line: r.begun}})
	}
	return r.flush()
}

// flush reads the batch, whose last element is complete.
func (r *longReader) flush() error {
	text := r.batch
	r.batch = nil
	if text == nil {
		return nil
	}
	root, err := readYAML(text)
	var se *tree.SyntaxError
	if errors.As(err, &se) {
		se.Line += r.first - 1
	}
	if err != nil {
		return err
	}
	if root.Kind != tree.List || len(root.List) != r.elements {
		return &tree.SyntaxError{Line: r.first, Column: r.indent + 1,
			Message: "from here on, each element must begin with a dash on a separate line"}
	}
	root.MoveDown(r.first - 1)
	for i := range root.List {
		if err := r.d.element(r.section, root.List[i]); err != nil {
			return err
		}
	}
	return nil
}
