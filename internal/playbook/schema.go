package playbook

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"sluice/internal/app"
	"sluice/internal/config"
)

// schema returns the file of a database without rules. Every server starts with a copy, because
// the steps of the schema take longer than most sections.
var schema = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "playbook")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	at := config.Storage{DataDir: dir}
	if _, err := app.MigrateUp(context.Background(), at); err != nil {
		return nil, err
	}
	return os.ReadFile(at.Database())
})

// storage returns a directory of the test that has such a database.
func storage(t *testing.T) config.Storage {
	t.Helper()
	file, err := schema()
	if err != nil {
		t.Fatal(err)
	}
	at := config.Storage{DataDir: filepath.Join(t.TempDir(), "data")}
	if err := os.Mkdir(at.DataDir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at.Database(), file, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}
