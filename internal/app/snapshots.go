package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"sluice/internal/telemetry"
	"sluice/internal/tick"
)

// snapshotter is a store that can be saved to a file and loaded from it.
type snapshotter interface {
	SaveFile(path string) error
	LoadFile(path string) error
}

// snapshots keeps the counters of this process on disk, so that a restart
// forgets nothing and a crash no more than one interval.
type snapshots struct {
	store   snapshotter
	path    string
	log     *slog.Logger
	metrics *telemetry.Metrics
}

// restore loads the last snapshot. One that is torn, corrupt or from a newer
// build is refused with a log line, and counting starts afresh: wrong counters
// are worse than none, and no server at all is worse still.
func (s *snapshots) restore() {
	err := s.store.LoadFile(s.path)
	switch {
	case err == nil:
		s.metrics.Snapshot("restored")
		s.log.Info("counters restored", "file", s.path)
	case errors.Is(err, fs.ErrNotExist):
		s.log.Debug("there is no counter snapshot to restore", "file", s.path)
	default:
		s.metrics.Snapshot("refused")
		s.log.Error("the counter snapshot was rejected; all counters start at zero", "file", s.path, "error", err)
	}
}

// save writes a snapshot. A failure (a full disk) is loud and nothing more.
func (s *snapshots) save() error {
	if err := s.store.SaveFile(s.path); err != nil {
		s.metrics.Snapshot("failed")
		s.log.Error("saving the counter snapshot failed; the previous snapshot is kept", "file", s.path, "error", err)
		return err
	}
	s.metrics.Snapshot("saved")
	return nil
}

// run saves every interval until ctx ends; 0 means never.
func (s *snapshots) run(ctx context.Context, every time.Duration) {
	if every == 0 {
		<-ctx.Done()
		return
	}
	for range tick.Every(ctx, every) {
		_ = s.save() // logged and counted there; the next one may succeed
	}
}
