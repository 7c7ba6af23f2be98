package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/history"
)

const (
	// maxTrials is the largest number of trials that a node counts at once. It does
	// not count requests of others.
	maxTrials = 1000
	// trialsTTL is how long the counts of a trial are kept after its last request.
	trialsTTL = 30 * 24 * time.Hour
)

// Trial names a limit on trial, which never denies, by the version of its rule.
type Trial struct{ Rule, Version int64 }

// TrialCounts counts the requests of a trial since it began.
type TrialCounts struct {
	// Seen counts all of them, Denied those that it would have denied.
	Seen, Denied int64
	// Compared are those of Seen of which the decision of the rule as it stands is known too. It is less if that was
	// left to a fail mode.
	Compared int64
	// NewlyDenied were allowed by the rule, NewlyAllowed were denied by it, and the trial decided otherwise.
	NewlyDenied, NewlyAllowed int64
	// Keys are those of the requests that would change, in the form of samples of denials: Denied of an entry are newly
	// denied, Allowed newly allowed.
	Keys history.Top
	// First is the time of the first one, zero without any.
	First time.Time
}

// Changes is the number of requests that would change.
func (c *TrialCounts) Changes() int64 { return c.NewlyDenied + c.NewlyAllowed }

// Add adds o.
func (c *TrialCounts) Add(o TrialCounts) {
	c.Seen += o.Seen
	c.Denied += o.Denied
	c.Compared += o.Compared
	c.NewlyDenied += o.NewlyDenied
	c.NewlyAllowed += o.NewlyAllowed
	if len(o.Keys.Entries) > 0 {
		c.Keys = history.MergeTops([]history.Tops{{history.ByKey: c.Keys}, {history.ByKey: o.Keys}})[history.ByKey]
	}
	if c.First.IsZero() || !o.First.IsZero() && o.First.Before(c.First) {
		c.First = o.First
	}
}

// Tried says how a limit on trial decided a request.
type Tried struct {
	Allowed bool
	// Was is how the rule as it stands decided. It has a meaning if Compared is set.
	Was, Compared bool
}

// Trial counts one request that a limit on trial decided. It calls key if the request would change.
func (r *Recorder) Trial(t Trial, d Tried, key func() string) {
	c, ok := r.trials.Load(t)
	if !ok {
		if r.knownTrials.Load() >= maxTrials {
			return
		}
		if c, ok = r.trials.LoadOrStore(t, &trialFigures{}); !ok {
			r.knownTrials.Add(1)
		}
	}
	f, _ := c.(*trialFigures) // the map holds nothing else
	f.seen.Add(1)
	if !d.Allowed {
		f.denied.Add(1)
	}
	if !d.Compared {
		return
	}
	f.compared.Add(1)
	if d.Allowed != d.Was {
		f.change(key(), d.Allowed)
	}
}

type trialFigures struct {
	seen, denied, compared atomic.Int64

	mu                        sync.Mutex
	newlyDenied, newlyAllowed int64
	keys                      *history.Sketches // nil until a request would change
}

// change counts a request that would change.
func (f *trialFigures) change(key string, allowed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys == nil {
		f.keys = history.NewSketches()
	}
	f.keys.Add(history.ByKey, key, allowed, 1)
	if allowed {
		f.newlyAllowed++
	} else {
		f.newlyDenied++
	}
}

