//go:build sweep

package app

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/chromedp/chromedp"

	"sluice/web/browsertest"
)

// chunks are the payloads in so many parts.
func chunks(parts int) [][]string {
	out := make([][]string, parts)
	for i, p := range browsertest.Payloads() {
		out[i%parts] = append(out[i%parts], p.Text)
	}
	return out
}

// joined are texts one behind the other, up to a number of bytes.
func joined(texts []string, most int) string {
	var b strings.Builder
	for _, text := range texts {
		if b.Len()+len(text) <= most {
			b.WriteString(text)
		}
	}
	return b.String()
}

func jsonBody(t *testing.T, v any) string {
	t.Helper()
	body, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// printable is a text as a rule's description may be.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\u202e' || r == utf8.RuneError {
			return -1
		}
		return r
	}, text)
}

// TestPayloads_StayText sends every payload through the API: as facts of requests that
// are denied, as keys, request ids, names and descriptions of rules, and reasons of
// overrides. Then it opens every page that shows them, with nothing but escaping to
// protect them, and listens.
func TestPayloads_StayText(t *testing.T) {
	b, err := browsertest.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	n := start(t, withConsole(t))
	_, cookies := admitted(t, n)
	const parts = 4
	sent := chunks(parts)
	for i, texts := range sent {
		for j := 0; j < len(texts); j += 10 {
			about := printable(joined(texts[j:min(len(texts), j+10)], 1000))
			n.create(jsonBody(t, map[string]any{"name": fmt.Sprintf("about-%d-%d", i, j), "description": about, "scope": "user",
				"route": "/quiet", "limit": 1, "window_ms": 1000}))
		}
		for _, text := range texts {
			if status, doc := n.send("POST", "/ratelimit/rules",
				jsonBody(t, map[string]any{"name": text, "scope": text, "limit": 1,
					"window_ms": 1000})); status != http.StatusUnprocessableEntity {
				t.Errorf("a rule called %q: %d %v", text, status, doc)
			}
		}
		rule := n.create(jsonBody(t, map[string]any{"name": fmt.Sprintf("facts-%d", i), "scope": "attr:p00",
			"when": fmt.Sprintf(`attributes["part"] == "%d"`, i), "limit": 0, "window_ms": 60_000}))
		n.create(jsonBody(t, map[string]any{"name": fmt.Sprintf("keys-%d", i), "scope": "attr:key",
			"route": fmt.Sprintf("/keys/%d", i), "limit": 0, "window_ms": 60_000}))
		overrides := fmt.Sprintf("/ratelimit/rules/%v/overrides", rule["id"])
		taken := 0
		for _, text := range texts {
			switch status, doc := n.send("POST", overrides,
				jsonBody(t, map[string]any{"key": "attr:p00:" + text, "limit": 0, "reason": printable(text)})); {
			case status == http.StatusCreated:
				taken++
			case status >= http.StatusInternalServerError:
				t.Errorf("an override for %q: %d %v", text, status, doc)
			}
		}
		if taken < len(texts)/2 {
			t.Errorf("of %d overrides %d were taken", len(texts), taken)
		}
	}
	for i, texts := range sent {
		facts := map[string]string{"part": fmt.Sprint(i)}
		for j, text := range texts {
			facts[fmt.Sprintf("p%02d", j)] = text
		}
		denied(t, n, map[string]any{
			"method": "POST", "route": "/" + joined(texts, 1000), "user": joined(texts, 1000), "tier": joined(texts[1:], 1000),
			"request_id": joined(texts[2:], 64), "attributes": facts,
		})
	}
	for i, texts := range sent {
		for _, text := range texts {
			denied(t, n, map[string]any{"route": fmt.Sprintf("/keys/%d", i), "attributes": map[string]string{"key": text}})
		}
	}

	w := openWindow(t, b)
	if err := w.SetCookies(n.url, cookies); err != nil {
		t.Fatal(err)
	}
	if err := w.Canary(true); err != nil {
		t.Fatal(err)
	}
	show := func(path string) {
		t.Helper()
		if err := w.Go(n.url + path); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, c := range w.Stray() {
			t.Errorf("%s: %s", path, c)
		}
		w.Forgive()
	}
	show("/console/denials?route=%2F")
	w.until(fmt.Sprintf(`document.querySelectorAll('#live-samples a[href^="/console/explain"]').length >= %d && document.body.innerText.includes("facts-%d")`, parts, parts-1))
	shown := w.shown(sent)
	if shown < 200 {
		t.Errorf("%d payloads stand on the page of denials as they were sent, want 200", shown)
	}
	for _, path := range unique(w.links(`#live-samples a[href^="/console/explain"], #live-samples td[data-label="Key"] a`),
		40) {
		show(path)
	}
	for _, path := range []string{
		"/console", "/console/denials", "/console/rules", "/console/rules?page=2", "/console/rules?sort=updated_at&desc=1",
		"/console/hot-keys", "/console/audit", "/console/fail-modes", "/console/import",
	} {
		show(path)
	}
	show("/console/rules?q=facts-")
	for _, path := range unique(w.links(`tbody th a[href^="/console/rules/"]`), parts) {
		show(path)
		show(path + "/overrides")
	}
	show("/console/rules?q=keys-")
	for _, path := range unique(w.links(`tbody th a[href^="/console/rules/"]`), parts) {
		show(path)
		for _, key := range unique(w.links(`.ranks a[href^="/console/keys"]`), 6) {
			show(key)
		}
	}
	for i, texts := range sent {
		text := texts[i*7]
		show("/console/keys?" + url.Values{"rule": {fmt.Sprintf("keys-%d", i)}, "key": {text}}.Encode())
		show("/console/denials?" + url.Values{"key": {text}, "route": {text}, "rule": {text}}.Encode())
		show("/console/audit?" + url.Values{"subject": {text}, "actor": {text}}.Encode())
	}
}

// denied makes a request that must be answered, and denied.
func denied(t *testing.T, n *node, check map[string]any) {
	t.Helper()
	if n.allowed(jsonBody(t, check)) {
		t.Errorf("allowed: %v", check)
	}
}

// shown counts the payloads that the page shows as they were sent.
func (w *window) shown(sent [][]string) int {
	w.t.Helper()
	text, err := chromedp.Run(w.Ctx, chromedp.Evaluate[string](`document.querySelector("main").textContent`))
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, texts := range sent {
		for _, payload := range texts {
			if strings.Contains(text, payload) {
				n++
			}
		}
	}
	return n
}

// links are where the elements that a selector finds lead.
func (w *window) links(selector string) []string {
	w.t.Helper()
	found, err := chromedp.Run(w.Ctx, chromedp.Evaluate[[]string]("[...document.querySelectorAll(`"+selector+
		"`)].map(e => e.getAttribute('href'))"))
	if err != nil {
		w.t.Fatalf("%s: %v", selector, err)
	}
	return found
}

// unique are the first different ones.
func unique(all []string, most int) []string {
	var out []string
	seen := map[string]bool{}
	for _, s := range all {
		if !seen[s] && len(out) < most {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}
