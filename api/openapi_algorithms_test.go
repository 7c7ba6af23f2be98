package api

import (
	"regexp"
	"strings"
	"testing"

	"sluice"
	"sluice/limiter"
)

// An algorithm with a row of traits is one that clients can name. A candidate
// cannot hold slots.
func TestOpenAPI_NamesEveryAlgorithm(t *testing.T) {
	lists := regexp.MustCompile(`enum:\n((?: +- \w+\n)+)`).FindAllStringSubmatch(string(sluice.OpenAPI), -1)
	found := 0
	for _, l := range lists {
		names := strings.Fields(strings.NewReplacer("- null\n", "", "- ", " ").Replace(l[1]))
		if !strings.Contains(l[1], "- gcra\n") {
			continue
		}
		found++
		want := 0
		for _, a := range limiter.Algorithms() {
			listed := strings.Contains(l[1], "- "+a.String()+"\n")
			if !listed && !a.Traits().Slots {
				t.Errorf("a list of algorithms lacks %s: %v", a, names)
			}
			if listed {
				want++
			}
		}
		if want != len(names) {
			t.Errorf("a list of algorithms has others too: %v", names)
		}
	}
	if found == 0 {
		t.Error("openapi.yaml lists no algorithms")
	}
}
