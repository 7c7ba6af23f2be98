package web_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/access"
	"sluice/internal/history"
	"sluice/web/static"
	"sluice/web/view"
	"sluice/web/webtest"
)

// maxPage is the most bytes of the HTML of a page on the wire, maxAssets that of the styles and scripts that every page
// loads, and maxFont that of its typeface.
const maxPage, maxAssets, maxFont = 40_000, 50_000, 28_000

func TestGallery_EveryPageIsSmallAndWhole(t *testing.T) {
	for _, s := range visitGallery(t) {
		page := s.page
		if page.Code >= http.StatusInternalServerError &&
			(s.Kind != webtest.Failing && s.Kind != webtest.Replica || page.Code != http.StatusServiceUnavailable) ||
			!strings.HasSuffix(page.Body, "</html>") {
			t.Errorf("%s: %d, %d bytes", s.Name, page.Code, len(page.Body))
		}
		for _, bad := range []string{" style=\"", "<style", "javascript:", " onclick=", "hx-on", "<script>"} {
			if strings.Contains(page.Body, bad) {
				t.Errorf("%s: the policy forbids %q", s.Name, bad)
			}
		}
		if size := wire([]byte(page.Body)); size > maxPage {
			t.Errorf("%s: %d bytes on the wire", s.Name, size)
		}
	}
}

func wire(body []byte) int {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body)
	_ = z.Close()
	return b.Len()
}

func TestPage_IsPackedForWhoUnderstandsIt(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	plain := b.Get("/console/rules")
	b.Header.Set("Accept-Encoding", "br, gzip;q=1.0")
	packed := b.Get("/console/rules")
	if packed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
		t.Fatalf("encodings %q and %q", packed.Header.Get("Content-Encoding"), plain.Header.Get("Content-Encoding"))
	}
	z, err := gzip.NewReader(strings.NewReader(packed.Body))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(z); err != nil || string(body) != plain.Body {
		t.Errorf("unpacked it differs: %v", err)
	}
	if got := fmt.Sprint(len(packed.Body)); got != packed.Header.Get("Content-Length") {
		t.Errorf("Content-Length %s of %s", packed.Header.Get("Content-Length"), got)
	}
}

func TestAssets_AreKeptForEver(t *testing.T) {
	w := world(t, webtest.Full)
	total := 0
	for _, name := range []string{"app.css", "forms.css", "tables.css", "figures.css", "app.js", "mark.svg",
		"vendor/htmx/htmx.min.js", "vendor/htmx/hx-sse.min.js", "vendor/inter/inter.woff2"} {
		b := w.Browser()
		b.Header.Set("Accept-Encoding", "gzip")
		page := b.Get(static.URL(name))
		if page.Code != http.StatusOK || !strings.Contains(page.Header.Get("Cache-Control"), "immutable") ||
			page.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %d %v", name, page.Code, page.Header)
		}
		if name == "vendor/inter/inter.woff2" {
			if size := len(page.Body); size > maxFont || page.Header.Get("Content-Type") != "font/woff2" {
				t.Errorf("the typeface: %d bytes of type %s", size, page.Header.Get("Content-Type"))
			}
			continue
		}
		total += len(page.Body)
	}
	if total > maxAssets {
		t.Errorf("the assets of a page are %d bytes on the wire", total)
	}
	sheet := w.Browser().Get(static.URL("app.css"))
	if !sheet.Has(`url("`+strings.TrimPrefix(static.URL("vendor/inter/inter.woff2"), static.Root)+`")`) ||
		!strings.Contains(sheet.Header.Get("Content-Security-Policy"), "font-src 'self'") {
		t.Error("the style sheet does not name the typeface as it is served")
	}
	if page := w.Browser().Get("/console/static/app.000000000000.css"); page.Code != http.StatusNotFound {
		t.Errorf("another hash: %d", page.Code)
	}
}

