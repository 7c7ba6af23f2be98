//go:build sweep

package browsertest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/html"

	"sluice/web/browsertest"
	"sluice/web/webtest"
)

// policy is a strict one, as the console's pages have.
const policy = "default-src 'none'; script-src 'self'"

// TestCanary_IsHeard proves that the next test could fail: with the payloads on a
// page as they are, the canary is called where no policy protects the page, and
// where one does the browser complains.
func TestCanary_IsHeard(t *testing.T) {
	var body strings.Builder
	for _, p := range browsertest.Payloads()[:12] {
		body.WriteString("<div>" + p.Text + "</div>")
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		fmt.Fprint(w, "<!doctype html><body>"+body.String()) //nolint:gosec // that is the point
	}))
	t.Cleanup(s.Close)
	c, err := chromium()
	try(t, err)
	for _, unguarded := range []bool{true, false} {
		tab, err := c.Open()
		try(t, err)
		t.Cleanup(tab.Close)
		try(t, tab.Canary(unguarded))
		try(t, tab.Go(s.URL))
		heard := strings.Join(tab.Complaints(), "\n")
		if called := strings.Contains(heard, "the canary was called"); called != unguarded ||
			!unguarded && !strings.Contains(heard, "Content Security Policy") {
			t.Errorf("unguarded %v: %s", unguarded, heard)
		}
	}
}

// chunk is how many payloads a field gets at a time, one behind the other. Each
// alone is the business of TestInject in package web; this is the browser's view.
const chunk = 120

// TestInject_NoFormRunsAPayload fills every text field of every form on every page
// with payloads, sends it, and listens. The pages have no policy in the meantime, so
// that nothing but escaping protects them.
func TestInject_NoFormRunsAPayload(t *testing.T) {
	chunks := chunksOf(browsertest.Payloads(), chunk)
	var seen sync.Map
	for _, shown := range webtest.Gallery() {
		if shown.Form != nil || shown.Kind == webtest.Failing {
			continue
		}
		t.Run(shown.Name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, shown.Kind, shown.Prepare)
			for n, id := range textForms(t, s.As(shown.Role).Get(s.Fill(shown.Path)).Body) {
				if _, other := seen.LoadOrStore(id, true); id == "" || other {
					continue
				}
				for _, text := range chunks {
					s := serve(t, shown.Kind, shown.Prepare) // what was sent may have changed the last one
					tab, done := s.take(t, &unguarded, shown.Role)
					s.show(t, tab, &shown)
					tab.Forgive() // what it complains about is for TestPages
					fill(t, tab, n, text)
					for _, c := range tab.Stray() {
						t.Errorf("%s: %s", id, c)
					}
					tab.Forgive()
					done()
				}
			}
		})
	}
}

// textForms says of each form of a page what it is, by where it goes and what it
// asks; "" if nobody types text into it.
func textForms(t *testing.T, body string) []string {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	try(t, err)
	var ids []string
	for n := range doc.Descendants() {
		if n.Data == "form" {
			ids = append(ids, "")
			for d := range n.Descendants() {
				ids[len(ids)-1] += typed(d)
			}
		}
	}
	n := 0
	for d := range doc.Descendants() {
		if d.Data == "form" {
			if ids[n] != "" {
				ids[n] = attribute(d, "method") + " " + digits.ReplaceAllString(attribute(d, "action"), "/1") + ids[n]
			}
			n++
		}
	}
	return ids
}

var digits = regexp.MustCompile("/[0-9]+")

// typed is the name of a control into which people type, behind a space.
func typed(n *html.Node) string {
	name := attribute(n, "name")
	if n.Type != html.ElementNode || name == "" || n.Data != "textarea" && n.Data != "input" {
		return ""
	}
	if kind := attribute(n, "type"); n.Data == "input" &&
		slices.Contains([]string{"hidden", "checkbox", "radio", "file", "submit"}, kind) {
		return ""
	}
	return " " + name
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func chunksOf(payloads []browsertest.Payload, size int) []string {
	var out []string
	for len(payloads) > 0 {
		n := min(size, len(payloads))
		var b strings.Builder
		for _, p := range payloads[:n] {
			b.WriteString(p.Text)
		}
		out, payloads = append(out, b.String()), payloads[n:]
	}
	return out
}

// fill types text into every field of a form that takes any and sends the form,
// whatever the fields think of it, without the scripts of the page.
func fill(t *testing.T, tab *browsertest.Tab, form int, text string) {
	t.Helper()
	quoted, err := json.Marshal(text)
	try(t, err)
	script := fmt.Sprintf(`(() => {
		const f = document.forms[%d], text = %s;
		for (const e of [...f.elements]) {
			if (!e.name || e.matches("select, button, fieldset, output") ||
				e.matches("[type=hidden], [type=checkbox], [type=radio], [type=file]")) continue;
			if (e.matches("input")) e.type = "text";
			e.removeAttribute("maxlength");
			e.value = text;
		}
		HTMLFormElement.prototype.submit.call(f);
		return true;
	})()`, form, quoted)
	try(t, tab.Leave(browsertest.Script(script)))
}
