package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/api/pages"
	"sluice/api/reply"
	"sluice/internal/access"
)

var update = flag.Bool("update", false, "write docs/errors.md anew")

// browser is the Accept of a browser.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

func TestProblems_EachHasAPage(t *testing.T) {
	f := newFixture(t, nil)
	f.token = ""
	names, titles := map[string]bool{}, map[string]bool{}
	for _, d := range reply.Table() {
		if names[d.Name] || titles[d.Title] {
			t.Errorf("%s: the name or the title is there twice", d.Name)
		}
		names[d.Name], titles[d.Title] = true, true
		for what, text := range map[string]string{"meaning": d.Meaning, "cause": d.Cause, "action": d.Action} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: the %s is no sentence: %q", d.Name, what, text)
			}
		}
		path := "/problems/" + d.Name
		if !d.Denial() && d.Type != path {
			t.Errorf("%s has the type %s", d.Name, d.Type)
		}
		a := f.do(http.MethodGet, path, "").want(http.StatusOK)
		var got problemType
		if err := json.Unmarshal([]byte(a.body), &got); err != nil || got.Name != d.Name || got.Type != d.Type ||
			got.Title != d.Title || got.Status != d.Status || got.Meaning != d.Meaning || got.Cause != d.Cause ||
			got.Action != d.Action || string(got.Example) != d.Example {
			t.Errorf("%s: %v %s", path, err, a.body)
		}
		schema := loadDocument(t).Components.Schemas["Problem"]
		if d.Denial() {
			schema = loadDocument(t).Components.Schemas["Denial"]
		}
		if err := visit(schema.Value, d.Example); err != nil {
			t.Errorf("the example of %s is none of its schema: %v", d.Name, err)
		}
		page := f.do(http.MethodGet, path, "", "Accept", browser).want(http.StatusOK).body
		for _, want := range []string{"<h1>" + d.Title + "</h1>", "<code>" + d.Name + "</code>", d.Meaning,
			"HTTP/1.1 " + fmt.Sprint(d.Status), `<a href="` + d.Name + `" aria-current="page">`} {
			if !strings.Contains(page, want) {
				t.Errorf("%s as HTML has no %s", path, want)
			}
		}
	}
}

func TestProblems_DocumentAndTableHaveTheSameTypes(t *testing.T) {
	want := map[string][]string{}
	for _, d := range reply.Table() {
		schema := "Problem"
		if d.Denial() {
			schema = "Denial"
		}
		want[schema] = append(want[schema], d.Type)
	}
	for schema, types := range want {
		var got []string
		p := loadDocument(t).Components.Schemas[schema].Value.Properties["type"].Value
		known, _ := p.Extensions["x-extensible-enum"].([]any)
		for _, v := range known {
			got = append(got, fmt.Sprint(v))
		}
		slices.Sort(got)
		slices.Sort(types)
		if diff := cmp.Diff(got, types); diff != "" {
			t.Errorf("types of %s (-openapi.yaml +table):\n%s", schema, diff)
		}
	}
}

