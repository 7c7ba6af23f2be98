package fleet

import (
	"maps"
	"sync"
	"sync/atomic"
)

// Kind is the role of a limit in a decision.
type Kind uint8

const (
	// Enforced can deny.
	Enforced Kind = iota
	// Shadow is only counted.
	Shadow
	// Candidate is a second limit on trial beside an enforced one.
	Candidate
)

const (
	// maxRules is the largest number of rules that a node counts separately; the
	// rest share one line called Other.
	maxRules = 20_000
	// Other collects the rules that are not counted separately.
	Other = "(other)"
	// maxTopRules and maxTopKeys bound the keys that are counted separately in an
	// hour.
	maxTopRules = 200
	maxTopKeys  = 64
	// maxSamples is the number of denials that a node keeps per second,
	// maxSamplesRule that of one rule.
	maxSamples     = 20
	maxSamplesRule = 5
)

// Recorder counts the decisions of this node. Its methods are fast, never block for
// long and are safe for concurrent use. It owns no goroutine; a Publisher empties
// it.
type Recorder struct {
	allowed, denied, degraded atomic.Int64

	rules sync.Map // of name, *ruleCounts
	known atomic.Int64

	trials      sync.Map // of Trial, *trialFigures
	knownTrials atomic.Int64

	sampleMu sync.Mutex
	samples  []Denial
	ofRule   map[string]int
	top      map[string]map[string]int64
}

type ruleCounts struct{ figures [5]atomic.Int64 }

// NewRecorder creates an empty recorder.
func NewRecorder() *Recorder {
	return &Recorder{ofRule: map[string]int{}, top: map[string]map[string]int64{}}
}

// Request counts one request as a whole.
func (r *Recorder) Request(allowed, degraded bool) {
	if allowed {
		r.allowed.Add(1)
	} else {
		r.denied.Add(1)
	}
	if degraded {
		r.degraded.Add(1)
	}
}

// Limit counts one limit of a request under the name of its rule.
func (r *Recorder) Limit(rule string, kind Kind, allowed, degraded bool) {
	entry, known := r.rules.Load(rule)
	if !known {
		if r.known.Load() >= maxRules {
			rule = Other
		}
		if entry, known = r.rules.LoadOrStore(rule, &ruleCounts{}); !known {
			r.known.Add(1)
		}
	}
	c, _ := entry.(*ruleCounts) // the map holds nothing else
	switch {
	case allowed && kind == Candidate: // the enforced limit counts the request
	case allowed:
		c.figures[0].Add(1)
	default:
		c.figures[1+int(kind)].Add(1)
	}
	if degraded {
		c.figures[4].Add(1)
	}
}

// Denied counts the key of a denial for its rule, and keeps the denial as a sample
// if this second has room. It calls make only then.
func (r *Recorder) Denied(rule, key string, sample func() Denial) {
	r.sampleMu.Lock()
	defer r.sampleMu.Unlock()
	r.countKey(rule, key)
	if len(r.samples) >= maxSamples || r.ofRule[rule] >= maxSamplesRule {
		return
	}
	r.ofRule[rule]++
	r.samples = append(r.samples, sample())
}

// countKey is Space-Saving (Metwally, Agrawal, El Abbadi 2005): without room, a key
// replaces the one with the smallest count and takes over that count.
func (r *Recorder) countKey(rule, key string) {
	keys := r.top[rule]
	if keys == nil {
		if len(r.top) >= maxTopRules {
			return
		}
		keys = map[string]int64{}
		r.top[rule] = keys
	}
	if _, ok := keys[key]; ok || len(keys) < maxTopKeys {
		keys[key]++
		return
	}
	least, count := "", int64(0)
	for k, n := range keys {
		if least == "" || n < count {
			least, count = k, n
		}
	}
	delete(keys, least)
	keys[key] = count + 1
}

// gathered is what a recorder counted since it was last emptied.
type gathered struct {
	total   Counts
	rules   map[string]Counts
	samples []Denial
}

// gather empties the recorder, but for the keys.
func (r *Recorder) gather() gathered {
	g := gathered{
		total: Counts{Allowed: r.allowed.Swap(0), Denied: r.denied.Swap(0), Degraded: r.degraded.Swap(0)},
		rules: map[string]Counts{},
	}
	r.rules.Range(func(k, v any) bool {
		name, _ := k.(string)
		c, _ := v.(*ruleCounts)
		var f [5]int64
		for i := range f {
			f[i] = c.figures[i].Swap(0)
		}
		if f != [5]int64{} {
			g.rules[name] = countsOf(f)
		}
		return true
	})
	if r.known.Load() >= maxRules {
		// Many rules were renamed or deleted. A count that is added at this moment
		// may be lost.
		r.rules.Clear()
		r.known.Store(0)
	}
	r.sampleMu.Lock()
	defer r.sampleMu.Unlock()
	g.samples, r.samples = r.samples, nil
	clear(r.ofRule)
	return g
}

// topKeys returns the most denied keys of each rule since the last reset. forget
// resets them.
func (r *Recorder) topKeys(forget bool) map[string]map[string]int64 {
	r.sampleMu.Lock()
	defer r.sampleMu.Unlock()
	if forget {
		top := r.top
		r.top = map[string]map[string]int64{}
		return top
	}
	top := make(map[string]map[string]int64, len(r.top))
	for rule, keys := range r.top {
		top[rule] = maps.Clone(keys)
	}
	return top
}
