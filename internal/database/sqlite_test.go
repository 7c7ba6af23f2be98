package database

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/glebarez/sqlite"
)

// The lock below is the one that stops a switch to WAL at once, busy_timeout or
// not: it is what two nodes meet that open a new file at the same moment.
func TestOpen_WaitsForAnotherSwitchToWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	other, err := sql.Open(sqlite.DriverName, path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	holder, err := other.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Close() }()
	if _, err := holder.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		d, err := Open(context.Background(), Options{DSN: path, CallTimeout: patience})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("opened while another connection had the file: %v", err)
	case <-time.After(50 * time.Millisecond): // long enough to have met the lock
	}
	if _, err := holder.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
}