// take returns the counts since the last call.
func (f *trialFigures) take() TrialCounts {
	c := TrialCounts{Seen: f.seen.Swap(0), Denied: f.denied.Swap(0), Compared: f.compared.Swap(0)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil {
		c.NewlyDenied, c.NewlyAllowed, c.Keys = f.newlyDenied, f.newlyAllowed, f.keys.Tops()[history.ByKey]
		f.newlyDenied, f.newlyAllowed, f.keys = 0, 0, nil
	}
	return c
}

// gatherTrials returns the counts since the last call.
func (r *Recorder) gatherTrials() map[Trial]TrialCounts {
	out := map[Trial]TrialCounts{}
	r.trials.Range(func(k, v any) bool {
		t, _ := k.(Trial)
		f, _ := v.(*trialFigures)
		if c := f.take(); c.Seen > 0 || c.Compared > 0 || c.Changes() > 0 { // a request may be counted in two parts
			out[t] = c
		}
		return true
	})
	if r.knownTrials.Load() >= maxTrials {
		r.trials.Clear() // also of trials that have ended
		r.knownTrials.Store(0)
	}
	return out
}

// trialSum is this node's count of a trial. It is posted as a whole in a field of
// its own, so posting it again changes nothing.
type trialSum struct {
	TrialCounts
	field string
	last  time.Time
	dirty bool
}

// takeTrials adds the counts of the recorder. Without room, it drops the posted
// trial without a request for the longest time.
func (p *Publisher) takeTrials(now time.Time) {
	for t, c := range p.opt.Recorder.gatherTrials() {
		sum := p.trials[t]
		if sum == nil {
			if len(p.trials) >= maxTrials && !p.forgetTrial() {
				continue
			}
			p.serial++
			sum = &trialSum{field: p.node + ":" + strconv.FormatInt(p.serial, 36)}
			p.trials[t] = sum
		}
		c.First = now
		sum.Add(c)
		sum.last, sum.dirty = now, true
	}
}

func (p *Publisher) forgetTrial() bool {
	var oldest *Trial
	for t, sum := range p.trials {
		if !sum.dirty && (oldest == nil || sum.last.Before(p.trials[*oldest].last)) {
			oldest = &t
		}
	}
	if oldest == nil {
		return false
	}
	delete(p.trials, *oldest)
	return true
}

// appendTrials writes the trials with new requests, up to maxPosted at a time.
func (p *Publisher) appendTrials(out []Entry) ([]Entry, []*trialSum) {
	var posted []*trialSum
	for t, sum := range p.trials {
		if !sum.dirty || len(posted) == maxPosted {
			continue
		}
		posted = append(posted, sum)
		out = append(out, Entry{Table: trialTable(t), Field: sum.field, Value: packTrial(&sum.TrialCounts), TTL: trialsTTL})
	}
	return out, posted
}

func trialTable(t Trial) string { return fmt.Sprintf("x:%d:%d", t.Rule, t.Version) }

// Trial adds up the counts of all nodes of a trial that several versions of a rule
// share.
func (r *Reader) Trial(ctx context.Context, rule int64, versions []int64) (TrialCounts, error) {
	tables := make([]string, len(versions))
	for i, v := range versions {
		tables[i] = trialTable(Trial{rule, v})
	}
	read, err := r.tables(ctx, tables)
	if err != nil { // also an *OwnError: one node is no measure of a trial
		return TrialCounts{}, fmt.Errorf("read the trial of rule %d: %w", rule, err)
	}
	var sum TrialCounts
	for _, fields := range read {
		for _, text := range fields {
			sum.Add(unpackTrial(text))
		}
	}
	return sum, nil
}

// packTrial writes seen, denied, the time of the first request, compared, newly denied and newly allowed, and the keys
// as JSON, with a space between each.
func packTrial(c *TrialCounts) string {
	return fmt.Sprintf("%d %d %d %d %d %d %s", c.Seen, c.Denied, c.First.UnixMilli(), c.Compared, c.NewlyDenied,
		c.NewlyAllowed, jsonOf(c.Keys))
}

// unpackTrial reads what packTrial wrote. Anything else counts as zero.
func unpackTrial(text string) TrialCounts {
	var n [6]int64
	words := strings.SplitN(text, " ", len(n)+1)
	if len(words) <= len(n) {
		return TrialCounts{}
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil || n[i] < 0 {
			return TrialCounts{}
		}
	}
	c := TrialCounts{Seen: n[0], Denied: n[1], First: time.UnixMilli(n[2]), Compared: n[3], NewlyDenied: n[4],
		NewlyAllowed: n[5]}
	if json.Unmarshal([]byte(words[len(n)]), &c.Keys) != nil {
		c.Keys = history.Top{}
	}
	return c
}
