package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sourceFile is a file of the program as the documents name it.
var sourceFile = regexp.MustCompile("`([a-z0-9_/]+\\.(?:go|lua|templ))`")

// TestArchitecture_NamesFilesThatThereAre: a path leads to its file, a bare name to
// one somewhere.
func TestArchitecture_NamesFilesThatThereAre(t *testing.T) {
	known := map[string]bool{}
	err := filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != top && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		}
		if rel, err := filepath.Rel(top, path); err == nil {
			known[filepath.ToSlash(rel)], known[entry.Name()] = true, true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(top, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := sourceFile.FindAllStringSubmatch(string(text), -1)
	if len(named) < 20 {
		t.Fatalf("the document names %d files", len(named))
	}
	for _, m := range named {
		if !known[m[1]] {
			t.Errorf("docs/architecture.md names %s, which is not there", m[1])
		}
	}
}
