//go:build measure

package matrix

import (
	"os"
	"strings"
	"testing"
)

// WritePart replaces the text between the two marks of a part in a page, unless its name is empty.
func WritePart(t *testing.T, page, part, text string) {
	t.Helper()
	if page == "" {
		return
	}
	begin := "<!-- written by make bench-regions: begin " + part + " -->"
	end := "<!-- written by make bench-regions: end " + part + " -->"
	old, err := os.ReadFile(page) //nolint:gosec // a page of the documentation
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks %q and %q", page, begin, end)
	}
	text = head + begin + "\n\n" + text + "\n" + end + tail
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil { //nolint:gosec // documentation
		t.Fatal(err)
	}
}
