package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"

	"sluice/internal/access"
	"sluice/internal/audit"
	"sluice/internal/history"
	"sluice/rules/chars"
	"sluice/web/webtest"
)

// hostile is what a caller sends who wants to end live streams, to turn text around, and to write escapes of terminals.
const hostile = "+q\revent: ended\rdata: session\r\rx\r\ny\n\nz\u202e\u2028\u0085\x1b[31m\x00\xff"

// hostileShown is how people see it.
const hostileShown = "+q%0Devent: ended%0Ddata: session%0D%0Dx%0D%0Ay%0A%0Az%E2%80%AE%E2%80%A8%C2%85%1B[31m%00%FF"

// hostileWorld has hostile in everything that a caller names.
func hostileWorld(t *testing.T) *webtest.World {
	t.Helper()
	w := world(t, webtest.Full)
	sample := history.Request{ID: "hostile", Rule: "charges-per-user", Key: hostile, Bucket: "user:" + hostile,
		Mode: "enforce", Status: http.StatusTooManyRequests, At: webtest.Now.UnixMilli(), Weight: 1, Method: "GET",
		Route: "/" + hostile, Host: hostile, IP: hostile, User: hostile, Tier: hostile,
		Attributes: map[string]string{"tenant": hostile, hostile: hostile}}
	w.Fleet.Deny(sample)
	sample.ID, sample.Allowed, sample.Status = "hostile-allowed", true, http.StatusOK
	w.Fleet.Allowed = append([]history.Request{sample}, w.Fleet.Allowed...)
	w.Stats.Change(func(f *webtest.Stats) {
		f.Also = hostile
		f.Keys = append([]history.Row{{Key: hostile, Allowed: 1e6, Denied: 1e6}}, f.Keys...)
	})
	w.Log.List = append([]audit.Entry{{ID: 9999, At: webtest.Now, Action: "reset", SubjectKind: "rule",
		SubjectName: hostile, Details: []byte(`{"key":"a\r\n` + "\u202e" + `b"}`)}}, w.Log.List...)
	return w
}

// visibleText fails the test unless all text that people see on a page can be seen, and is on one line. What forms send
// stays as it is.
func visibleText(t *testing.T, path string, page webtest.Page) {
	t.Helper()
	hidden := func(what, text string) {
		text = strings.Map(func(r rune) rune {
			if r == '\n' || r == '\t' {
				return ' '
			}
			return r
		}, text)
		if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !chars.Visible(r) }) ||
			strings.Contains(text, "session  ") {
			t.Errorf("%s: %s is %q", path, what, text)
		}
	}
	field := false
	z := html.NewTokenizer(strings.NewReader(page.Body))
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			return
		case html.TextToken:
			if !field {
				hidden("text", string(z.Text()))
			}
		case html.StartTagToken, html.EndTagToken:
			tag := z.Token()
			if tag.Data == "textarea" {
				field = kind == html.StartTagToken
			}
			for _, a := range tag.Attr {
				switch a.Key {
				case "title", "aria-label", "placeholder", "alt":
					hidden(a.Key, a.Val)
				}
			}
		}
	}
}

func TestShown_EveryPageShowsWhatCallersWrite(t *testing.T) {
	t.Parallel()
	w := hostileWorld(t)
	b := w.As(access.RoleAdmin)
	q := url.QueryEscape(hostile)
	for path, shows := range map[string]bool{
		"/console": true, "/console/denials": true, "/console/requests": true,
		"/console/denials?rule=charges-per-user&tenant=" + q + "&key=" + q + "&route=" + q: true,
		"/console/traffic?by=key&rule=charges-per-user":                                    true,
		"/console/traffic?by=route":                                                        true,
		"/console/traffic?by=tenant":                                                       true,
		"/console/tenants?tenant=" + q:                                                     true,
		"/console/rules/1":                                                                 false,
		"/console/rules?q=" + q:                                                            false,
		"/console/rules?q=" + url.QueryEscape("GET /"+hostile):                             false,
		"/console/keys?rule=charges-per-user&key=" + q:                                     false,
		"/console/keys?key=" + url.QueryEscape("user:"+hostile):                            false,
		"/console/keys?rule=" + q + "&key=" + q:                                            false,
		"/console/explain?denial=hostile":                                                  false,
		"/console/search?q=" + url.QueryEscape("/"+hostile):                                false,
		"/console/search?q=" + url.QueryEscape("user:"+hostile):                            false,
		"/console/search?q=event":                                                          false,
		"/console/audit":                                                                   true,
		"/console/audit?subject=" + q + "&q=" + q:                                          false,
		"/console/alerts?q=" + q + "&kind=" + q:                                            false,
		"/console/incidents?node=" + q + "&kind=" + q:                                      false,
		"/console/hot-keys":                                                                false, "/console/people": false,
		"/console/events?once=1": true, "/console/events?once=1&of=denials": true,
		"/console/events?once=1&of=traffic&by=route": true,
	} {
		page := b.Get(path)
		if page.Code >= http.StatusInternalServerError {
			t.Errorf("%s: %d", path, page.Code)
		}
		visibleText(t, path, page)
		if shows && !page.Has(strings.NewReplacer("+", "&#43;").Replace(hostileShown)) && !page.Has(hostileShown) {
			t.Errorf("%s: %d does not show the text of the caller", path, page.Code)
		}
	}
	for path, form := range map[string]url.Values{
		"/console/sign-in":       webtest.Credentials(hostile, "wrong"),
		"/console/explain":       {"method": {"GET"}, "route": {"/" + hostile}, "user": {hostile}, "attributes": {hostile}},
		"/console/search":        {"q": {"user:" + hostile}},
		"/console/keys":          {"rule": {"charges-per-user"}, "key": {hostile}},
		"/console/rules/preview": {"name": {hostile}, "route": {hostile}, "scope": {hostile}, "limit": {hostile}},
		"/console/rules":         {"name": {hostile}, "route": {hostile}, "scope": {hostile}, "reason": {hostile}},
		"/console/import":        {"text": {"rules: [{name: \"" + hostile + "\"}]\n" + hostile}},
	} {
		page := b.Post(path, form)
		if page.Code >= http.StatusInternalServerError {
			t.Errorf("%s: %d", path, page.Code)
		}
		visibleText(t, "POST "+path, page)
	}
}

