package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	gosqlite "github.com/glebarez/go-sqlite"
	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"sluice/internal/tick"
)

// sqliteReaders is the number of read connections; WAL lets them continue while the one writer
// writes.
const sqliteReaders = 4

// openSQLite creates the file if it is missing, and opens a write pool and a read pool on it.
func (d *DB) openSQLite(ctx context.Context, path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	if err := makeOwnFile(abs); err != nil {
		return err
	}
	// Waiting for another process's write stays under a call's deadline, so that
	// the answer is "busy" and not a call that was cut off.
	busy := d.callTimeout * 4 / 5
	pragmas := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), // first: the others may have to wait
		"synchronous(FULL)",
		"foreign_keys(ON)",
	}}
	d.writers = make(chan struct{}, 1)
	d.write, err = openSQLitePool(ctx, abs, pragmas, "immediate", 1)
	if err != nil {
		return err
	}
	if err := switchToWAL(ctx, d.write, busy); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", abs, err), closePool(d.write))
	}
	pragmas.Add("_pragma", "query_only(ON)")
	d.read, err = openSQLitePool(ctx, abs, pragmas, "deferred", sqliteReaders)
	if err != nil {
		return errors.Join(err, closePool(d.write))
	}
	return nil
}

// walRetry is the delay before a failed switch to WAL is retried.
const walRetry = 5 * time.Millisecond

// switchToWAL switches the file to write-ahead logging, which the file stores. SQLite does not
// apply busy_timeout here: of two connections that read an empty file and then both want to
// switch, one fails immediately, because neither could continue if both waited. So a busy switch
// is retried until patience is over.
func switchToWAL(ctx context.Context, g *gorm.DB, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := g.WithContext(ctx).Exec("PRAGMA journal_mode(WAL)").Error
		var lite *gosqlite.Error
		if !errors.As(err, &lite) || lite.Code()&0xff != sqliteBusy {
			return err
		}
		if !tick.Wait(ctx, walRetry) {
			return err
		}
	}
}

func openSQLitePool(ctx context.Context, path string, pragmas url.Values, txlock string, conns int) (*gorm.DB, error) {
	query := url.Values{"_pragma": pragmas["_pragma"], "_txlock": {txlock}}
	dsn := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}
	pool, err := sql.Open(sqlite.DriverName, dsn.String())
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(conns)
	pool.SetMaxIdleConns(conns)
	if err := pool.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), pool.Close())
	}
	g, err := wrapPool(sqlite.Dialector{Conn: pool})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), pool.Close())
	}
	return g, nil
}

// makeOwnFile creates the folder and the file, readable only by their owner; SQLite gives its side
// files the same mode. It never opens an existing file: closing it would drop the locks of this
// process.
func makeOwnFile(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return os.Chmod(path, 0o600)
	}
	if err != nil {
		return err
	}
	return f.Close()
}
