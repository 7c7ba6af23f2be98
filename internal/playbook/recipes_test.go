package playbook

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recipePages returns the pages of recipes, without the one that lists them.
func recipePages(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/recipes/*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("pages of recipes: %v, %v", pages, err)
	}
	return pages
}

func TestRecipes_ThePagesAreTrue(t *testing.T) {
	for _, page := range recipePages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) { Page(t, page) })
	}
}

func TestRecipes_ThePagesAreTrueOnRedis(t *testing.T) {
	for _, page := range recipePages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) { PageOnRedis(t, page) })
	}
}

// The pages contain every file completely, under its name.
func TestRecipes_ThePagesShowTheFiles(t *testing.T) {
	shown := map[string]string{}
	for _, page := range recipePages(t) {
		for _, m := range regexp.MustCompile(
			"(?s)\\(\\.\\./\\.\\./deploy/recipes/([a-z-]+\\.yaml)\\)\n\n```yaml\n(.*?)```").FindAllStringSubmatch(read(t, page), -1) {
			shown[m[1]] = m[2]
		}
	}
	files, err := filepath.Glob("../../deploy/recipes/*")
	if err != nil || len(files) != len(shown) || len(files) < 20 {
		t.Errorf("%d files, of which the pages show %d: %v", len(files), len(shown), err)
	}
	for _, file := range files {
		if name := filepath.Base(file); shown[name] != read(t, file) {
			t.Errorf("the pages show %s as\n%s", name, shown[name])
		}
	}
}

// The list names every recipe, and every link within the pages leads somewhere.
func TestRecipes_TheListIsComplete(t *testing.T) {
	listed := links(t, "../../docs/recipes.md")
	for _, page := range recipePages(t) {
		links(t, page)
		for anchor := range anchors(read(t, page)) {
			if !listed[page+"#"+anchor] {
				t.Errorf("recipes.md does not list %s#%s", page, anchor)
			}
		}
	}
}

// links returns where a page's links within the repository lead, as file#anchor. It fails for those that lead nowhere.
func links(t *testing.T, page string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`\]\(([^):]*)\)`).FindAllStringSubmatch(read(t, page), -1) {
		file, anchor, _ := strings.Cut(m[1], "#")
		target := page
		if file != "" {
			target = filepath.Join(filepath.Dir(page), file)
		}
		found[target+"#"+anchor] = true
		if _, err := os.Stat(target); err != nil {
			t.Errorf("%s: %v", page, err)
		} else if anchor != "" && !anchors(read(t, target))[anchor] {
			t.Errorf("%s: %s has no heading %s", page, target, anchor)
		}
	}
	return found
}

// anchors returns the names by which links reach the headings of a page below the first level.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(page, -1) {
		name := regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file) //nolint:gosec // a test names its page
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
