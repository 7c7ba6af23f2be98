package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/telemetry"
	"sluice/rules"
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
