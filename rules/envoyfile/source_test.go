package envoyfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit_UndoesJoin(t *testing.T) {
	for _, files := range [][]Source{
		{{Name: "a.yaml", Data: []byte("domain: a\n")}},
		{
			{Name: "a.yaml", Data: []byte("domain: a\n---\n# comment\ndomain: b\n")},
			{Name: "dir/b c.yaml", Data: []byte("---\ndomain: c\n")},
		},
		{{Name: "a.yaml", Data: []byte("\n")}, {Name: "b.yaml", Data: []byte("---\n\n---\n")}},
	} {
		if diff := cmp.Diff(files, Split(Join(files))); diff != "" {
			t.Error(diff)
		}
	}
	if got := Split(Join([]Source{{Name: "a\nb", Data: []byte("x")}, {}})); len(got) != 2 || got[0].Name != "a?b" ||
		got[1].Name != "-" {
		t.Errorf("names that do not fit one line: %q", got)
	}
	for _, plain := range []string{"", "domain: a\n", "---\ndomain: a\n---\ndomain: b", "# Source: x\ndomain: a\n"} {
		if got := Split([]byte(plain)); len(got) != 1 || got[0].Name != "" || string(got[0].Data) != plain {
			t.Errorf("%q: %q", plain, got)
		}
	}
}

// TestParse_IsBounded: a few kilobytes of aliases and documents must not take a minute or a gigabyte.
func TestParse_IsBounded(t *testing.T) {
	double := "domain: d\nx0: &x0 [{key: a}]\n"
	for i := range 40 {
		double += fmt.Sprintf("x%d: &x%d [*x%d, *x%d]\n", i+1, i+1, i, i)
	}
	deeper := "domain: d\nname: &a0 b\n" // by aliases of a value that is deep itself
	for i := range 50 {
		deeper += fmt.Sprintf("metadata%d: &a%d [[[*a%d]]]\n", i, i+1, i)
	}
	patterns := "domain: d\ndescriptors:\n"
	for i := range 6_500 {
		patterns += fmt.Sprintf("- {key: a, value: %d*}\n", i+10_000)
	}
	many := "name: &l ["
	for i := range 5000 {
		many += fmt.Sprintf("{key: a%d},", i)
	}
	many += "]\ndescriptors: [{key: b, value: '*'}"
	for i := range 30 { // all of which the first pattern covers
		many += fmt.Sprintf(",{key: b, value: '*%d', descriptors: *l }", i)
	}
	documents := ""
	for i := range 4 {
		documents += fmt.Sprintf("---\ndomain: d%d\n%s]\n", i, many)
	}
	for name, test := range map[string]struct{ file, want string }{
		"aliases of aliases": {double, "the aliases expand to more than"},
		"members":            {"domain: {" + strings.Repeat("a: &a {b: c},", 100) + "}", "appears twice"},
		"depth":              {"domain: " + strings.Repeat("[", 200), "nested more than 100 deep"},
		"depth of aliases":   {deeper, "the aliases are nested more than 100 deep"},
		"parts":              {"domain: [" + strings.Repeat("a,", 400_000), "too many parts at line 1; it can have about"},
		"documents":          {strings.Repeat("---\ndomain: d\n", 10_001), "more than 10000 documents"},
		"empty documents":    {strings.Repeat("...\n", 4<<20), "more than 10000 documents"},
		"patterns":           {patterns, "too many patterns of one key"},
		"many documents":     {documents, "has more than 300000 descriptors"},
		"problems": {"domain: d\ndescriptors: [" + strings.Repeat("{key: ''},", 10_000) + "]",
			"more problems than are listed"},
		"a document too long": {"domain: d" + strings.Repeat(" ", 17<<20), "bytes (16 MiB) at line 1: split its"},
	} {
		_, err := Parse([]Source{{Data: []byte(test.file)}}, Options{MergeDomains: true})
		if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 100_000 {
			t.Errorf("%s: %.1000v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("domain: a\ndescriptors:\n- {key: b, value: 'c*', rate_limit: {unit: day, requests_per_unit: 5}}\n"))
	f.Add([]byte("---\n# Source: x\na: &a [*a]\n---\n# Source: y\n<<: {domain: d}\nb: &b {c: d}\ne: [*b, *b]\n"))
	f.Add([]byte("domain: d\ndescriptors: &l\n- &x {key: a}\n- <<: *x\n  value: b\n  descriptors: *l\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		files := Split(data)
		in, err := Parse(files, Options{MergeDomains: true})
		if err != nil {
			return
		}
		plan, err := in.Plan(nil, false)
		if err != nil {
			return
		}
		again, err := in.Plan(plan.Create, false)
		if err != nil || !again.Empty() {
			t.Errorf("importing again: %v %s", err, again.String())
		}
	})
}
