package playbook

import (
	"context"
	"path/filepath"
	"testing"

	"sluice/internal/app"
	"sluice/internal/config"
	"sluice/internal/testenv"
)

// storage returns a directory of the test with a database that has the schema and no rules.
func storage(t *testing.T) config.Storage {
	t.Helper()
	at := config.Storage{DataDir: filepath.Join(t.TempDir(), "data")}
	testenv.SQLiteFrom(t, at.Database(), func(path string) error {
		_, err := app.MigrateUp(context.Background(), config.Storage{DataDir: filepath.Dir(path)})
		return err
	})
	return at
}
