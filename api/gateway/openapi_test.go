package gateway

import (
	"slices"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	"sluice"
)

func TestOpenAPI_ListsExactlyThePathsOfTheFaces(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(sluice.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for path, item := range doc.Paths.Map() {
		if op := item.Get; op != nil && slices.Contains(op.Tags, "gateways") {
			documented = append(documented, path)
		}
	}
	served := Paths()
	slices.Sort(documented)
	slices.Sort(served)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("paths (-openapi.yaml +served):\n%s", diff)
	}
}
