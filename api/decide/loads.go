package decide

import (
	"context"
	"sync"
	"time"

	"sluice/internal/tick"
)

// loadsEvery is the pause between two reads of the board, and loadsTimeout the timeout of one.
const (
	loadsEvery   = time.Second
	loadsTimeout = time.Second
)

// LoadBoard keeps reports where every node can read them. It is safe for
// concurrent use.
type LoadBoard interface {
	// Put stores a report, in millionths of the pool, for the time ttl.
	Put(ctx context.Context, pool string, millionths int64, ttl time.Duration) error
	// Get returns the reports of some pools and the time until each expires, 0 for none.
	Get(ctx context.Context, pools []string) (millionths []int64, left []time.Duration, err error)
}

// Loads holds the load of pools that the fleet reports, as known to this node. Reports expire even while the board is
// unavailable. It is safe for concurrent use. A nil Loads has no reports.
type Loads struct {
	board LoadBoard
	now   func() time.Time

	mu    sync.RWMutex
	seen  map[string]loadReport
	count uint64 // reports made on this node
}

// loadReport is one report. made is its number among the reports made on this node, 0 for a
// report from the board.
type loadReport struct {
	millionths int64
	until      time.Time
	made       uint64
}

// NewLoads returns Loads that keeps reports on a board, or only in this process if board is
// nil. now is the wall clock.
func NewLoads(board LoadBoard, now func() time.Time) *Loads {
	return &Loads{board: board, now: now, seen: map[string]loadReport{}}
}

// Load returns the report on a pool that has not expired: the part in use, in millionths (which
// may exceed a million), and the time until the report expires.
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

// Report makes a report that expires after ttl. It takes effect on this node immediately and on
// the others within about a second. If the board fails, nothing changes.
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

// Follow reads the board each second, as long as there are pools, until ctx ends. The caller
// runs it in a goroutine.
func (l *Loads) Follow(ctx context.Context, pools func() []string) {
	l.refresh(ctx, pools())
	for range tick.Every(ctx, loadsEvery) {
		l.refresh(ctx, pools())
	}
}

// refresh replaces the reports by the reports on the board for the existing pools. Reports that this node made during
// the read are newer and stay.
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

// ReportLoad makes a report within the timeout of a check.
func (c *Checker) ReportLoad(ctx context.Context, pool string, millionths int64, ttl time.Duration) error {
	if c.opt.Timeout > 0 {
		b := c.within(ctx, c.opt.Timeout)
		defer b.release()
		ctx = b
	}
	return c.opt.Loads.Report(ctx, pool, millionths, ttl)
}
