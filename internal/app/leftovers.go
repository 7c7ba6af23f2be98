package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"sluice/internal/atomicfile"
	"sluice/internal/config"
)

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
