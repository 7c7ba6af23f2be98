package app

import (
	dbsql "database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/glebarez/sqlite"
	"github.com/google/go-cmp/cmp"

	"sluice/internal/database"
)

// The build that wrote a data directory still finds all of it there, its counters and figures too.
func TestDataDirectory_OfARefusedSchemaStaysAsItIs(t *testing.T) {
	t.Parallel()
	cfg := settings(t)
	n := start(t, cfg)
	n.check(`{"key":"k","limit":1,"window_ms":86400000}`)
	n.stop()
	db, err := dbsql.Open(sqlite.DriverName, cfg.Database())
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), "ALTER TABLE schema_steps RENAME TO goose_db_version")
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	// A start that goes on would read this file.
	if err := os.WriteFile(cfg.UnsentFile(), []byte("sluice figures 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := filesIn(t, cfg.DataDir)
	if _, err := tryStart(t, cfg); !errors.Is(err, database.ErrSchema) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, filesIn(t, cfg.DataDir)); diff != "" {
		t.Errorf("the refused data directory changed:\n%s", diff)
	}
}

// filesIn are the files of a directory and what is in them.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
