package testenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindBinary_NamesThePackageOfAMissingProgram(t *testing.T) {
	_, err := findBinary("no-such-server", "some-package", filepath.Join(t.TempDir(), "*", "no-such-server"))
	if err == nil || !strings.Contains(err.Error(), "some-package") || !strings.Contains(err.Error(), "make deps") {
		t.Errorf("error = %v, want the package and the command that installs it", err)
	}
}

func TestFindBinary_TakesTheNewestOutsidePath(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"14", "15"} {
		if err := os.MkdirAll(filepath.Join(dir, version), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, version, "only-here"), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := findBinary("only-here", "some-package", filepath.Join(dir, "*", "only-here"))
	if want := filepath.Join(dir, "15", "only-here"); err != nil || got != want {
		t.Errorf("findBinary = %q, %v, want %q", got, err, want)
	}
}
