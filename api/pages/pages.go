package pages

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"sync"

	"sluice/api/reply"
)

//go:embed *.html style.css
var files embed.FS

var style, templates = load()

func load() (string, *template.Template) {
	css, err := files.ReadFile("style.css")
	if err != nil {
		panic(err) // embedded files are always there
	}
	t := template.New("").Funcs(template.FuncMap{
		"style":      func() template.CSS { return template.CSS(css) }, //nolint:gosec // it is part of the program
		"paragraphs": paragraphs, "prose": prose, "title": title,
	})
	return string(css), template.Must(t.ParseFS(files, "*.html"))
}

// policy allows the pages their own style sheet and nothing else.
var policy = func() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
}()

// SetHeaders sets the headers that make browsers treat a page safely.
func SetHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
}

// Problems returns the pages of the kinds of problems by their names. It is safe for concurrent use.
var Problems = sync.OnceValues(func() (map[string][]byte, error) {
	pages := map[string][]byte{}
	for i := range reply.Table() {
		d := &reply.Table()[i]
		page, err := render("problem.html", map[string]any{"This": d, "All": reply.Table(), "Example": ExampleResponse(d)})
		if err != nil {
			return nil, err
		}
		pages[d.Name] = page
	}
	return pages, nil
})

func render(name string, data any) ([]byte, error) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return page.Bytes(), nil
}

// ExampleResponse writes out a response with a problem of a kind.
func ExampleResponse(d *reply.Description) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\nContent-Type: %s\n", d.Status, http.StatusText(d.Status), reply.ProblemType)
	if d.Header != "" {
		b.WriteString(d.Header + "\n")
	}
	b.WriteByte('\n')
	if err := json.Indent(&b, []byte(d.Example), "", "  "); err != nil {
		panic(err) // a test reads each example
	}
	return b.String()
}

// paragraphs are the paragraphs of a description.
func paragraphs(text string) []string {
	return strings.Split(strings.TrimSpace(text), "\n\n")
}

// prose is a text as HTML: what stands between two backquotes is code.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String()) //nolint:gosec // every part is escaped
}

// title is a name with a capital letter.
func title(name string) string {
	if name == "" {
		return ""
	}
	return strings.ToUpper(name[:1]) + name[1:]
}
