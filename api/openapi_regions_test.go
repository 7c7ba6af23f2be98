package api

import (
	"net/http"
	"testing"

	"sluice/api/decide"
	"sluice/internal/region"
)

// TestOpenAPI_ForeseesThatANodeHasNoRegions: do holds the answer to the document.
func TestOpenAPI_ForeseesThatANodeHasNoRegions(t *testing.T) {
	f := newFixture(t, nil, func(_ *decide.CheckerOptions, d *Deps) { d.Regions = nil })
	f.do(http.MethodPost, region.Path, "x").want(http.StatusNotFound)
}
