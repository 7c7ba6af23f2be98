package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

var (
	//go:embed problem.html
	problemHTML string
	//go:embed problem.css
	problemCSS string
)

// problemPolicy allows the pages their own style sheet and nothing else.
var problemPolicy = func() string {
	sum := sha256.Sum256([]byte(problemCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; img-src data:; " +
		"form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
}()

// problemPage is the page of one kind of problem, in both forms.
type problemPage struct{ html, json []byte }

// problemPages are the pages by the names of the kinds.
var problemPages = sync.OnceValues(func() (map[string]problemPage, error) {
	t, err := template.New("problem").Parse(problemHTML)
	if err != nil {
		return nil, fmt.Errorf("problem.html: %w", err)
	}
	pages := map[string]problemPage{}
	for i := range reply.Table() {
		d := &reply.Table()[i]
		var page, document bytes.Buffer
		err := t.Execute(&page, map[string]any{"This": d, "All": reply.Table(), "Example": exampleResponse(d),
			"Style": template.CSS(problemCSS)}) //nolint:gosec // it is part of the program
		if err != nil {
			return nil, fmt.Errorf("problem.html: %w", err)
		}
		enc := json.NewEncoder(&document)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(problemType{d.Name, d.Type, d.Title, d.Status, d.Meaning, d.Cause, d.Action,
			json.RawMessage(d.Example)}); err != nil {
			return nil, fmt.Errorf("problem type %s: %w", d.Name, err)
		}
		pages[d.Name] = problemPage{page.Bytes(), document.Bytes()}
	}
	return pages, nil
})

// problemType is the schema ProblemKind of openapi.yaml.
type problemType struct {
	Name    string          `json:"name"`
	Type    string          `json:"type"`
	Title   string          `json:"title"`
	Status  int             `json:"status"`
	Meaning string          `json:"meaning"`
	Cause   string          `json:"cause"`
	Action  string          `json:"action"`
	Example json.RawMessage `json:"example"`
}

// exampleResponse writes out a response with a problem of a kind.
func exampleResponse(d *reply.Description) string {
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

// problemPage serves what a kind of problem means, to browsers as a page.
func (s *Server) problemPage(c echo.Context) error {
	h := c.Response().Header()
	h.Set("Vary", "Accept")
	pages, err := problemPages()
	if err != nil {
		return err
	}
	page, ok := pages[c.Param("name")]
	if !ok {
		return reply.NotFound.Problem("There is no problem type of this name. The schemas Problem and Denial in " +
			"GET /openapi.yaml list every type.")
	}
	h.Set("Cache-Control", "public, max-age=3600")
	if !prefersHTML(c.Request().Header["Accept"]) {
		return write(c, http.StatusOK, jsonType, page.json)
	}
	h.Set("Content-Security-Policy", problemPolicy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	return write(c, http.StatusOK, []string{"text/html; charset=utf-8"}, page.html)
}

// prefersHTML reports whether the values of Accept give HTML a higher quality than JSON.
func prefersHTML(accept []string) bool {
	var html, plain quality
	for part := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		media, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, ok := params["q"]; ok {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		html.take(media, "text", "html", q)
		plain.take(media, "application", "json", q)
	}
	return html.q > plain.q
}

// quality is the preference for a media type: the most specific range that matches it decides.
type quality struct {
	q        float64
	specific int
}

func (best *quality) take(media, kind, sub string, q float64) {
	for i, match := range []string{"*/*", kind + "/*", kind + "/" + sub} {
		if media == match && i+1 > best.specific {
			*best = quality{q, i + 1}
		}
	}
}
