package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/capacity"
)

var update = flag.Bool("update", false, "write the plans into docs/sizes.md")

// sizeRow is a row of docs/sizes.md: before, the options, and what plan says.
var sizeRow = regexp.MustCompile("(?m)^(\\| [^|]+ \\| `(--[^`]+)` \\| )([^|]*)( \\| .*)$")

// TestSizes_SayWhatPlanSays holds docs/sizes.md to the figures. After a change of them: go test ./cmd/sluice -run Sizes
// -update, and read the page.
func TestSizes_SayWhatPlanSays(t *testing.T) {
	const path = "../../docs/sizes.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := sizeRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) < 10 {
		t.Fatalf("docs/sizes.md has %d plans", len(rows))
	}
	text := string(page)
	for _, row := range rows {
		code, out, errs := sluice(t, "", append([]string{"plan", "--json"}, strings.Fields(row[2])...)...)
		var p struct {
			Memory  float64 `json:"memory_bytes"`
			Servers int     `json:"redis_servers"`
			Cost    float64 `json:"cost_per_month"`
			Few     struct {
				Servers int     `json:"redis_servers"`
				Cost    float64 `json:"cost_per_month"`
			} `json:"few_gateways"`
		}
		if err := json.Unmarshal([]byte(out), &p); err != nil || code != exitDone {
			t.Fatalf("plan %s: %d, %s, %v", row[2], code, errs, err)
		}
		want := fmt.Sprintf("%s, %d or %d servers", capacity.Bytes(p.Memory), p.Servers, p.Few.Servers)
		if p.Cost > 0 {
			want += fmt.Sprintf(", %s or %s a month with the nodes", capacity.Number(p.Cost), capacity.Number(p.Few.Cost))
		}
		if row[3] != want && !*update {
			t.Errorf("docs/sizes.md says of %s\n%s, the plan\n%s", row[2], row[3], want)
		}
		text = strings.Replace(text, row[0], row[1]+want+row[4], 1)
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	}
}