// TestRules_ShowWhatThisNodeDeniedWhileTheOthersAreUnknown: a node shows what it knows
// itself, and says that it is no more than that.
func TestRules_ShowWhatThisNodeDeniedWhileTheOthersAreUnknown(t *testing.T) {
	w := world(t, webtest.Full)
	w.Fleet.Change(func(l *history.Live) {
		l.Own, l.Err, l.Rules[0].Minute.Denied = true, http.ErrHandlerTimeout, 4321
	})
	page := w.As(access.RoleViewer).Get("/console/rules")
	if !page.Has(view.Count(4321), `<span class="sub">this node</span>`, `data-label="Denied/min, this node"`) ||
		page.Has("live data unavailable") {
		t.Error("the node keeps to itself what it denied")
	}
	w.Fleet.Change(func(l *history.Live) { l.Own = false })
	if page := w.As(access.RoleViewer).Get("/console/rules"); page.Has(view.Count(4321)) ||
		!page.Has("live data unavailable") {
		t.Error("old figures are shown as those of now")
	}
}

func TestRules_AreSearchedFilteredAndPaged(t *testing.T) {
	w := world(t, webtest.Full)
	b := w.As(access.RoleViewer)
	tests := []struct {
		query string
		has   []string
		not   string
	}{
		{"", []string{"charges-per-user", "100 per minute per user", "POST /v1/charges", "1–12 of 12 rules", "by ada"}, ""},
		{"?q=LOGIN", []string{"logins-per-address", "1–1 of 1 rule"}, "charges-per-user"},
		{"?mode=shadow", []string{"tighter-charges"}, "charges-per-user<"},
		{"?owner=payments", []string{"charges-per-user", "owner payments"}, "tighter-charges"},
		{"?fail_mode=closed", []string{"logins-per-address", "signups-in-all"}, "search-per-user"},
		{"?state=off", []string{"legacy-api"}, "charges-per-user"},
		{"?q=none-such", []string{"No matching rules", "Show all rules"}, "charges-per-user"},
		{"?page=99", []string{"No such page"}, "charges-per-user"},
		{"?page=-1&mode=nonsense&sort=nonsense", []string{"charges-per-user"}, ""},
		{"?q=%3Cscript%3Ealert(1)%3C/script%3E", []string{"&lt;script&gt;"}, "<script>"},
	}
	for _, tt := range tests {
		page := b.Get("/console/rules" + tt.query)
		if page.Code != http.StatusOK || !page.Has(tt.has...) {
			t.Errorf("%q: %d lacks one of %q", tt.query, page.Code, tt.has)
		}
		if tt.not != "" && strings.Contains(page.Body, tt.not) {
			t.Errorf("%q: shows %q", tt.query, tt.not)
		}
	}
	w.Rules.List = webtest.ManyRules(1000)
	page := b.Get("/console/rules?page=2&q=per")
	next := "/console/rules?" + url.Values{"page": {"3"}, "q": {"per"}}.Encode()
	if !page.Has(strings.ReplaceAll(next, "&", "&amp;"), `rel="prev"`) {
		t.Errorf("page 2 does not lead to %s", next)
	}
}

func TestOverview_SaysWhatIsWrong(t *testing.T) {
	if page := world(t, webtest.Failing).As(access.RoleViewer).Get("/console"); !page.Has(
		"Redis is unreachable", "The rules database is unreachable", "live data unavailable", "not reporting",
		"10.0.0.7:6379", "Redis, shared by all nodes") {
		t.Error("a failing fleet is not told")
	}
	page := world(t, webtest.Full).As(access.RoleViewer).Get("/console")
	if page.Has("notice bad") || page.Has("notice warn") ||
		!page.Has("healthy", "This node keeps rules in a file", "7 rules") {
		t.Error("a healthy node is not told")
	}
}

func TestTheme_IsRememberedAndComesBack(t *testing.T) {
	b := world(t, webtest.Full).As(access.RoleViewer)
	if page := b.Post("/console/theme", url.Values{"theme": {"dark"}, "back": {"/console/rules?q=a"}}); page.Header.Get(
		"Location") != "/console/rules?q=a" {
		t.Errorf("came back to %q", page.Header.Get("Location"))
	}
	if page := b.Get("/console"); !page.Has(`data-theme="dark"`) {
		t.Error("not dark")
	}
	b.Post("/console/theme", url.Values{"theme": {`"><script>`}, "back": {"https://evil.example"}})
	if page := b.Get("/console"); !page.Has(`data-theme="dark"`) {
		t.Error("a theme that is none was taken")
	}
}
