package app

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"sluice/internal/access"
	"sluice/internal/rulecopy"
	"sluice/internal/trouble"
	"sluice/rules"
	"sluice/rules/match"
	"sluice/rules/override"
)

// copyInterval is how often the copy is written if nothing changed. Its age then says
// when the database was last available, and a copy that was lost, or not written to a
// full disk, is restored.
const copyInterval = 10 * time.Minute

// inForce is the content of a copy.
type inForce struct {
	set    *match.Set
	stamp  string // of the set's version
	tokens []access.Token
	// at is when the database last confirmed the set.
	at time.Time
}

// copies saves the latest content of one kind to a file on disk, so that this node can start while the rules
// database is unavailable. One goroutine (run) writes; save never waits for it.
type copies[T any] struct {
	path string
	// identity identifies the database that the copies belong to.
	identity string
	trouble  *trouble.Registry
	metrics  *ruleMetrics
	now      func() time.Time
	wake     chan struct{}
	// failing is the condition that the file cannot be written.
	failing *trouble.Condition
	// write writes the file and calls pause often. wrote is false if the content needs no file.
	write func(content T, pause func()) (wrote bool, err error)

	mu     sync.Mutex
	latest T
	seq    uint64 // counts calls of save; 0 before the first

	// Owned by run.
	written uint64 // seq of the file
}

// save sets the content of the next copy, which is written soon if something changed and otherwise at the next
// interval. It does not block and is safe for concurrent use.
func (c *copies[T]) save(content T, changed bool) {
	c.mu.Lock()
	c.latest = content
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

// writeLatest writes the latest content unless the file already contains it. It calls pause often while it writes. A
// failure, such as a full disk, is logged once and counted each time.
func (c *copies[T]) writeLatest(pause func()) {
	c.mu.Lock()
	content, seq := c.latest, c.seq
	c.mu.Unlock()
	if seq == c.written {
		return
	}
	wrote, err := c.write(content, pause)
	c.trouble.Note(c.failing, c.path, err)
	if err != nil {
		c.metrics.copied("failed")
		return
	}
	c.written = seq
	if wrote {
		c.metrics.copied("saved")
	}
}

var (
	ruleCopyFailing = trouble.Declare(trouble.Condition{Code: "rules_copy_failing",
		Advice: "see to the disk and the rights of the data directory", Of: "file", Severe: true,
		Starts: "saving the local copy of the rules failed; without a copy this node cannot start while the rules database " +
			"is unavailable", Ends: "saving the local copy of the rules works again"})
	overrideCopyFailing = trouble.Declare(trouble.Condition{Code: "overrides_copy_failing",
		Advice: "see to the disk and the rights of the data directory", Of: "file", Severe: true,
		Starts: "saving the local copy of the overrides failed; without a copy this node starts without overrides " +
			"while the rules database is unavailable", Ends: "saving the local copy of the overrides works again"})
)

// ruleCopies saves the last valid rules and tokens.
type ruleCopies struct{ copies[inForce] }

func newRuleCopies(path, identity string, known *trouble.Registry, metrics *ruleMetrics,
	now func() time.Time) *ruleCopies {
	c := &ruleCopies{copies[inForce]{path: path, identity: identity, trouble: known, metrics: metrics, now: now,
		wake: make(chan struct{}, 1), failing: ruleCopyFailing}}
	c.write = c.writeRules
	return c
}

// run writes the saved content until ctx ends, and then once more.
func (c *ruleCopies) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	writePaced(ctx, c.now, c.wake, tick.C, c.writeLatest)
}

func (c *ruleCopies) writeRules(f inForce, pause func()) (wrote bool, err error) {
	if err := createDataDir(filepath.Dir(c.path)); err != nil {
		return false, err
	}
	out := rulecopy.Copy{At: f.at, Version: f.set.Version(), Stamp: f.stamp, Profiles: f.set.Profiles(), Tokens: f.tokens}
	for _, p := range f.set.Pools() {
		out.Pools = append(out.Pools, p.Pool)
	}
	return true, rulecopy.SaveRules(c.path, c.identity, &out, pause, func(yield func(*rules.Rule) bool) {
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

// overrideCopies saves the last valid overrides. A nil *overrideCopies saves nothing.
type overrideCopies struct{ copies[*override.Table] }

func newOverrideCopies(path, identity string, known *trouble.Registry, metrics *ruleMetrics,
	now func() time.Time) *overrideCopies {
	c := &overrideCopies{copies[*override.Table]{path: path, identity: identity, trouble: known, metrics: metrics,
		now: now, wake: make(chan struct{}, 1), failing: overrideCopyFailing}}
	c.write = c.writeOverrides
	return c
}

// save makes o the content of the next copy, which is written soon.
func (c *overrideCopies) save(o *override.Table) {
	if c != nil {
		c.copies.save(o, true)
	}
}

// run writes the saved overrides until ctx ends, and then once more. After a failure, the next
// change retries.
func (c *overrideCopies) run(ctx context.Context) {
	writePaced(ctx, c.now, c.wake, nil, c.writeLatest)
}

func (c *overrideCopies) writeOverrides(o *override.Table, pause func()) (wrote bool, err error) {
	if o.Len() == 0 { // no file means no overrides
		if err := os.Remove(c.path); !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return false, nil
	}
	if err := createDataDir(filepath.Dir(c.path)); err != nil {
		return false, err
	}
	return true, rulecopy.SaveOverrides(c.path, c.identity, o, pause, c.now())
}

// load reads the copy of an earlier run.
func (c *overrideCopies) load() (*override.Table, error) {
	return rulecopy.LoadOverrides(c.path, c.identity)
}
