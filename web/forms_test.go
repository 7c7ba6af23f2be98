package web_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// form is a form of a page as a browser sees it.
type form struct {
	method, action string
	controls       []control
}

// control is one field of a form.
type control struct {
	// kind is the type of an input, or textarea, select or button.
	kind, name, value string
	// action is where a button sends the form instead, "" if it does not.
	action string
	// sent: a browser sends it if nobody touches it.
	sent bool
}

// typed reports whether people type text into the control.
func (c *control) typed() bool {
	switch c.kind {
	case "checkbox", "radio", "hidden", "select", "button", "submit", "file":
		return false
	}
	return c.name != ""
}

// values are what a browser sends if nobody touches the form.
func (f *form) values() url.Values {
	v := url.Values{}
	for _, c := range f.controls {
		if c.sent && c.name != "" {
			v.Add(c.name, c.value)
		}
	}
	return v
}

// pressed is the form once for its Enter key and once for each of its buttons
// that says something of its own: where the form goes, or a name.
func (f *form) pressed() []form {
	all := []form{*f}
	for _, c := range f.controls {
		if c.kind != "button" || c.action == "" && c.name == "" {
			continue
		}
		by := form{f.method, f.action, slices.Clone(f.controls)}
		if c.action != "" {
			by.action = c.action
		}
		by.controls = append(by.controls, control{kind: "hidden", name: c.name, value: c.value, sent: true})
		all = append(all, by)
	}
	return all
}

// formsOf reads the forms of a page that came from a path.
func formsOf(t *testing.T, body, path string) []form {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	here, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	resolve := func(action string) string {
		to, err := here.Parse(action)
		if err != nil {
			t.Fatalf("%s: a form goes to %q: %v", path, action, err)
		}
		return to.RequestURI()
	}
	byID, all := map[string]*form{}, []*form{}
	for n := range doc.Descendants() {
		if n.Data == "form" && n.Type == html.ElementNode {
			f := &form{method: strings.ToUpper(attr(n, "method", "get")), action: resolve(attr(n, "action", path))}
			byID[attr(n, "id", "")], all = f, append(all, f)
			collect(f, n, resolve)
		}
	}
	for n := range doc.Descendants() { // controls may stand elsewhere and name their form
		if f := byID[attr(n, "form", "")]; f != nil && attr(n, "form", "") != "" {
			f.controls = append(f.controls, controlsOf(n, resolve)...)
		}
	}
	out := make([]form, len(all))
	for i, f := range all {
		out[i] = *f
	}
	return out
}

func collect(f *form, n *html.Node, resolve func(string) string) {
	for d := range n.Descendants() {
		if attr(d, "form", "") == "" {
			f.controls = append(f.controls, controlsOf(d, resolve)...)
		}
	}
}

func controlsOf(n *html.Node, resolve func(string) string) []control {
	if n.Type != html.ElementNode {
		return nil
	}
	c := control{kind: n.Data, name: attr(n, "name", ""), value: attr(n, "value", ""), sent: true}
	switch n.Data {
	case "input":
		c.kind = attr(n, "type", "text")
		if c.kind == "checkbox" || c.kind == "radio" {
			c.sent, c.value = has(n, "checked"), attr(n, "value", "on")
		}
	case "textarea":
		c.value = strings.TrimPrefix(textOf(n), "\n")
	case "select":
		c.value = chosen(n)
	case "button":
		c.sent = false
		if to := attr(n, "formaction", ""); to != "" {
			c.action = resolve(to)
		}
	default:
		return nil
	}
	c.sent = c.sent && !has(n, "disabled")
	return []control{c}
}

// chosen is the option of a select that is sent.
func chosen(n *html.Node) string {
	value, first := "", true
	for o := range n.Descendants() {
		if o.Data == "option" && (first || has(o, "selected")) {
			value, first = attr(o, "value", textOf(o)), false
		}
	}
	return value
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func has(n *html.Node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

func attr(n *html.Node, name, otherwise string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return otherwise
}
