package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRecipes_EveryFileIsValid(t *testing.T) {
	files, err := filepath.Glob("../../deploy/recipes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recipes: %v", err)
	}
	for _, file := range files {
		if code, out, errs := sluice(t, "", "rules", "validate", "-f", file); code != exitDone ||
			!strings.Contains(out, "is valid") {
			t.Errorf("%s: %d, %q, %q", file, code, out, errs)
		}
	}
}