func TestShown_LiveStreamsLiveOn(t *testing.T) {
	t.Parallel()
	w := hostileWorld(t)
	b := w.As(access.RoleViewer)
	for _, of := range []string{"", "?of=denials", "?of=requests", "?of=traffic&by=route", "?of=traffic&by=tenant",
		"?of=traffic&by=key&rule=charges-per-user"} {
		text, ok := message(listen(t, w, "/console/events"+of, b))
		if !ok || strings.Contains(text, "\r") || !strings.Contains(text, "%0Devent: ended%0D") {
			t.Errorf("%q: the first message is %q", of, text)
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "data:") {
				t.Errorf("%q: a line of a message is %q", of, line)
			}
		}
	}
}

func TestShown_FilesHaveNoFormulaAndNoOtherLine(t *testing.T) {
	t.Parallel()
	b := hostileWorld(t).As(access.RoleAdmin)
	for _, by := range []string{"key&rule=charges-per-user", "route", "tenant"} {
		page := b.Get("/console/traffic.csv?by=" + by)
		if !page.Has("\n'" + hostileShown + ",") {
			t.Errorf("%s: %d %q", by, page.Code, page.Body)
		}
	}
	page := b.Get("/console/audit/download?format=csv")
	if !page.Has("'"+hostileShown+",") || strings.Contains(page.Body, "\u202e") {
		t.Errorf("audit: %d %.300q", page.Code, page.Body)
	}
}

func TestShown_LinksKeepTheText(t *testing.T) {
	t.Parallel()
	page := hostileWorld(t).As(access.RoleViewer).Get("/console/traffic?by=tenant")
	if want := fmt.Sprintf(`href="/console/tenants?tenant=%s"`, url.QueryEscape(hostile)); !page.Has(want) {
		t.Errorf("no link %s", want)
	}
}

// applied returns what a browser sends for the form of filters on a page: lines of a field are joined, and all other
// ends of lines become CR LF.
func applied(t *testing.T, page webtest.Page) url.Values {
	t.Helper()
	sent, filters := url.Values{}, false
	z := html.NewTokenizer(strings.NewReader(strings.ToValidUTF8(page.Body, "\ufffd")))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return sent
		case html.StartTagToken, html.SelfClosingTagToken, html.EndTagToken:
			tag, attr := z.Token(), map[string]string{}
			for _, a := range tag.Attr {
				attr[a.Key] = a.Val
			}
			switch {
			case tag.Data == "form":
				filters = attr["class"] == "filters"
			case tag.Data != "input" || !filters || attr["name"] == "":
			case attr["type"] == "hidden":
				value := strings.NewReplacer("\r\n", "\r\n", "\r", "\r\n", "\n", "\r\n").Replace(attr["value"])
				sent.Add(attr["name"], value)
			default:
				sent.Add(attr["name"], strings.NewReplacer("\r", "", "\n", "").Replace(attr["value"]))
			}
		}
	}
}

func TestShown_ApplyingFiltersKeepsTheText(t *testing.T) {
	t.Parallel()
	b := world(t, webtest.Full).As(access.RoleViewer)
	for _, text := range []string{hostile, "user:42", "50%", "%41", " a ", "a\rb", "a\nb", "a\r\nb", "\ta%0Db%\u00a0",
		"\ufffd\xff%FF", "\x00"} {
		for _, path := range []string{"/console/denials", "/console/requests"} {
			asked := url.Values{"key": {text}, "route": {text}, "rule": {text}, "tenant": {text}}
			stream := func(q url.Values) string {
				_, rest, _ := strings.Cut(b.Get(path+"?"+q.Encode()).Body, `hx-sse:connect="`)
				address, _, _ := strings.Cut(rest, `"`)
				return address
			}
			sent := applied(t, b.Get(path+"?"+asked.Encode()))
			if want, got := stream(asked), stream(sent); got != want || !strings.Contains(want, "tenant=") {
				t.Errorf("%s: %q was applied as %q: the stream is %s, want %s", path, text, sent, got, want)
			}
		}
	}
}
