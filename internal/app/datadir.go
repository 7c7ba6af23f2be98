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
	"sluice/internal/localtoken"
)

// errDataDirInUse means that another server uses the data directory.
var errDataDirInUse = errors.New("another sluice serve is using this data directory; stop it or choose another " +
	"directory with --data-dir (SLUICE_DATA_DIR)")

// createDataDir creates dir with access for its owner only, because it contains token
// hashes and counters.
func createDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--data-dir (SLUICE_DATA_DIR): %w", err)
	}
	return nil
}

// ownersOnly are the permissions that a data directory gives to nobody but its owner: to enter it, and to write to it.
const ownersOnly = 0o033

// warnOfOpenDataDir logs that others may enter the data directory or write to it. createDataDir gives a new one to its
// owner only, but does not change one that exists.
func warnOfOpenDataDir(dir string, log *slog.Logger) {
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm()&ownersOnly == 0 {
		return // a directory that does not exist yet is created with the right mode
	}
	log.Warn("others may enter the data directory or write to it: it contains token hashes, counters and rules",
		"dir", dir, "mode", fmt.Sprintf("%04o", info.Mode().Perm()), "advice", "chmod 700 "+dir)
}

// lockDataDir keeps other servers from using dir until unlock is called or the process
// ends. Commands that only use the rules database do not lock it.
func lockDataDir(dir string) (unlock func() error, err error) {
	return lockDir(dir, "--data-dir (SLUICE_DATA_DIR)", errDataDirInUse)
}

// lockDir is lockDataDir for the directory of a setting, with the error of a directory that is in use.
func lockDir(dir, setting string, inUse error) (unlock func() error, err error) {
	f, err := os.OpenFile(filepath.Join(dir, "serve.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("%s: %w", dir, inUse)
		}
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	// Close releases the lock. The file stays: if it were removed, two servers could lock
	// two files with the same name.
	return f.Close, nil
}

// leftoverAge is the minimum age at which a node removes a temporary file from a
// directory that other processes may write to.
const leftoverAge = time.Hour

// removeLeftovers removes temporary files of killed processes from the data directory.
// exclusive means that no other server uses the directory.
func removeLeftovers(cfg *config.Serve, exclusive bool, now time.Time, log *slog.Logger) {
	for _, pattern := range []string{
		atomicfile.Pattern(cfg.SnapshotFile()), atomicfile.Pattern(cfg.CopyFile()), atomicfile.Pattern(cfg.OverridesFile()),
		atomicfile.Pattern(cfg.NodesFile()), atomicfile.Pattern(cfg.UnsentFile()), atomicfile.Pattern(secretFile(cfg)),
		atomicfile.Pattern(localtoken.Path(cfg.DataDir)), filepath.Join(queueDir(cfg), "*.new"),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil { // the name of the directory contains a bracket; nothing is removed
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
