package history

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
)

const (
	// maxRules is the largest number of rules that a node counts separately; the
	// rest share one line called Other.
	maxRules = 20_000
	// Other collects the rules that are not counted separately.
	Other = "(other)"
	// maxSamples is the number of requests that a node keeps per second,
	// maxSamplesRule the number of denials of one rule among them.
	maxSamples     = 20
	maxSamplesRule = 5
)

// Recorder counts the decisions of this node. Its methods are fast, never block for
// long and are safe for concurrent use. It owns no goroutine; a Publisher empties
// it.
type Recorder struct {
	all tally

	rules sync.Map // of name, *tally
	known atomic.Int64

	trials      sync.Map // of Trial, *trialFigures
	knownTrials atomic.Int64

	tops    tops
	keys    deniedCounts
	allowed allowed

	sampleMu sync.Mutex
	samples  []Request
	ofRule   map[string]int
}

// tally counts decisions.
type tally struct {
	counts [NumFigures]atomic.Int64
	failed atomic.Int64
	// degradedDenied were denied by a fail mode.
	degradedDenied atomic.Int64

	_   [64]byte     // a separate cache line for use, because each decision reads it and few write it
	use atomic.Int64 // the highest
	_   [56]byte
}

// count counts n equal decisions.
func (t *tally) count(d *Decided, n int64) {
	for was := t.use.Load(); d.Use > was && !t.use.CompareAndSwap(was, d.Use); was = t.use.Load() {
	}
	if *d == (Decided{Allowed: d.Allowed, Use: d.Use}) { // most are nothing else
		if d.Allowed {
			t.counts[0].Add(n)
		} else {
			t.counts[1].Add(n)
		}
		return
	}
	for i, is := range d.counts() {
		if is {
			t.counts[i].Add(n)
		}
	}
	if d.Failed {
		t.failed.Add(n)
	}
	if d.Degraded && !d.Allowed {
		t.degradedDenied.Add(n)
	}
}

// take returns the counts since the last call.
func (t *tally) take() Figures {
	var a [NumFigures]int64
	for i := range a {
		a[i] = t.counts[i].Swap(0)
	}
	f := FiguresOf(a)
	f.Failed, f.DegradedDenied, f.Use = t.failed.Swap(0), t.degradedDenied.Swap(0), t.use.Swap(0)
	return f
}

// NewRecorder creates an empty recorder.
func NewRecorder() *Recorder {
	r := &Recorder{ofRule: map[string]int{}}
	r.tops.stride.Store(1)
	r.tops.seed = maphash.MakeSeed()
	r.allowed.stride.Store(1)
	return r
}

// Request counts one request as a whole. It keeps nothing of d.
func (r *Recorder) Request(d *Decided) { r.all.count(d, 1) }

// Requests counts n equal requests.
func (r *Recorder) Requests(d *Decided, n int64) { r.all.count(d, n) }

// Limit counts one limit of a request under the name of its rule. It keeps nothing of d.
func (r *Recorder) Limit(rule string, d *Decided) { r.Limits(rule, d, 1) }

// Limits counts one limit of n equal requests.
func (r *Recorder) Limits(rule string, d *Decided, n int64) {
	entry, known := r.rules.Load(rule)
	if !known {
		if r.known.Load() >= maxRules {
			rule = Other
		}
		if entry, known = r.rules.LoadOrStore(rule, &tally{}); !known {
			r.known.Add(1)
		}
	}
	t, _ := entry.(*tally) // the map holds nothing else
	t.count(d, n)
}

// Denied keeps a denial of a rule as a sample if this second has room. It calls sample only then.
func (r *Recorder) Denied(rule string, sample func() Request) {
	r.sampleMu.Lock()
	defer r.sampleMu.Unlock()
	if len(r.samples) >= maxSamples || r.ofRule[rule] >= maxSamplesRule {
		return
	}
	r.ofRule[rule]++
	r.samples = append(r.samples, sample())
}

// gathered is what a recorder counted since it was last emptied.
type gathered struct {
	total   Figures
	rules   map[string]Figures
	trials  map[Trial]TrialCounts
	denied  []Request
	allowed []Request
	keys    map[ruleKey]denied
}

// gather returns the counts and samples of the recorder and resets them. The counts by key, route and tenant stay.
func (r *Recorder) gather() gathered {
	g := gathered{total: r.all.take(), rules: map[string]Figures{}, trials: r.gatherTrials(), keys: r.keys.take()}
	r.rules.Range(func(k, v any) bool {
		name, _ := k.(string)
		t, _ := v.(*tally)
		if f := t.take(); f != (Figures{}) {
			g.rules[name] = f
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
	g.denied, r.samples = r.samples, nil
	clear(r.ofRule)
	g.allowed = r.allowed.take(maxSamples - len(g.denied))
	return g
}
