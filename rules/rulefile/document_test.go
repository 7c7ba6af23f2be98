package rulefile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/rules/tree"
)

// plain writes a value as JSON without quotes and lines.
func plain(v *tree.Value) string {
	var parts []string
	for i := range v.List {
		parts = append(parts, plain(&v.List[i]))
	}
	for i := range v.Members {
		parts = append(parts, v.Members[i].Name+":"+plain(&v.Members[i].Value))
	}
	switch v.Kind {
	case tree.List:
		return "[" + strings.Join(parts, " ") + "]"
	case tree.Object:
		return "{" + strings.Join(parts, " ") + "}"
	}
	return v.Text
}

func TestReadDocument_ResolvesAliasesAndMergeKeys(t *testing.T) {
	for text, want := range map[string]string{
		"a: &x 1\nb: *x\n":                                     "{a:1 b:1}",
		"a: &x {c: 1}\nb: *x\n":                                "{a:{c:1} b:{c:1}}",
		"a: &x\n  c: 1\nb: *x\n":                               "{a:{c:1} b:{c:1}}",
		"a: &x\n- 1\n- 2\nb: *x\n":                             "{a:[1 2] b:[1 2]}",
		"- &x {c: 1}\n- *x\n":                                  "[{c:1} {c:1}]",
		"- &x\n  c: 1\n- *x\n":                                 "[{c:1} {c:1}]",
		"[&x 1, *x , {a: *x }]":                                "[1 1 {a:1}]",
		"a: &x 1\nb: &x 2\nc: *x\n":                            "{a:1 b:2 c:2}",
		"a: &x {c: 1, d: 2}\nb:\n  <<: *x\n  d: 3\n":           "{a:{c:1 d:2} b:{d:3 c:1}}",
		"a: &x {c: 1, d: 2}\nb: {d: 3, <<: *x }\n":             "{a:{c:1 d:2} b:{d:3 c:1}}",
		"a: &x {c: 1}\nb: &y {c: 2, d: 3}\ne: {<<: [*x, *y ]}": "{a:{c:1} b:{c:2 d:3} e:{c:1 d:3}}",
		"# nothing\n":                                          "",
		"---\n# nothing\n":                                     "",
	} {
		v, _, err := ReadDocument([]byte(text))
		if diff := cmp.Diff(want, plain(&v)); diff != "" || err != nil {
			t.Errorf("%q: %v %s", text, err, diff)
		}
	}
	for text, want := range map[string]string{
		"a: &x [*x ]":           "there is no anchor",
		"a: *x\nb: &x 1\n":      "there is no anchor",
		"- &x a: 1\n":           "an anchor of a key is not supported",
		"<<: 1\n":               "<< needs an object",
		"a: |\n  text\n":        "block texts",
		"a: !!str 1\n":          "tags",
		"a: &x 1\n<<: {}\n<<: ": "appears twice",
		"a: \xff":               "must be valid UTF-8",
	} {
		if _, line, err := ReadDocument([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || line < 1 {
			t.Errorf("%q: line %d, %v", text, line, err)
		}
	}
}
