package rulefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"sluice/rules"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// manyRules is a file of n rules with what people write in descriptions.
func manyRules(n int) rules.File {
	f := rules.File{Pools: []rules.Pool{rules.NewPool()}}
	f.Pools[0].Name, f.Pools[0].Limit, f.Pools[0].WindowMS = "shop", 10, 1000
	for i := range n {
		r := rules.Rule{Name: fmt.Sprintf("r%06d", i), Scope: "user", Limit: int64(i), WindowMS: 1000, IsActive: true,
			Description: fmt.Sprintf("- no. %d: \"quoted\", #no comment, rules: - name: x and {more} of it, so that files grow",
				i)}
		if i%3 == 0 {
			limit := int64(7)
			r.Tiers = map[string]rules.TierLimit{"free": {Limit: &limit}}
		}
		r.Normalize()
		f.Rules = append(f.Rules, r)
	}
	return f
}

// TestParse_LongFilesReadAsShortOnes: an export of any length can be imported,
// and what is wrong is named with its line.
func TestParse_LongFilesReadAsShortOnes(t *testing.T) {
	want := manyRules(6000)
	text, err := Format(want)
	if err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(struct {
		Pools []rules.Pool `json:"pools"`
		Rules []rules.Rule `json:"rules"`
	}{want.Pools, want.Rules})
	if err != nil {
		t.Fatal(err)
	}
	if len(text) <= maxWhole || len(asJSON) <= maxWhole {
		t.Fatalf("%d and %d bytes are no long files", len(text), len(asJSON))
	}
	crlf := []byte(strings.ReplaceAll("\ufeff# a comment\n---\n"+string(text)+"\n# the end\n...\n", "\n", "\r\n"))
	for name, data := range map[string][]byte{"YAML": text, "JSON": asJSON, "YAML of another editor": crlf} {
		got, err := Parse(data)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got, cmpopts.IgnoreFields(rules.Rule{}, "FailFrom")); d != "" {
			t.Errorf("%s: %.500s", name, d)
		}
	}

	// What is wrong stands at the end of a file that comments make long.
	few, err := Format(manyRules(60))
	if err != nil {
		t.Fatal(err)
	}
	filling := strings.Repeat("# "+strings.Repeat("filling ", 128)+"\n", maxWhole>>10)
	lines := strings.SplitAfter(filling+string(few), "\n")
	bad := func(edit func(lines []string) []string) error {
		_, err := Parse([]byte(strings.Join(edit(append([]string(nil), lines...)), "")))
		return err
	}
	at := len(lines) - 3
	for at > 0 && !strings.Contains(lines[at], "window_ms:") {
		at--
	}
	for name, tc := range map[string]struct {
		edit func([]string) []string
		want string
	}{
		"a wrong value": {func(l []string) []string { l[at] = "    window_ms: soon\n"; return l },
			fmt.Sprintf("rules[58].window_ms must be a whole number, not text; (line %d)", at+1)},
		"bad syntax": {func(l []string) []string { l[at] = "    window_ms: [1\n"; return l },
			fmt.Sprintf("line %d:", at+2)}, // where the bracket should have ended
		"a section twice": {func(l []string) []string { return append(l, "rules:\n") }, "appears twice"},
		"a section of none": {func(l []string) []string {
			return append(l[:0:0], append([]string{"pools:\n"}, strings.Repeat("# filling\n", 200_000))...)
		}, "must be a list of pools"},
		"another member": {func(l []string) []string { return append(l, "groups:\n") }, "only rules, pools and profiles"},
		"a stray line": {func(l []string) []string { return append(l, "x\n") },
			"is not allowed here in a file of more than 1 MiB"},
		"too long an element": {func(l []string) []string {
			return append(l, "  - name: "+strings.Repeat("#", 1)+"\n", strings.Repeat("    # filling\n", 100_000))
		}, "one element has more than 1 MiB"},
	} {
		err := bad(tc.edit)
		want, line, _ := strings.Cut(tc.want, "; ")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), line) {
			t.Errorf("%s: %.300v, want %q", name, err, tc.want)
		}
	}
}

// TestParse_NamesItsBounds: more rules or bytes than are allowed are told
// apart from mistakes.
func TestParse_NamesItsBounds(t *testing.T) {
	filling := strings.Repeat("# "+strings.Repeat("filling ", 128)+"\n", maxWhole>>10) // so that it is a long file
	for name, data := range map[string]string{
		"bytes":         strings.Repeat(" ", MaxFile+1),
		"rules in YAML": filling + "rules:" + strings.Repeat("\n  - {}", MaxFileRules+1),
		"rules in JSON": `{"rules": [{}` + strings.Repeat(",{}", MaxFileRules) + "]}",
	} {
		_, err := Parse([]byte(data))
		var large *TooLargeError
		if !errors.As(err, &large) {
			t.Errorf("%s: %.200v, want a *TooLargeError", name, err)
		} else if bound := map[bool]string{true: "67108864",
			false: "100000 rules"}[name == "bytes"]; !strings.Contains(err.Error(), bound) {
			t.Errorf("%s: %v does not name %s", name, err, bound)
		}
	}
}
