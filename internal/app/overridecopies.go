package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/rules/override"
)

// overrideCopies keeps the last good overrides on disk beside the rules. One
// goroutine (run) writes, always the latest; keep never waits for it. A nil one
// keeps nothing.
type overrideCopies struct {
	path     string
	identity string
	log      *slog.Logger
	metrics  *telemetry.RuleSource
	now      func() time.Time
	wake     chan struct{}

	mu     sync.Mutex
	latest *override.Table

	// Owned by run.
	saved   *override.Table
	failing bool
}

func newOverrideCopies(path, identity string, log *slog.Logger, metrics *telemetry.RuleSource, now func() time.Time) *overrideCopies {
	return &overrideCopies{path: path, identity: identity, log: log, metrics: metrics, now: now, wake: make(chan struct{}, 1)}
}

// keep makes o what the next copy holds, which is written soon.
func (c *overrideCopies) keep(o *override.Table) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.latest = o
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // a write is due already, and will take the latest
	}
}

// run writes what is kept until ctx ends, and then once more.
func (c *overrideCopies) run(ctx context.Context) {
	writeSlowly(ctx, c.now, c.wake, nil, c.save)
}

// save writes the latest unless it is on disk, and calls rest often meanwhile. A
// failure is loud once and counted each time; the next change tries again.
func (c *overrideCopies) save(rest func()) {
	c.mu.Lock()
	o := c.latest
	c.mu.Unlock()
	if o == nil || o == c.saved {
		return
	}
	if err := c.write(o, rest); err != nil {
		c.metrics.Copy("failed")
		if !c.failing {
			c.log.Error("saving the local copy of the overrides failed; without a copy this node starts without overrides while the rules database is unavailable", "file", c.path, "error", err)
		}
		c.failing = true
		return
	}
	c.saved, c.failing = o, false
}

func (c *overrideCopies) write(o *override.Table, rest func()) error {
	if o.Len() == 0 { // no file says the same, and needs no disk
		if err := os.Remove(c.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := makeDataDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	if err := rulecopy.SaveOverrides(c.path, c.identity, o, rest, c.now()); err != nil {
		return err
	}
	c.metrics.Copy("saved")
	return nil
}

// load reads the copy that an earlier run left.
func (c *overrideCopies) load() (*override.Table, error) {
	return rulecopy.LoadOverrides(c.path, c.identity)
}
