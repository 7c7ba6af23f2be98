package page

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSplice_ReplacesOnlyItsOwnPart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	const before = "a\n<!-- written by make one: begin x -->\n<!-- written by make one: end x -->\nb\n" +
		"<!-- written by make two: begin x -->\n\nold\n\n<!-- written by make two: end x -->\nc\n"
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first\n", "new\n"} {
		if err := Splice(file, "two", "x", text); err != nil {
			t.Fatal(err)
		}
	}
	const want = "a\n<!-- written by make one: begin x -->\n<!-- written by make one: end x -->\nb\n" +
		"<!-- written by make two: begin x -->\n\nnew\n\n<!-- written by make two: end x -->\nc\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("got %q, %v", got, err)
	}
	if Splice(file, "two", "y", "new") == nil {
		t.Error("a page without the marks is accepted")
	}
}
