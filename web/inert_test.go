package web_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"sluice/web/static"
)

// elements are all that the pages are made of. What is not among them came from
// somewhere else.
var elements = names(`html head meta title link script body
	a article aside button caption code dd details dialog div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4
	header hr i
	input kbd
	label legend li main meter nav ol optgroup option output p pre progress section select small span strong b summary
	table tbody td
	tfoot textarea th thead time tr ul var
	svg path rect circle line polyline polygon g text title desc ellipse defs clippath datalist mark col colgroup br abbr template noscript wbr samp sup sub del ins`)

// requests are the attributes of htmx that the pages use; hx-on and what else
// could carry a program is not among them.
var requests = names("hx-get hx-post hx-target hx-swap hx-trigger hx-push-url hx-select hx-select-oob hx-swap-oob " +
	"hx-include hx-indicator hx-boost hx-preserve hx-sync hx-ext sse-connect sse-swap sse-close hx-config " +
	"hx-sse:connect hx-sse:close hx-disable")

func names(list string) map[string]bool {
	m := map[string]bool{}
	for name := range strings.FieldsSeq(list) {
		m[name] = true
	}
	return m
}

// inert reports what on a page could run or load something that the console did
// not put there. It reads the page as a browser would.
func inert(body string) error {
	z := html.NewTokenizer(strings.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			if !elements[tag.Data] {
				return fmt.Errorf("<%s> is no element of the console: %s", tag.Data, tag)
			}
			for _, a := range tag.Attr {
				if err := inertAttribute(tag.Data, a.Key, a.Val); err != nil {
					return fmt.Errorf("%w: %s", err, tag)
				}
			}
			if tag.Data == "script" && !strings.HasPrefix(attribute(tag, "src"), static.Root) {
				return fmt.Errorf("a script of the page: %s", tag)
			}
		}
	}
}

func attribute(tag html.Token, name string) string {
	for _, a := range tag.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func inertAttribute(tag, name, value string) error {
	switch {
	case strings.HasPrefix(name, "on"), name == "style", name == "srcdoc", name == "srcset", name == "x",
		name == "autofocus" && strings.Contains(value, "canary"):
		if name == "x" && tag != "form" && numeric(strings.TrimSuffix(value, "%")) { // of an SVG
			return nil
		}
		return fmt.Errorf("attribute %s", name)
	case strings.HasPrefix(name, "hx-"), strings.HasPrefix(name, "sse-"):
		if !requests[name] || strings.Contains(value, "js:") || strings.Contains(value, "javascript:") {
			return fmt.Errorf("attribute %s=%q", name, value)
		}
	case name == "http-equiv":
		return fmt.Errorf("<meta %s>", name)
	case name == "href" || name == "src" || name == "action" || name == "formaction" || name == "xlink:href" ||
		name == "data" || name == "poster":
		local := strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "//") && !strings.ContainsAny(value, "\\\r\n")
		if !local && value != "" && !strings.HasPrefix(value, "#") && !strings.HasPrefix(value, "?") {
			return fmt.Errorf("%s leads to %q", name, value)
		}
	}
	return nil
}

func numeric(s string) bool { return s != "" && strings.Trim(s, "0123456789.-") == "" }

func TestInert_FindsWhatRuns(t *testing.T) {
	for _, bad := range []string{
		"<script>x()</script>", "<script src=//evil.invalid></script>", "<img src=x>", "<p onclick=x()>",
		`<input value="" onfocus="x()">`, "<p style=a>",
		`<a href="javascript:x()">`, `<a href="//evil.invalid">`, `<a href="/\evil.invalid">`,
		`<form action="https://evil.invalid">`, "<base href=/x>",
		`<meta http-equiv="refresh">`, "<div hx-on:load=x()>", "<div hx-vals=js:x()>", `<svg onload=x()>`, "<iframe>",
		"<object>", `<a href="x:y">`,
	} {
		if inert(bad) == nil {
			t.Errorf("%s passes", bad)
		}
	}
	for _, good := range []string{
		"<p>&lt;script&gt;</p>", `<input value="&#34; onfocus=x()">`, `<textarea><script>x()</script></textarea>`,
		`<a href="/console/rules?q=%3Cscript%3E">`, `<rect x="1.5">`,
	} {
		if err := inert(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
