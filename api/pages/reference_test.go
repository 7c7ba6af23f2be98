package pages

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"sluice"
)

// reading is openapi.yaml as another library reads it.
func reading(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(sluice.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func made(t *testing.T) map[string][]byte {
	t.Helper()
	pages, err := Reference()
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// text is a page without its markup, with single spaces.
func text(page string) string {
	page = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "")
	return strings.Join(strings.Fields(html.UnescapeString(page)), " ")
}

// plain is a description as a reader sees it.
func plain(description string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(description, "`", "")), " ")
}

// Every call of the document is on the page of its tag and in the list, with what it takes and returns.
func TestReference_HasEveryCall(t *testing.T) {
	pages := made(t)
	for path, item := range reading(t).Paths.Map() {
		for method, op := range item.Operations() {
			page := string(pages[op.Tags[0]])
			_, part, ok := strings.Cut(page, `<h2 id="`+op.OperationID+`">`)
			part, _, _ = strings.Cut(part, "</section>")
			if !ok || !strings.Contains(string(pages[""]), `href="/docs/`+op.Tags[0]+`#`+op.OperationID+`"`) {
				t.Errorf("%s %s is missing", method, path)
				continue
			}
			want := []string{method + " " + path, op.Summary}
			for line := range strings.SplitSeq(op.Description, "\n\n") {
				want = append(want, plain(line))
			}
			for _, p := range append(item.Parameters, op.Parameters...) {
				want = append(want, p.Value.Name, plain(p.Value.Description))
			}
			for status, r := range op.Responses.Map() {
				want = append(want, status+" "+plain(*r.Value.Description))
				for name := range r.Value.Headers {
					want = append(want, name)
				}
				for media := range r.Value.Content {
					want = append(want, media)
				}
			}
			shown := text(part)
			for _, w := range want {
				if !strings.Contains(shown, w) {
					t.Errorf("%s %s does not say %q", method, path, w)
				}
			}
		}
	}
}

// Every schema has a section with its members, their descriptions, and which of them are required.
func TestReference_HasEverySchema(t *testing.T) {
	page := string(made(t)[SchemasName])
	for name, ref := range reading(t).Components.Schemas {
		_, part, ok := strings.Cut(page, `<h2 id="`+name+`">`)
		part, _, _ = strings.Cut(part, "</section>")
		if !ok {
			t.Errorf("%s is missing", name)
			continue
		}
		shown := text(part)
		if !strings.Contains(shown, plain(ref.Value.Description)) {
			t.Errorf("%s lacks its description", name)
		}
		for member, p := range ref.Value.Properties {
			needed := ""
			for _, r := range ref.Value.Required {
				if r == member {
					needed = ` <span class="needed">required</span>`
				}
			}
			if !strings.Contains(part, "<code>"+member+"</code>"+needed+`<span class="type">`) {
				t.Errorf("%s lacks %s", name, member)
			}
			if p.Ref == "" && !strings.Contains(shown, plain(p.Value.Description)) {
				t.Errorf("%s.%s lacks its description", name, member)
			}
		}
	}
}

var (
	links   = regexp.MustCompile(`href="([^"]*)"`)
	anchors = regexp.MustCompile(`id="([^"]*)"`)
)

// Every link leads to a page and a place that exist, and no place is there twice.
func TestReference_LinksLeadSomewhere(t *testing.T) {
	pages := made(t)
	ids := map[string]bool{}
	for name, page := range pages {
		for _, m := range anchors.FindAllStringSubmatch(string(page), -1) {
			if ids[name+"#"+m[1]] {
				t.Errorf("/docs/%s has the place %s twice", name, m[1])
			}
			ids[name+"#"+m[1]] = true
		}
	}
	for name, page := range pages {
		for _, m := range links.FindAllStringSubmatch(string(page), -1) {
			path, place, _ := strings.Cut(m[1], "#")
			target := strings.TrimPrefix(strings.TrimPrefix(path, "/docs"), "/")
			switch {
			case path == "/openapi.yaml" || path == "/problems/not-found" || strings.HasPrefix(path, "data:"):
				continue
			case path == "":
				target = name
			}
			if pages[target] == nil || place != "" && !ids[target+"#"+place] {
				t.Errorf("/docs/%s has a link to %s", name, m[1])
			}
		}
		for _, bad := range []string{"<script", "<img", " style=", " src=", "<no value>", "ZgotmplZ"} {
			if strings.Contains(string(page), bad) {
				t.Errorf("/docs/%s has %s", name, bad)
			}
		}
	}
}

// Texts of the document stay texts.
func TestReference_EscapesTexts(t *testing.T) {
	pages, err := reference([]byte(`
info: {description: "<b>x</b> ` + "`<i>`" + `"}
tags: [{name: t, description: "<u>"}]
paths:
  /a: {get: {tags: [t], operationId: a, summary: "<s>", description: "<em>", responses: {"200": {description: "<q>",
    content: {application/json: {schema: {type: object, properties: {p: {type: string, pattern: "<p>"}}},
    example: {p: "<v>"}}}}}}}
components: {schemas: {S: {type: string, description: "<h1>"}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for name, page := range pages {
		for _, tag := range []string{"<b>", "<i>", "<u>", "<s>", "<em>", "<q>", "<p>\"", "<v>"} {
			if strings.Contains(string(page), tag) {
				t.Errorf("/docs/%s has the tag %s", name, tag)
			}
		}
	}
	all := string(pages[""]) + string(pages["t"]) + string(pages[SchemasName])
	for _, escaped := range []string{"<code>&lt;i&gt;</code>", "&lt;v&gt;", "&lt;h1&gt;"} {
		if !strings.Contains(all, escaped) {
			t.Errorf("%s is missing", escaped)
		}
	}
}
