package records

import (
	"strings"
	"sync"

	"sluice/api/decide"
	"sluice/limiter"
)

const (
	// foldAbove is the number of equal denials of a bucket that are recorded one by one in a second.
	foldAbove = 10
	// maxFolds bounds the buckets that are watched in a second, and maxFoldBytes what is kept of their denials.
	// Beyond them denials are recorded one by one.
	maxFolds     = 4096
	maxFoldBytes = 4 << 20
)

// folds are the denials of the present second. Those of one bucket above foldAbove become one event. It is safe for
// concurrent use.
type folds struct {
	mu     sync.Mutex
	of     map[foldKey]*fold
	bytes  int
	closed bool
}

// foldKey says which denials are equal: an event can stand for several only if they are.
type foldKey struct {
	key      limiter.Key
	weight   int64
	version  int64
	degraded string
	op       limiter.Op
	verdict  decide.Verdict
}

// fold are equal denials.
type fold struct {
	count int64
	raw   []byte // of the first above foldAbove
}

func newFolds() *folds { return &folds{of: map[foldKey]*fold{}} }

// hold reports whether a denial need not be recorded, because the event of another will stand for it.
// first is true for that other one: the fold keeps what write appends until the second ends.
func (f *folds) hold(d *decide.Decision, write func([]byte) []byte) (held, first bool) {
	a := d.Answer
	if len(a.Limits) == 0 {
		return false, false
	}
	la := &a.Limits[max(0, a.Strictest)] // the one that the event has; a fail mode that denies leaves no strictest
	k := foldKey{la.Key, la.Weight, la.Version, a.Degraded, a.Op, a.Verdict}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, false
	}
	of := f.of[k]
	if of == nil {
		if len(f.of) < maxFolds {
			k.key = limiter.Key(strings.Clone(string(k.key))) // the caller reuses its memory
			f.of[k] = &fold{count: 1}
		}
		return false, false
	}
	of.count++
	switch {
	case of.count <= foldAbove:
		return false, false
	case of.raw != nil:
		return true, false
	case f.bytes >= maxFoldBytes:
		return false, false
	}
	of.raw = write(nil)
	f.bytes += len(of.raw)
	return true, true
}

// end ends the second: it gives each held event to add and forgets the denials. After the last one nothing is held.
func (f *folds) end(last bool, add func(raw []byte)) {
	f.mu.Lock()
	of := f.of
	f.closed = f.closed || last
	f.of, f.bytes = map[foldKey]*fold{}, 0
	f.mu.Unlock()
	for _, one := range of {
		if one.raw != nil {
			setFolded(one.raw, one.count-foldAbove-1)
			add(one.raw)
		}
	}
}
