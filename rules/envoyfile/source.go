package envoyfile

import (
	"bytes"
	"iter"
	"strings"

	"sluice/rules/chars"
)

// Source is one file.
type Source struct {
	// Name is shown with problems; "" is a file without a name.
	Name string
	Data []byte
}

// sourceMark begins the line after a document separator that names the file of what follows. Helm writes the same.
const sourceMark = "# Source: "

// maxSourceName is the longest name of a file in a stream, in bytes.
const maxSourceName = 300

// Join writes files as one stream that Split can separate.
func Join(files []Source) []byte {
	var b bytes.Buffer
	for _, f := range files {
		b.WriteString("---\n" + sourceMark + fileName(f.Name) + "\n")
		b.Write(f.Data)
		if !bytes.HasSuffix(f.Data, []byte("\n")) {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// Split separates a stream into the files that Join has put together. A stream without the marks of Join is one file.
func Split(stream []byte) []Source {
	var out []Source
	current, begin := "", 0
	add := func(end int) {
		if data := stream[begin:end]; end > begin && (len(out) > 0 || current != "" || len(bytes.TrimSpace(data)) > 0) {
			out = append(out, Source{Name: current, Data: data})
		}
	}
	separator := -1 // the start of the line before, if it is a separator
	for at := 0; at < len(stream); {
		end := len(stream)
		if i := bytes.IndexByte(stream[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		line := strings.TrimRight(string(stream[at:min(end, at+maxSourceName+len(sourceMark))]), "\r\n")
		if name, marked := strings.CutPrefix(line, sourceMark); marked && separator >= 0 && isFileName(name) {
			add(separator)
			current, begin = name, end
		}
		if separator = -1; line == "---" {
			separator = at
		}
		at = end
	}
	add(len(stream))
	if len(out) == 0 {
		return []Source{{Data: stream}}
	}
	return out
}

// fileName makes a name fit for one line.
func fileName(s string) string {
	s = strings.Map(func(r rune) rune {
		if chars.Unsafe(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxSourceName {
		s = strings.ToValidUTF8(s[len(s)-maxSourceName:], "")
	}
	if s == "" {
		return "-"
	}
	return s
}

func isFileName(s string) bool {
	return s != "" && len(s) <= maxSourceName && !strings.ContainsFunc(s, chars.Unsafe)
}

// document is one YAML document of a file, whose first line is line 1+before of the file.
type document struct {
	data   []byte
	before int
}

// documents splits a file at its document separators (---) and end marks (...). Directives (%YAML) stay with the next
// document.
func documents(data []byte) iter.Seq[document] {
	return func(yield func(document) bool) {
		data = bytes.TrimPrefix(data, []byte("\ufeff"))
		begin, first, n := 0, 0, 0
		content := false // since begin
		for at := 0; at < len(data); n++ {
			end := len(data)
			if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
				end = at + i + 1
			}
			line := data[at:end]
			separator := isMark(line, "---")
			if separator && content {
				if !yield(document{data[begin:at], first}) {
					return
				}
				begin, first = at, n
			}
			bare := bytes.TrimSpace(line)
			content = content || separator || len(bare) > 0 && bare[0] != '#' && line[0] != '%'
			if at = end; isMark(line, "...") {
				if !yield(document{data[begin:at], first}) {
					return
				}
				begin, first, content = at, n+1, false
			}
		}
		yield(document{data[begin:], first})
	}
}

// isMark reports whether a line is a mark between documents.
func isMark(line []byte, mark string) bool {
	rest, marked := bytes.CutPrefix(line, []byte(mark))
	return marked && (len(rest) == 0 || strings.IndexByte(" \t\r\n", rest[0]) >= 0)
}
