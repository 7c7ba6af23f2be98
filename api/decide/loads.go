package decide

import (
	"context"
	"sync"
	"time"

	"sluice/internal/tick"
)

// loadsEvery is the pause between two looks at what other nodes were told, and
// loadsTimeout how long one may take.
const (
	loadsEvery   = time.Second
	loadsTimeout = time.Second
)

// LoadBoard keeps reports where every node can read them. It is safe for
// concurrent use.
type LoadBoard interface {
	// Put keeps a report, in millionths of the pool, for as long as ttl.
	Put(ctx context.Context, pool string, millionths int64, ttl time.Duration) error
	// Get reads the reports of some pools and the time left to each, 0 for none.
	Get(ctx context.Context, pools []string) (millionths []int64, left []time.Duration, err error)
}

// Loads is what this node knows of the load that the fleet reports for pools.
// A report ends by itself; while the board cannot be read, those that are known
// last until their own end and no longer. It is safe for concurrent use. A nil
// Loads knows nothing.
type Loads struct {
	board LoadBoard
	now   func() time.Time

	mu    sync.RWMutex
	seen  map[string]loadReport
	count uint64 // reports made on this node
}

// loadReport is one report. made counts on from the reports before it.
type loadReport struct {
	millionths int64
	until      time.Time
	made       uint64
}

// NewLoads keeps reports on a board, or in this process only if board is nil.
// now is the wall clock.
func NewLoads(board LoadBoard, now func() time.Time) *Loads {
	return &Loads{board: board, now: now, seen: map[string]loadReport{}}
}

// Load gives the fresh report on a pool: how much of it is in use, in
// millionths (which may exceed a million), and for how long the report stands.
func (l *Loads) Load(pool string) (millionths int64, left time.Duration, ok bool) {
	if l == nil {
		return 0, 0, false
	}
	l.mu.RLock()
	r, ok := l.seen[pool]
	l.mu.RUnlock()
	if !ok {
		return 0, 0, false
	}
	left = r.until.Sub(l.now())
	return r.millionths, left, left > 0
}

// Report makes a report that stands for ttl. It counts on this node at once and
// on the others within about a second. If the board does not take it nothing
// changes, here neither.
func (l *Loads) Report(ctx context.Context, pool string, millionths int64, ttl time.Duration) error {
	at := l.now()
	if l.board != nil {
		ctx, cancel := context.WithTimeout(ctx, loadsTimeout)
		defer cancel()
		if err := l.board.Put(ctx, pool, millionths, ttl); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	l.seen[pool] = loadReport{millionths: millionths, until: at.Add(ttl), made: l.count}
	return nil
}

// Follow reads the board each second, as long as there are pools, until ctx
// ends. It runs in a goroutine of its caller's.
func (l *Loads) Follow(ctx context.Context, pools func() []string) {
	l.refresh(ctx, pools())
	for range tick.Every(ctx, loadsEvery) {
		l.refresh(ctx, pools())
	}
}

// refresh takes over what the board says of the pools that there are, and
// forgets the others. What was reported here meanwhile is newer and stays.
func (l *Loads) refresh(ctx context.Context, pools []string) {
	l.mu.RLock()
	before := l.count
	l.mu.RUnlock()
	at := l.now()
	var left []time.Duration
	var millionths []int64
	if len(pools) > 0 && l.board != nil {
		ctx, cancel := context.WithTimeout(ctx, loadsTimeout)
		defer cancel()
		var err error
		if millionths, left, err = l.board.Get(ctx, pools); err != nil {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[string]loadReport, len(pools))
	for i, pool := range pools {
		switch known, ok := l.seen[pool]; {
		case ok && (l.board == nil || known.made > before):
			next[pool] = known
		case l.board != nil && left[i] > 0:
			next[pool] = loadReport{millionths: millionths[i], until: at.Add(left[i])}
		}
	}
	l.seen = next
}

// ReportLoad makes a report within the time that a store may take over a check.
func (c *Checker) ReportLoad(ctx context.Context, pool string, millionths int64, ttl time.Duration) error {
	if c.opt.Timeout > 0 {
		b := within(ctx, c.opt.Timeout)
		defer b.release()
		ctx = b
	}
	return c.opt.Loads.Report(ctx, pool, millionths, ttl)
}
