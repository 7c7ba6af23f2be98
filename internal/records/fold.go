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

// folds are the denials of the present second. Equal denials beyond foldAbove become one event. It is safe for
// concurrent use.
type folds struct {
	mu     sync.Mutex
	of     map[foldKey]*fold
	bytes  int
	closed bool
}

// foldKey identifies equal denials: an event can represent only equal ones.
type foldKey struct {
	key      limiter.Key
	weight   int64
	version  int64
	degraded string
	op       limiter.Op
	verdict  decide.Verdict
	unknown  bool
	rate     float64
}

// fold are equal denials of one second.
type fold struct {
	alone int // recorded one by one, at most foldAbove
	// others and drawn are the denials beyond foldAbove: others of entities that are not sampled, drawn of sampled
	// entities. An event cannot represent both, because in a replay a sampled entity also stands for entities that are
	// not sampled.
	others, drawn held
}

// held are denials that one event represents.
type held struct {
	raw  []byte // of the first denial
	more int64
}

func newFolds() *folds { return &folds{of: map[foldKey]*fold{}} }

// hold reports whether a denial need not be recorded now, because an event at the end of the second represents it.
// first is true if it is the denial of that event, which write appends.
func (f *folds) hold(d *decide.Decision, by drawn, write func([]byte) []byte) (held, first bool) {
	a := d.Answer
	if len(a.Limits) == 0 {
		return false, false
	}
	la := &a.Limits[max(0, a.Strictest)] // the limit of the event; a fail mode that denies leaves no strictest
	k := foldKey{la.Key, la.Weight, la.Version, a.Degraded, a.Op, a.Verdict, a.DeferralUnknown(), by.rate}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false, false
	}
	of := f.of[k]
	if of == nil {
		if len(f.of) < maxFolds {
			k.key = limiter.Key(strings.Clone(string(k.key))) // the caller reuses its memory
			f.of[k] = &fold{alone: 1}
		}
		return false, false
	}
	if of.alone < foldAbove {
		of.alone++
		return false, false
	}
	one := &of.others
	if by.drawn {
		one = &of.drawn
	}
	switch {
	case one.raw != nil:
		one.more++
		return true, false
	case f.bytes >= maxFoldBytes:
		return false, false
	}
	one.raw = write(nil)
	f.bytes += len(one.raw)
	return true, true
}

// end ends the second: it gives each held event to add and forgets the denials. After the last one nothing is held.
func (f *folds) end(last bool, add func(raw []byte)) {
	f.mu.Lock()
	of := f.of
	f.closed = f.closed || last
	f.of, f.bytes = map[foldKey]*fold{}, 0
	f.mu.Unlock()
	for _, equal := range of {
		for _, one := range [...]held{equal.others, equal.drawn} {
			if one.raw != nil {
				setFolded(one.raw, one.more)
				add(one.raw)
			}
		}
	}
}
