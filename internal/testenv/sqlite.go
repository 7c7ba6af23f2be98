package testenv

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var sqlite struct {
	sync.Mutex
	file []byte
}

// SQLiteFrom writes the file of an embedded database with content, and makes its folder. The content is a copy of the
// file that prepare makes on the first call, at a path with the same name (run the migrations there): making this file
// takes most of the time of a start. prepare must close the file before it returns. A test binary must use only one
// prepare.
func SQLiteFrom(t testing.TB, path string, prepare func(path string) error) {
	t.Helper()
	sqlite.Lock()
	defer sqlite.Unlock()
	if sqlite.file == nil {
		dir, err := os.MkdirTemp("", "sluice-schema-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		first := filepath.Join(dir, filepath.Base(path))
		if err := prepare(first); err != nil {
			t.Fatalf("prepare an embedded database: %v", err)
		}
		if sqlite.file, err = os.ReadFile(first); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, sqlite.file, 0o600)); err != nil {
		t.Fatal(err)
	}
}
