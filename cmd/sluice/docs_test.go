package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"sluice/internal/config"
)

var (
	shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")
	shellWord  = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)
)

// Every sluice command that the documentation shows is one that the command line
// understands.
func TestDocs_EveryCommandParses(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, pattern := range []string{"../../docs/recipes/*.md", "../../deploy/*/README.md", "../../deploy/*/*/README.md"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, more...)
	}
	for _, page := range append(pages, "../../README.md", "../../deploy/README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line, _, _ = strings.Cut(strings.TrimSpace(line), " #")
				line = strings.TrimSuffix(strings.TrimSpace(line), " &")
				args, ok := strings.CutPrefix(strings.TrimPrefix(line, "go run ./cmd/"), "sluice ")
				if !ok {
					continue
				}
				tried++
				var c cli
				parser, err := kong.New(&c, config.SecretFlags())
				if err != nil {
					t.Fatal(err)
				}
				words := shellWord.FindAllString(args, -1)
				for i := range words {
					words[i] = strings.ReplaceAll(words[i], "'", "")
				}
				if _, err := parser.Parse(words); err != nil {
					t.Errorf("%s: %q: %v", page, line, err)
				}
			}
		}
	}
	if tried < 10 {
		t.Errorf("only %d commands found: have the pages changed their form?", tried)
	}
}
