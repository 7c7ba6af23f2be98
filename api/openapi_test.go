package api

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"sluice"
	"sluice/api/decide"
	"sluice/internal/access"
)

// document is openapi.yaml with closed answers. Clients must accept new members of answers, so the
// document leaves them open. The tests hold the server to the members that it lists.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(sluice.OpenAPI)
	if err != nil {
		return nil, err
	}
	for name, ref := range doc.Components.Schemas {
		s := ref.Value
		// The protocol of regions has members that the document does not list.
		if name != "RegionReceipt" && len(s.Properties) > 0 && s.AdditionalProperties.Has == nil {
			s.AdditionalProperties.Has = openapi3.Ptr(false)
		}
		for _, p := range s.Properties {
			if p.Value.IsEmpty() { // a value of any type, of which the validator wants to know that it can be null
				p.Value.Nullable = true
			}
		}
	}
	return doc, nil
})

func loadDocument(t testing.TB) *openapi3.T {
	t.Helper()
	doc, err := document()
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	return doc
}

func TestOpenAPI_DocumentIsValid(t *testing.T) {
	doc := loadDocument(t)
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.0.3" {
		t.Errorf("version %s, want 3.0.3", doc.OpenAPI)
	}
}

// inDocument writes a path of the router as openapi.yaml does.
func inDocument(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if name, ok := strings.CutPrefix(p, ":"); ok {
			parts[i] = "{" + name + "}"
		}
	}
	return strings.Join(parts, "/")
}

func TestOpenAPI_ListsExactlyTheRoutes(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Metrics = http.NotFoundHandler() })
	var served, documented []string
	for _, r := range f.echo.Routes() {
		if r.Method == http.MethodHead {
			continue // beside every GET
		}
		served = append(served, r.Method+" "+inDocument(r.Path))
	}
	for path, item := range loadDocument(t).Paths.Map() {
		for method, op := range item.Operations() {
			if slices.Contains(op.Tags, "gateways") { // served by package gateway
				continue
			}
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("routes (-openapi.yaml +served):\n%s", diff)
	}
}

func TestOpenAPI_PublicRoutesAreThoseWithoutSecurity(t *testing.T) {
	doc := loadDocument(t)
	for _, r := range Table() {
		op := doc.Paths.Find(inDocument(r.Path)).GetOperation(r.Method)
		public := op.Security != nil && len(*op.Security) == 0
		if public != (r.Scope == "") {
			t.Errorf("%s %s: public in openapi.yaml %v, needs scope %q", r.Method, r.Path, public, r.Scope)
		}
		optional := op.Security != nil && slices.ContainsFunc(*op.Security,
			func(r openapi3.SecurityRequirement) bool { return len(r) == 0 })
		if optional != access.OpenCall(r.Method+" "+r.Path) {
			t.Errorf("%s %s: optional in openapi.yaml %v", r.Method, r.Path, optional)
		}
		description := strings.Join(strings.Fields(op.Description), " ")
		for _, scope := range r.Scopes() {
			if !strings.Contains(description, string(scope)) {
				t.Errorf("%s %s: its description does not name the scope %s", r.Method, r.Path, scope)
			}
		}
	}
}

func TestOpenAPI_ServedAsCommitted(t *testing.T) {
	a := newFixture(t, nil).do(http.MethodGet, "/openapi.yaml", "").want(http.StatusOK)
	if a.body != string(sluice.OpenAPI) {
		t.Error("what is served differs from the file")
	}
}

// holdToDocument fails the test if an answer is not one that openapi.yaml
// allows for its operation: status, headers, media type and body.
func holdToDocument(t testing.TB, method, path string, a *answered) {
	t.Helper()
	op := findOperation(loadDocument(t), method, path)
	if op == nil {
		return
	}
	ref := op.Responses.Status(a.status)
	if a.status == http.StatusInternalServerError { // may happen anywhere, and is a problem like any other
		ref = loadDocument(t).Components.Responses["ProblemReply"]
	}
	if ref == nil {
		t.Errorf("%s %s: openapi.yaml does not foresee status %d: %s", method, path, a.status, a.body)
		return
	}
	for name, h := range ref.Value.Headers {
		if h.Value.Required && a.header.Get(name) == "" {
			t.Errorf("%s %s: answer %d lacks the header %s", method, path, a.status, name)
		}
	}
	if len(ref.Value.Content) == 0 {
		if a.body != "" {
			t.Errorf("%s %s: answer %d should have no body", method, path, a.status)
		}
		return
	}
	media, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil || ref.Value.Content[media] == nil {
		t.Errorf("%s %s: answer %d has media type %q", method, path, a.status, a.header.Get("Content-Type"))
		return
	}
	if !strings.HasSuffix(media, "json") {
		return
	}
	if err := visit(ref.Value.Content[media].Schema.Value, a.body); err != nil {
		t.Errorf("%s %s: answer %d does not fit openapi.yaml: %v\n%s", method, path, a.status, err, a.body)
	}
}

func findOperation(doc *openapi3.T, method, path string) *openapi3.Operation {
	path, _, _ = strings.Cut(path, "?")
	item, open := doc.Paths.Value(path), len(path)
	for template, candidate := range doc.Paths.Map() {
		// A path that is written out stands before one that fits as well.
		if n := strings.Count(template, "{"); n > 0 && n < open && fitsTemplate(template, path) &&
			doc.Paths.Value(path) == nil {
			item, open = candidate, n
		}
	}
	if item == nil {
		return nil
	}
	return item.GetOperation(method)
}

// fitsTemplate: each segment is the template's, or stands for a {name} of it.
func fitsTemplate(template, path string) bool {
	want, have := strings.Split(template, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, have, func(w, h string) bool { return w == h || strings.HasPrefix(w, "{") && h != "" })
}

func visit(schema *openapi3.Schema, text string, opts ...openapi3.SchemaValidationOption) error {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	return schema.VisitJSON(v, append(opts, openapi3.MultiErrors())...)
}
