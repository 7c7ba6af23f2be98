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

// copyInterval is how often the copy is written again although nothing changed:
// its age then tells when the database was last heard, and a disk that was full
// or a file that was removed mends itself.
const copyInterval = 10 * time.Minute

// inForce is what a copy is made of.
type inForce struct {
	set    *rules.Set
	stamp  string // of the set's version
	tokens []access.Token
	// at is when the database last confirmed the set.
	at time.Time
}

// copies keeps the last good rules and tokens on disk, so that this node can
// start while the rule database is away. One goroutine (run) writes, one file at
// a time, and always the latest; whoever puts rules in force never waits for it.
type copies struct {
	path string
	// identity is of the database that the copies are of.
	identity string
	log      *slog.Logger
	metrics  *telemetry.RuleSource
	now      func() time.Time
	wake     chan struct{}

	mu     sync.Mutex
	latest inForce
	seq    uint64 // counts what was kept; 0 for nothing yet

	// Owned by run.
	saved   uint64 // seq of what is on disk
	failing bool
}

func newCopies(path, identity string, log *slog.Logger, metrics *telemetry.RuleSource, now func() time.Time) *copies {
	return &copies{path: path, identity: identity, log: log, metrics: metrics, now: now, wake: make(chan struct{}, 1)}
}

// keep makes f what the next copy holds. The copy is written soon if something
// changed, else at the next interval. keep never blocks.
func (c *copies) keep(f inForce, changed bool) {
	c.mu.Lock()
	c.latest = f
	c.seq++
	c.mu.Unlock()
	if !changed {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // a write is due already, and will take the latest
	}
}

// run writes what is kept until ctx ends, and then once more.
func (c *copies) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	writeSlowly(ctx, c.now, c.wake, tick.C, c.save)
}

// save writes the latest unless it is on disk, and calls rest often meanwhile. A
// failure (a full or read-only disk) is loud once, counted each time, and nothing more.
func (c *copies) save(rest func()) {
	c.mu.Lock()
	f, seq := c.latest, c.seq
	c.mu.Unlock()
	if seq == c.saved {
		return
	}
	if err := c.write(f, rest); err != nil {
		c.metrics.Copy("failed")
		if !c.failing {
			c.log.Error("saving the local copy of the rules failed; without a copy this node cannot start while the rules database is unavailable", "file", c.path, "error", err)
		}
		c.failing = true
		return
	}
	c.saved = seq
	c.metrics.Copy("saved")
	if c.failing {
		c.log.Info("saving the local copy of the rules works again", "file", c.path)
	}
	c.failing = false
}

func (c *copies) write(f inForce, rest func()) error {
	if err := makeDataDir(filepath.Dir(c.path)); err != nil {
		return err
	}
	out := rulecopy.Copy{At: f.at, Version: f.set.Version(), Stamp: f.stamp, Tokens: f.tokens}
	for _, p := range f.set.Pools() {
		out.Pools = append(out.Pools, p.Pool)
	}
	return rulecopy.SaveRules(c.path, c.identity, &out, rest, func(yield func(*rules.Rule) bool) {
		for i := range f.set.Len() {
			if !yield(&f.set.At(i).Rule) {
				return
			}
		}
	})
}

// load reads the copy that an earlier run of this node left.
func (c *copies) load() (*rulecopy.Copy, error) { return rulecopy.Load(c.path, c.identity) }

// exists reports whether there is a file to load, good or not.
func (c *copies) exists() bool {
	_, err := os.Stat(c.path)
	return err == nil
}

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
