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

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/rules"
	"sluice/rules/override"
)

// copyInterval is how often the copy is written if nothing changed. Its age then says
// when the database was last available, and a copy that was lost, or not written to a
// full disk, is restored.
const copyInterval = 10 * time.Minute

// inForce is the content of a copy.
type inForce struct {
	set    *rules.Set
	stamp  string // of the set's version
	tokens []access.Token
	// at is when the database last confirmed the set.
	at time.Time
}

// ruleCopies saves the last valid rules and tokens to disk, so that this node can
// start while the rules database is unavailable. One goroutine (run) writes the latest
// content to a file; save never waits for it.
type ruleCopies struct {
	path string
	// identity identifies the database that the copies belong to.
	identity string
	log      *slog.Logger
	metrics  *telemetry.RuleSource
	now      func() time.Time
	wake     chan struct{}

	mu     sync.Mutex
	latest inForce
	seq    uint64 // counts calls of save; 0 before the first

	// Owned by run.
	written uint64 // seq of the file
	failing bool
}

func newRuleCopies(path, identity string, log *slog.Logger, metrics *telemetry.RuleSource,
	now func() time.Time) *ruleCopies {
	return &ruleCopies{path: path, identity: identity, log: log, metrics: metrics, now: now, wake: make(chan struct{}, 1)}
}

// save makes f the content of the next copy, which is written soon if something
// changed and otherwise at the next interval. It does not block and is safe for
// concurrent use.
func (c *ruleCopies) save(f inForce, changed bool) {
	c.mu.Lock()
	c.latest = f
	c.seq++
	c.mu.Unlock()
	if !changed {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // a write is pending and takes the latest content
	}
}

// run writes the saved content until ctx ends, and then once more.
func (c *ruleCopies) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	writePaced(ctx, c.now, c.wake, tick.C, c.writeLatest)
}

// writeLatest writes the latest content unless the file has it, and calls pause often
// meanwhile. A failure, such as a full disk, is logged once and counted each time.
func (c *ruleCopies) writeLatest(pause func()) {
	c.mu.Lock()
	f, seq := c.latest, c.seq
	c.mu.Unlock()
	if seq == c.written {
		return
	}
	if err := c.write(f, pause); err != nil {
		c.metrics.Copy("failed")
		if !c.failing {
			c.log.Error("saving the local copy of the rules failed; without a copy this node cannot start while the rules "+
				"database is unavailable", "file", c.path, "error", err)
		}
		c.failing = true
		return
	}
	c.written = seq
	c.metrics.Copy("saved")
	if c.failing {
		c.log.Info("saving the local copy of the rules works again", "file", c.path)
	}
	c.failing = false
}

func (c *ruleCopies) write(f inForce, pause func()) error {
	if err := createDataDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	out := rulecopy.Copy{At: f.at, Version: f.set.Version(), Stamp: f.stamp, Profiles: f.set.Profiles(), Tokens: f.tokens}
	for _, p := range f.set.Pools() {
		out.Pools = append(out.Pools, p.Pool)
	}
	return rulecopy.SaveRules(c.path, c.identity, &out, pause, func(yield func(*rules.Rule) bool) {
		for i := range f.set.Len() {
			if !yield(&f.set.At(i).Rule) {
				return
			}
		}
	})
}

// load reads the copy of an earlier run of this node.
func (c *ruleCopies) load() (*rulecopy.Copy, error) { return rulecopy.Load(c.path, c.identity) }

// exists reports whether there is a copy to load, valid or not.
func (c *ruleCopies) exists() bool {
	_, err := os.Stat(c.path)
	return err == nil
}

// overrideCopies saves the last valid overrides to disk, like ruleCopies. A nil
// *overrideCopies saves nothing.
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
	written *override.Table
	failing bool
}

func newOverrideCopies(path, identity string, log *slog.Logger, metrics *telemetry.RuleSource,
	now func() time.Time) *overrideCopies {
	return &overrideCopies{path: path, identity: identity, log: log, metrics: metrics, now: now,
		wake: make(chan struct{}, 1)}
}

// save makes o the content of the next copy, which is written soon. It does not block
// and is safe for concurrent use.
func (c *overrideCopies) save(o *override.Table) {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.latest = o
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default: // a write is pending and takes the latest content
	}
}

// run writes the saved overrides until ctx ends, and then once more.
func (c *overrideCopies) run(ctx context.Context) {
	writePaced(ctx, c.now, c.wake, nil, c.writeLatest)
}

// writeLatest writes the latest overrides unless the file has them, and calls pause
// often meanwhile. A failure is logged once and counted each time; the next change
// retries.
func (c *overrideCopies) writeLatest(pause func()) {
	c.mu.Lock()
	o := c.latest
	c.mu.Unlock()
	if o == nil || o == c.written {
		return
	}
	if err := c.write(o, pause); err != nil {
		c.metrics.Copy("failed")
		if !c.failing {
			c.log.Error("saving the local copy of the overrides failed; without a copy this node starts without overrides "+
				"while the rules database is unavailable", "file", c.path, "error", err)
		}
		c.failing = true
		return
	}
	c.written, c.failing = o, false
}

func (c *overrideCopies) write(o *override.Table, pause func()) error {
	if o.Len() == 0 { // no file means no overrides
		if err := os.Remove(c.path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := createDataDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	if err := rulecopy.SaveOverrides(c.path, c.identity, o, pause, c.now()); err != nil {
		return err
	}
	c.metrics.Copy("saved")
	return nil
}

// load reads the copy of an earlier run.
func (c *overrideCopies) load() (*override.Table, error) {
	return rulecopy.LoadOverrides(c.path, c.identity)
}
