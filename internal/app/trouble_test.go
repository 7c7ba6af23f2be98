package app

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sluice/internal/trouble"
)

// docs/metrics.md lists exactly the conditions that a node knows, and whether each has a banner and an incident.
func TestTrouble_EveryConditionIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "\n## Trouble\n")
	text, _, _ = strings.Cut(text, "\n## ")
	listed := map[string]string{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 {
			continue
		}
		for _, code := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			listed[code[1]] = cells[3]
		}
	}
	declared := map[string]bool{}
	for _, c := range trouble.Declared() {
		declared[c.Code] = true
		cell := listed[c.Code]
		if strings.Contains(cell, "banner") != (c.Banner != "") && !strings.Contains(cell, "latter") ||
			strings.Contains(cell, "incident") != (c.Incident != "") {
			t.Errorf("%s: %q of the page is wrong: %+v", c.Code, cell, c)
		}
		if (c.Starts == "") != (c.Ends == "") {
			t.Errorf("%s is logged one way only", c.Code)
		}
	}
	if got, want := slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(declared)); !slices.Equal(got, want) {
		t.Errorf("the page has %q, a node %q", got, want)
	}
}
