package app

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// lasting are the parts of client headers that do not depend on when they were
// sent.
var lasting = regexp.MustCompile(`;t=\d+`)

// previewedHeaders are the headers that the editor shows for a form.
func previewedHeaders(t *testing.T, page string) map[string]string {
	t.Helper()
	_, rest, found := strings.Cut(page, `aria-label="Headers"><code>`)
	text, _, _ := strings.Cut(rest, "</code>")
	if !found {
		t.Fatal("the preview shows no headers")
	}
	out := map[string]string{}
	for line := range strings.Lines(html.UnescapeString(text)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			out[name] = lasting.ReplaceAllString(value, "")
		}
	}
	return out
}

func TestConsole_PreviewShowsTheHeadersOfARealDenial(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	p.post(n.url+"/console/pools", url.Values{"name": {"shared"}, "limit": {"1000"}, "window_ms": {"60000"},
		"normal_percent": {"80"}, "low_percent": {"50"}})
	for name, fields := range map[string]url.Values{
		"hard": {"algorithm": {"fixed_window"}, "align": {"first_hit"}, "throttle": {"hard"}},
		"soft": {"algorithm": {"fixed_window"}, "align": {"first_hit"}, "throttle": {"soft"}, "soft_percent": {"50"}},
		"elastic": {"algorithm": {"fixed_window"}, "align": {"first_hit"}, "throttle": {"elastic"}, "elastic_percent": {"50"},
			"pool": {"shared"}},
		"bucket": {"algorithm": {"token_bucket"}, "throttle": {"soft"}, "soft_percent": {"100"}},
		"monthly": {"algorithm": {"fixed_window"}, "window_ms": {""}, "calendar.every": {"month"},
			"calendar.zone": {"Asia/Tokyo"}},
	} {
		form := url.Values{
			"name": {name}, "scope": {"user"}, "route": {"/v1/" + name}, "limit": {"4"}, "window_ms": {"1"},
			"window_ms.unit": {"day"}, "is_active": {"on"},
			"preview.shape": {"burst"}, "preview.load": {"300"},
		}
		for field, values := range fields {
			form[field] = values
		}
		status, page := p.post(n.url+"/console/rules/preview", form)
		if status != http.StatusOK {
			t.Fatalf("%s: the preview answered %d", name, status)
		}
		shown := previewedHeaders(t, page)
		if status, page := p.post(n.url+"/console/rules", form); status != http.StatusOK ||
			!strings.Contains(page, "Rule &#34;"+name+"&#34; created.") {
			t.Fatalf("%s: making it answered %d", name, status)
		}
		var doc map[string]any
		for range 10 {
			if doc = n.check(`{"user":"42","route":"/v1/` + name + `"}`); doc["allowed"] == false {
				break
			}
		}
		sent, _ := doc["headers"].(map[string]any)
		if doc["allowed"] != false || len(sent) < 6 {
			t.Fatalf("%s: no denial came: %v", name, doc)
		}
		if len(shown) != len(sent) {
			t.Errorf("%s: the preview shows %v, the API sends %v", name, shown, sent)
		}
		for header, value := range sent {
			text, _ := value.(string)
			text = lasting.ReplaceAllString(text, "")
			if clocked := header == "Retry-After" || header == "X-RateLimit-Reset"; !clocked && shown[header] != text {
				t.Errorf("%s: the preview shows %s: %s, the API sends %s", name, header, shown[header], text)
			}
		}
	}
}

func TestConsole_PreviewOfATrialShowsNoHeadersAsTheAPISendsNone(t *testing.T) {
	t.Parallel()
	n := start(t, withConsole(t))
	p := newPerson(t, n)
	link := welcomeLink.FindStringSubmatch(n.out.String())
	p.post(n.url+"/console/welcome", url.Values{"token": {link[1]}, "name": {"grace"},
		"password": {"long enough for this"}, "repeat": {"long enough for this"}})
	form := url.Values{"name": {"trial"}, "scope": {"user"}, "limit": {"0"}, "window_ms": {"1"}, "window_ms.unit": {"day"},
		"is_active": {"on"}, "mode": {"shadow"}}
	if _, page := p.post(n.url+"/console/rules/preview", form); strings.Contains(page, `aria-label="Headers"`) ||
		!strings.Contains(page, "sends no headers") {
		t.Error("the preview of a shadow rule shows headers")
	}
	p.post(n.url+"/console/rules", form)
	if doc := n.check(`{"user":"42"}`); len(doc["limits"].([]any)) != 1 || len(doc["headers"].(map[string]any)) != 0 {
		t.Errorf("a shadow rule makes headers: %v", doc)
	}
}
