package usage

import (
	"context"
	"time"

	"sluice/internal/tick"
)

const (
	// leadEvery is how often the node with the lease checks whether a node has disappeared or a period has ended.
	leadEvery = 10 * time.Second
	// closeAfter is the delay after a period's end before all buckets are read: by then nodes have written their notes.
	closeAfter = 30 * time.Second
	// cleanEvery is how often old periods are deleted, cleanBatch how many rows at once.
	cleanEvery = 10 * time.Minute
	cleanBatch = 5000
	// keptWithoutRule is how long the statements of a rule are kept after it was deleted, switched off, or keeps no
	// periods any more: 400 days from the start of each period.
	keptWithoutRule = 400 * 24 * time.Hour
)

// Lead asks for readings of all buckets and deletes old periods until ctx ends. It runs on one node at a time, under a
// lease: it reads all at its beginning, because the node that led before may be lost.
func (r *Recorder) Lead(ctx context.Context) {
	r.ask(0)
	l := leader{Recorder: r, left: r.opt.Left(), looked: r.opt.Now()}
	for range tick.Every(ctx, leadEvery) {
		l.look()
		if now := r.opt.Now(); now.Sub(l.cleaned) >= cleanEvery {
			l.cleaned = now
			r.opt.Trouble.Note(unwritten, "", r.Clean(ctx))
		}
	}
}

// leader is what Lead remembers.
type leader struct {
	*Recorder
	left            int64
	looked, cleaned time.Time
}

// look requests a reading of all buckets if a node has disappeared or a period has ended since the last look.
func (l *leader) look() {
	left, now := l.opt.Left(), l.opt.Now()
	if left != l.left { // even if another node has replaced it
		l.ask(0)
	}
	if l.ended(l.looked.Add(-closeAfter).UnixMilli(), now.Add(-closeAfter).UnixMilli()) {
		l.ask(now.Add(-2 * time.Hour).UnixMilli())
	}
	l.left, l.looked = left, now
}

// ended reports whether a period of any rule ended between two instants, ms.
func (l *leader) ended(from, to int64) bool {
	set := l.opt.Sets.Load()
	for i := 0; set != nil && i < set.Len(); i++ {
		if c := set.At(i); c.Limit.PerPeriod && c.Base(from).Anchor != c.Base(to).Anchor {
			return true
		}
	}
	return false
}

// Clean deletes the periods that are no longer kept.
func (r *Recorder) Clean(ctx context.Context) error {
	ids, err := r.opt.Database.UsageRules(ctx)
	for _, id := range ids {
		if err != nil {
			return err
		}
		err = r.clean(ctx, id)
	}
	return err
}

// clean deletes the periods of one rule that are no longer kept.
func (r *Recorder) clean(ctx context.Context, id int64) error {
	before := r.opt.Now().Add(-keptWithoutRule).UnixMilli()
	if set := r.opt.Sets.Load(); set == nil {
		return nil
	} else if c := set.Get(id); c != nil && c.Rule.KeepPeriods != nil {
		keep := int(*c.Rule.KeepPeriods)
		periods, err := r.opt.Database.UsagePeriods(ctx, id, keep+1)
		if err != nil || len(periods) <= keep {
			return err
		}
		before = periods[keep]
	}
	for {
		n, err := r.opt.Database.CleanUsage(ctx, id, before, cleanBatch)
		if err != nil || n < cleanBatch || !tick.Wait(ctx, readPause) {
			return err
		}
	}
}
