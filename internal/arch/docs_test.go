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

// docLink matches a link of Markdown to a file of the repository or a heading.
var (
	docLink    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	docHeading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	docFence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	notInSlugs = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings returns the anchors of a page.
func headings(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // a page of this repository
	if err != nil {
		t.Fatal(err)
	}
	anchors := map[string]bool{}
	for _, m := range docHeading.FindAllStringSubmatch(docFence.ReplaceAllString(string(text), ""), -1) {
		anchors[strings.ReplaceAll(notInSlugs.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return anchors
}

// Every link of the documentation to a file or a heading leads there.
func TestDocs_LinksLeadSomewhere(t *testing.T) {
	var pages []string
	for _, page := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"} {
		pages = append(pages, filepath.Join(top, page))
	}
	for _, dir := range []string{"docs", "deploy", "bench", "clients"} {
		if err := filepath.WalkDir(filepath.Join(top, dir), func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	links := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range docLink.FindAllStringSubmatch(docFence.ReplaceAllString(string(text), ""), -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, ":") { // elsewhere
				continue
			}
			links++
			file := page
			if target != "" {
				file = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if anchor != "" && strings.HasSuffix(file, ".md") && !headings(t, file)[anchor] {
				t.Errorf("%s links to %s, which has no such heading", page, m[1])
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links found: have the pages changed their form?", links)
	}
}

// The glossary has each word once, in order, with a meaning of one line and a link.
func TestGlossary_IsInOrderAndLinks(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(top, "docs", "glossary.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`).FindAllStringSubmatch(string(text), -1)
	if len(rows) < 60 {
		t.Fatalf("the glossary has %d words", len(rows))
	}
	before := ""
	for _, row := range rows[1:] {
		word := strings.ToLower(strings.Trim(row[1], "`"))
		if word <= before {
			t.Errorf("%s stands after %s", word, before)
		}
		if !docLink.MatchString(row[3]) {
			t.Errorf("%s has no link", word)
		}
		before = word
	}
}