// A path of a problem in the code comes from the table. What callers, documents and pages name is in it.
func TestProblems_NoOtherTypeIsNamed(t *testing.T) {
	literal := regexp.MustCompile(`/problems/([a-z][a-z0-9-]*)`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != ".." && strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.Contains([]string{".go", ".py", ".js", ".ts", ".md", ".yaml"}, filepath.Ext(name)) ||
			name == "CHANGELOG.md" || strings.HasSuffix(name, "_test.go") ||
			strings.Contains(filepath.ToSlash(filepath.Dir(path)), "/test") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range literal.FindAllSubmatch(text, -1) {
			if reply.Find(string(m[1])) == nil {
				t.Errorf("%s names %s, which the table lacks", path, m[0])
			}
			// The client is a package that others import without the service.
			if filepath.Ext(name) == ".go" && !strings.Contains(filepath.ToSlash(path), "api/client/") {
				t.Errorf("%s writes out %s: take it from the table", path, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProblems_AcceptChoosesTheForm(t *testing.T) {
	f := newFixture(t, nil)
	f.token = ""
	for accept, html := range map[string]bool{
		"": false, "*/*": false, "application/json": false, "application/problem+json": false, "image/png": false,
		"text/html": true, browser: true, "text/*": true, "TEXT/HTML; charset=utf-8": true,
		"text/html;q=0.5, application/json": false, "application/json;q=0.5, text/html;q=0.6": true,
		"text/html, application/json": false, "*/*, application/json;q=0.1": true, "text/html;q=0": false,
		"text/html;q=x": false, ";;,": false,
	} {
		a := f.do(http.MethodGet, "/problems/stale", "", "Accept", accept).want(http.StatusOK)
		media := "application/json"
		if html {
			media = "text/html; charset=utf-8"
		}
		if a.header.Get("Content-Type") != media || a.header.Get("Vary") != "Accept" ||
			a.header.Get("Cache-Control") != "public, max-age=3600" || a.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("Accept %q: %v, want %s", accept, a.header, media)
		}
		head := f.do(http.MethodHead, "/problems/stale", "", "Accept", accept).want(http.StatusOK)
		if head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(a.body)) ||
			head.header.Get("Content-Type") != media {
			t.Errorf("HEAD with %q: %v, %q", accept, head.header, head.body)
		}
	}
}

func TestProblems_AnUnknownNameIsAProblem(t *testing.T) {
	f := newFixture(t, nil)
	f.token = ""
	for _, name := range []string{"nothing", "Stale", "stale%20", "%2e%2e", "stale.html"} {
		a := f.do(http.MethodGet, "/problems/"+name, "", "Accept", browser).want(http.StatusNotFound)
		if a.header.Get("Content-Type") != reply.ProblemType || !strings.Contains(a.body, `"/problems/not-found"`) ||
			a.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v %s", name, a.header, a.body)
		}
	}
}

// Proxies, names of other hosts, and links on other web sites lead to the pages as well, also before the first token.
func TestProblems_AreOpenToEveryone(t *testing.T) {
	for _, token := range []bool{false, true} {
		f := newFixture(t, nil)
		if token {
			_, tok := newToken(f, nil)
			f.access.Store(access.NewKeyring([]access.Token{tok}))
		}
		f.token, f.host = "", "sluice.example"
		f.do(http.MethodGet, "/problems/stale", "", "X-Forwarded-For", "203.0.113.7", "Sec-Fetch-Site", "cross-site").
			want(http.StatusOK)
	}
}

// The reference of the API is open to everyone too, and each of its pages has what the pages of problems have.
func TestReference_IsServedToBrowsers(t *testing.T) {
	f := newFixture(t, nil)
	f.token, f.host = "", "sluice.example"
	names, err := pages.Reference()
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range names {
		path := "/docs"
		if name != "" {
			path += "/" + name
		}
		a := f.do(http.MethodGet, path, "", "X-Forwarded-For", "203.0.113.7").want(http.StatusOK)
		if a.body != string(page) || a.header.Get("Content-Type") != "text/html; charset=utf-8" ||
			!strings.Contains(a.header.Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	a := f.do(http.MethodGet, "/docs/nothing", "").want(http.StatusNotFound)
	if a.header.Get("Content-Type") != reply.ProblemType || a.header.Get("Cache-Control") != "no-store" ||
		!strings.Contains(a.body, "GET /docs lists its pages") {
		t.Errorf("an unknown page: %v %s", a.header, a.body)
	}
}

var styleBlock = regexp.MustCompile(`(?s)<style>(.*?)</style>`)

// A browser applies only the style sheet whose hash the policy names.
func TestProblems_ThePolicyAllowsTheStyleSheet(t *testing.T) {
	a := newFixture(t, nil).do(http.MethodGet, "/problems/stale", "", "Accept", browser).want(http.StatusOK)
	style := styleBlock.FindStringSubmatch(a.body)
	if style == nil {
		t.Fatal("the page has no style sheet")
	}
	sum := sha256.Sum256([]byte(style[1]))
	if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(
		a.header.Get("Content-Security-Policy"), want) {
		t.Errorf("the policy %q lacks %s", a.header.Get("Content-Security-Policy"), want)
	}
	if strings.Contains(a.body, "style=") || strings.Contains(a.body, "<script") {
		t.Error("the page has what the policy refuses")
	}
}

// The pages look like the console, which a node may serve beside them.
func TestProblems_ColoursAreThoseOfTheConsole(t *testing.T) {
	console, err := os.ReadFile("../web/static/app.css")
	if err != nil {
		t.Fatal(err)
	}
	style, err := os.ReadFile("pages/style.css")
	if err != nil {
		t.Fatal(err)
	}
	tokens := regexp.MustCompile(`(?m)^  --.*;$`).FindAllString(string(style), -1)
	if len(tokens) == 0 {
		t.Error("the style sheet has no tokens")
	}
	for _, token := range tokens {
		if !strings.Contains(string(console), token+"\n") {
			t.Errorf("the console has no %s", token)
		}
	}
	mark, err := os.ReadFile("../web/static/mark.svg")
	if err != nil {
		t.Fatal(err)
	}
	parts, err := os.ReadFile("pages/parts.html")
	if err != nil {
		t.Fatal(err)
	}
	_, fill, _ := strings.Cut(string(mark), ` fill="#`)
	for _, want := range []string{"fill='%23" + fill[:6], `fill="#` + fill[:6]} {
		if !strings.Contains(string(parts), want) {
			t.Errorf("the mark of the pages is not that of the console: no %s", want)
		}
	}
}

func TestProblems_DocsAreWrittenFromTheTable(t *testing.T) {
	const path = "../docs/errors.md"
	want := errorsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // documentation is for everyone
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is stale: run go test ./api -run TestProblems_Docs -update", path)
	}
}

// errorsIntro begins docs/errors.md. ' stands for a backquote.
const errorsIntro = `<!-- Written from api/reply/kinds.go by go test ./api -run TestProblems_Docs -update -->
# Errors

This page lists every error of the API. An error is a problem document
([RFC 9457](https://www.rfc-editor.org/rfc/rfc9457)). Its 'type' is a path of the API. Branch on 'type', never on the
texts. 'GET /problems/{name}' is its page: HTML for browsers, JSON otherwise, without a token.

Denials are documents for the client of a caller: the 'body' of a decision, and the body that gateways send. Their
'type' is a URI of IANA, and their pages are under the same path of the API. How clients wait is in
[for-api-consumers.md](for-api-consumers.md).

| status | name | title |
|---|---|---|
`

// errorsPage is docs/errors.md.
func errorsPage() string {
	var b strings.Builder
	b.WriteString(strings.ReplaceAll(errorsIntro, "'", "`"))
	for _, d := range reply.Table() {
		fmt.Fprintf(&b, "| %d | [%s](#%s) | %s |\n", d.Status, d.Name, d.Name, d.Title)
	}
	for _, d := range reply.Table() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n- Type: `%s`\n- Cause: %s\n- What to do: %s\n\n```http\n%s\n```\n",
			d.Name, d.Meaning, d.Type, d.Cause, d.Action, pages.ExampleResponse(&d))
	}
	return b.String()
}
