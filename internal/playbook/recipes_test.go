package playbook

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const recipes = "../../docs/recipes.md"

func TestRecipes_ThePageIsTrue(t *testing.T) { Page(t, recipes) }

func TestRecipes_ThePageIsTrueOnRedis(t *testing.T) { PageOnRedis(t, recipes) }

// The page contains every file completely, under its name.
func TestRecipes_ThePageShowsTheFiles(t *testing.T) {
	page, err := os.ReadFile(recipes)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, m := range regexp.MustCompile(
		"(?s)\\(\\.\\./deploy/recipes/([a-z-]+\\.yaml)\\)\n\n```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		shown[m[1]] = m[2]
	}
	files, err := filepath.Glob("../../deploy/recipes/*")
	if err != nil || len(files) != len(shown) || len(files) < 12 {
		t.Errorf("%d files, of which the page shows %d: %v", len(files), len(shown), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if name := filepath.Base(file); shown[name] != string(text) {
			t.Errorf("the page shows %s as\n%s", name, shown[name])
		}
	}
}
