package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/trouble"
	"sluice/rules"
)

const (
	// diskRetry is the interval at which a failing disk is tried.
	diskRetry = time.Second
	// diskRoom is the number of bytes that a trial writes: enough that a few changes fit
	// afterwards.
	diskRoom = 64 << 10
)

var unwritable = trouble.Declare(trouble.Condition{Code: "rules_database_unwritable",
	Advice: "free space on the disk that has the file", Of: "file", Severe: true,
	Starts: "the rules database cannot be written; changes are refused until the disk accepts writes again",
	Ends:   "the rules database can be written again",
	Banner: "The rules database cannot be written: its disk is full or failing. Changes are refused."})

// disk tracks whether the disk under the SQLite file failed a write, and notices when writing
// works again.
type disk struct {
	mu     sync.Mutex
	failed bool
	// attempt writes as much as a change needs.
	attempt func(context.Context) error
	retry   time.Duration
}

// classify is the function classify, and also notices a failing disk.
func (d *DB) classify(ctx context.Context, err error) error {
	err = classify(ctx, err)
	if errors.Is(err, rules.ErrDiskFull) || errors.Is(err, rules.ErrDiskFailing) {
		d.diskFailed(err)
	}
	return err
}

// diskFailed logs the start of an outage and starts waiting for its end.
func (d *DB) diskFailed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.disk.mu.Lock()
	defer d.disk.mu.Unlock()
	if d.disk.failed || d.stopped.Err() != nil {
		return
	}
	d.disk.failed = true
	d.trouble.Note(unwritable, d.dsn, err)
	d.listeners.Go(d.awaitDisk)
}

// awaitDisk returns at the end of the outage, or when the database is closed.
func (d *DB) awaitDisk() {
	tick := time.NewTicker(d.disk.retry)
	defer tick.Stop()
	for {
		select {
		case <-d.stopped.Done():
			return
		case <-tick.C:
		}
		ctx, cancel := context.WithTimeout(d.stopped, d.callTimeout)
		err := d.disk.attempt(ctx)
		cancel()
		if err == nil {
			break
		}
	}
	d.disk.mu.Lock()
	d.disk.failed = false
	d.disk.mu.Unlock()
	d.trouble.Clear(unwritable, d.dsn)
}

// tryDisk writes a file next to the database, removes it, and then writes existing content to the database again.
func (d *DB) tryDisk(ctx context.Context) error {
	f, err := os.CreateTemp(filepath.Dir(d.dsn), filepath.Base(d.dsn)+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, diskRoom))
	if err := errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name())); err != nil {
		return err
	}
	return d.write.WithContext(ctx).Exec("UPDATE versions SET name = name").Error
}

// diskError returns the kind of a SQLite error about a failing disk, nil for other errors.
func diskError(code int) error {
	switch code & 0xff {
	case sqliteFull:
		return rules.ErrDiskFull
	case sqliteIOErr:
		return rules.ErrDiskFailing
	}
	return nil
}

func diskUnavailable(kind, err error) error {
	return fmt.Errorf("%w: %w: %w", rules.ErrUnavailable, kind, err)
}
