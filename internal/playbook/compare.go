package playbook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
)

// memory holds the values of "$name".
type memory map[string]string

// fill inserts remembered values into a request.
func (m memory) fill(text string) string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(names))) // $lease2 before $lease
	for _, name := range names {
		text = strings.ReplaceAll(text, name, m[name])
	}
	return text
}

func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// compare returns where an answer differs from the page, nil if it does not.
func (m memory) compare(path string, want, got any) error {
	switch w := want.(type) {
	case string:
		if w == "…" {
			return nil
		}
		if strings.HasPrefix(w, "$") {
			return m.remember(path, w, got)
		}
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return differ(path, want, got)
		}
		for name, v := range w {
			have, ok := g[name]
			if !ok {
				return fmt.Errorf("%s.%s is missing in %s", path, name, text(got))
			}
			if err := m.compare(path+"."+name, v, have); err != nil {
				return err
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return differ(path, want, got)
		}
		for i := range w {
			if err := m.compare(fmt.Sprintf("%s[%d]", path, i), w[i], g[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if want != got {
		return differ(path, want, got)
	}
	return nil
}

func (m memory) remember(path, name string, got any) error {
	value := fmt.Sprint(got)
	if known, ok := m[name]; ok && known != value {
		return fmt.Errorf("%s is %s, and %s was %s before", path, value, name, known)
	}
	m[name] = value
	return nil
}

func differ(path string, want, got any) error {
	return fmt.Errorf("%s is %s, the page says %s", path, text(got), text(want))
}

func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}
