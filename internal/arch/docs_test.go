package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// sourceFile matches a file of the program in the documents.
var sourceFile = regexp.MustCompile("`([a-z0-9_/]+\\.(?:go|lua|templ))`")

// TestArchitecture_NamesExistingFiles checks that each path and each bare name of a file in
// the document exists.
func TestArchitecture_NamesExistingFiles(t *testing.T) {
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
			t.Errorf("docs/architecture.md names %s, which does not exist", m[1])
		}
	}
}
