package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"sluice/internal/atomicfile"
	"sluice/internal/config"
)

// errDataDirInUse: another server holds the data directory.
var errDataDirInUse = errors.New("another sluice serve is using this data directory; stop it or choose another directory with --data-dir (SLUICE_DATA_DIR)")

// makeDataDir creates dir, readable by its owner alone, because it holds token
// hashes and counters.
func makeDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir (SLUICE_DATA_DIR): %w", err)
	}
	return nil
}

// lockDataDir keeps a second server out of dir until unlock is called or the
// process ends. Commands that only touch the rule database do not take it.
func lockDataDir(dir string) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "serve.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir (SLUICE_DATA_DIR): %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, errDataDirInUse)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// Closing gives up the lock. The file stays: removing it would let two
	// servers lock two files of one name.
	return f.Close, nil
}

// leftoverAge is how old a temporary file must be before a node removes it from
// a folder that others may write to at the same time.
const leftoverAge = time.Hour

// removeLeftovers removes the temporary files that a kill left in the data
// directory. exclusive says that no other server uses the directory.
func removeLeftovers(cfg *config.Serve, exclusive bool, now time.Time, log *slog.Logger) {
	for _, pattern := range []string{
		atomicfile.Pattern(cfg.SnapshotFile()), atomicfile.Pattern(cfg.CopyFile()), atomicfile.Pattern(cfg.OverridesFile()),
		atomicfile.Pattern(cfg.NodesFile()), atomicfile.Pattern(secretFile(cfg)), filepath.Join(queueDir(cfg), "*.new"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil { // the directory's name holds a bracket: nothing is removed
			continue
		}
		for _, path := range found {
			info, err := os.Lstat(path)
			if err != nil || !info.Mode().IsRegular() || !exclusive && now.Sub(info.ModTime()) < leftoverAge {
				continue
			}
			if err := os.Remove(path); err != nil {
				log.Warn("removing a temporary file of an earlier run failed", "file", path, "error", err)
				continue
			}
			log.Info("removed a temporary file of an earlier run", "file", path)
		}
	}
}
