package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The notices name what is linked, each with a text of its own, and nothing that only tests need.
func TestNotices_HaveEachPartWithItsLicence(t *testing.T) {
	t.Chdir("../..")
	var out strings.Builder
	if err := write(&out, []string{"linux/amd64", "darwin/arm64"}); err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, section := range strings.Split(out.String(), "\n"+strings.Repeat("=", 80)+"\n")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		texts[name] = text
	}
	file, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/labstack/echo/v4", "github.com/redis/go-redis/v9", "gorm.io/gorm"} {
		_, version, _ := strings.Cut(string(file), want+" ")
		version, _, _ = strings.Cut(version, "\n")
		if !strings.Contains(texts[want+" "+version], "Permission is hereby granted") &&
			!strings.Contains(texts[want+" "+version], "Redistribution and use") {
			t.Errorf("%s %s has no licence", want, version)
		}
	}
	if !strings.Contains(texts["Go"], "The Go Authors") || !strings.Contains(texts["htmx"], "Zero-Clause BSD") {
		t.Error("Go or a file of the console has no licence")
	}
	for name, text := range texts {
		if len(text) < 300 || strings.Contains(name, "chromedp") || strings.HasPrefix(name, "sluice") {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
}

// A part without a licence stops the release, and so does a word that is no platform.
func TestNotices_RefuseWhatTheyDoNotKnow(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"README.md", "license.go", "unlicensed"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := licences(dir); err == nil || !strings.Contains(err.Error(), "no licence") {
		t.Errorf("a folder without a licence: %v, %v", got, err)
	}
	t.Chdir("../..")
	err := write(&strings.Builder{}, []string{"linux"})
	if err == nil || !strings.Contains(err.Error(), `"linux" is no platform`) {
		t.Errorf("a word that is no platform: %v", err)
	}
}
