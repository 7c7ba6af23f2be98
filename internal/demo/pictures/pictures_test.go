package main

import (
	"image/png"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

const docs = "../../../docs"

var shownPicture = regexp.MustCompile(`!\[([^\]]*)\]\(console/([a-z-]+)\.png\)`)

// TestDocumented_ArePicturesOfThePage keeps docs/console.md, the list of pictures
// and the files together.
func TestDocumented_ArePicturesOfThePage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docs, "console.md"))
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, found := range shownPicture.FindAllStringSubmatch(string(text), -1) {
		if shown = append(shown, found[2]); len(found[1]) < 20 {
			t.Errorf("%s: who cannot see the picture learns %q", found[2], found[1])
		}
	}
	for i := range documented {
		if name := documented[i].Name; !slices.Contains(shown, name) {
			t.Errorf("docs/console.md does not show %s", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(docs, "console", "*.png"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(shown) || len(shown) != len(documented) {
		t.Errorf("%d pictures are taken, %d shown, %d there", len(documented), len(shown), len(files))
	}
	for _, name := range shown {
		checkPicture(t, name)
	}
}

func checkPicture(t *testing.T, name string) {
	t.Helper()
	f, err := os.Open(filepath.Join(docs, "console", name+".png"))
	if err != nil {
		t.Errorf("make screenshots: %v", err)
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > maxPicture {
		t.Errorf("%s is too large (%v)", name, err)
	}
	if c, err := png.DecodeConfig(f); err != nil || c.Width != pictureWidth {
		t.Errorf("%s is %d pixels wide, %v", name, c.Width, err)
	}
}
