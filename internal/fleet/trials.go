package fleet

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
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
	// First is the time of the first one, zero without any.
	First time.Time
}

func (c *TrialCounts) add(o TrialCounts) {
	c.Seen += o.Seen
	c.Denied += o.Denied
	if c.First.IsZero() || !o.First.IsZero() && o.First.Before(c.First) {
		c.First = o.First
	}
}

// Trial counts one request that a limit on trial decided.
func (r *Recorder) Trial(t Trial, allowed bool) {
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
	if !allowed {
		f.denied.Add(1)
	}
}

type trialFigures struct{ seen, denied atomic.Int64 }

// gatherTrials returns the counts since the last call.
func (r *Recorder) gatherTrials() map[Trial]TrialCounts {
	out := map[Trial]TrialCounts{}
	r.trials.Range(func(k, v any) bool {
		t, _ := k.(Trial)
		f, _ := v.(*trialFigures)
		if c := (TrialCounts{Seen: f.seen.Swap(0), Denied: f.denied.Swap(0)}); c.Seen > 0 {
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
		sum.add(c)
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
		value := fmt.Sprintf("%d %d %d", sum.Seen, sum.Denied, sum.First.UnixMilli())
		out = append(out, Entry{Table: trialTable(t), Field: sum.field, Value: value, TTL: trialsTTL})
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
			sum.add(unpackTrial(text))
		}
	}
	return sum, nil
}

// unpackTrial reads what appendTrials wrote. Anything else counts as zero.
func unpackTrial(text string) TrialCounts {
	var n [3]int64
	words := strings.Fields(text)
	if len(words) < len(n) {
		return TrialCounts{}
	}
	for i := range n {
		var err error
		if n[i], err = strconv.ParseInt(words[i], 10, 64); err != nil || n[i] < 0 {
			return TrialCounts{}
		}
	}
	return TrialCounts{Seen: n[0], Denied: n[1], First: time.UnixMilli(n[2])}
}
