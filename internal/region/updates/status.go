package updates

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/internal/region"
	"sluice/internal/trouble"
	"sluice/limiter"
	"sluice/rules"
	"sluice/rules/match"
)

// lags is how many of the last lags are kept.
const lags = 256

// counts holds what this node has counted since its start.
type counts struct {
	exported, refused, invalid atomic.Int64
}

// peerState is what this node knows of another region.
type peerState struct {
	cut        bool
	cutSince   time.Time
	cutTotal   time.Duration
	lastUpdate time.Time
	set        int64
	lags       []time.Duration // a ring
	next       int
	skew       time.Duration // how far its clock is ahead
	known      bool          // skew is known
	bytes      int64
	accepted   int64
	messages   int64
	failures   int64
	there      region.Fate // of buckets that this node has sent
	here       region.Fate // of buckets that it has received
	received   int64       // bytes
	refusal    string
	refusedAt  time.Time
	cutFrom    []string // the regions that the peer says it is cut off from, in order
}

// arrived notes whether the peer is connected and what its last message said, and returns whether it is cut off.
func (p *peer) arrived(what string, ok bool, now time.Time) (cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	if ok {
		var set, ahead int64
		if n, _ := fmt.Sscanf(what, "%d %d", &set, &ahead); n == 2 {
			s.set = set
		}
		s.cutFrom = nil
		if _, names, ok := strings.Cut(what, cutOffMark); ok {
			s.cutFrom = strings.Split(names, ",")
		}
		s.lastUpdate = now
	}
	switch cut := !ok; {
	case cut && !s.cut:
		s.cut, s.cutSince = true, now
	case !cut && s.cut:
		s.cut = false
		s.cutTotal += now.Sub(s.cutSince)
	}
	return s.cut
}

// agrees reports whether the peer says that it is cut off from the same regions as this one.
func (p *peer) agrees(off []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Equal(p.state.cutFrom, off)
}

// sent notes what became of a message.
func (p *peer) sent(known *trouble.Registry, address string, a *Answer, err error, start time.Time, took time.Duration,
	size int64) {
	known.Note(messagesRefused, p.Name, err, "address", address)
	p.Note(err, start)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	s.messages++
	if err != nil {
		s.failures++
		return
	}
	s.bytes += size
	s.there.Add(a.Fate)
	s.skew, s.known = time.UnixMilli(a.At).Sub(start.Add(took/2)).Round(time.Millisecond), true
}

// fails reports whether the last message to the peer has failed.
func (p *peer) fails() bool {
	_, _, err := p.Failure()
	return err != nil
}

// accepted notes how many buckets the peer has accepted.
func (p *peer) accepted(n int) {
	p.mu.Lock()
	p.state.accepted += int64(n)
	p.mu.Unlock()
}

// lagged notes a lag.
func (p *peer) lagged(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	if len(s.lags) < lags {
		s.lags = append(s.lags, d)
		s.next = len(s.lags) % lags
		return
	}
	s.lags[s.next] = d
	s.next = (s.next + 1) % lags
}

// received notes a message of the peer.
func (p *peer) received(a *Answer, size int) {
	p.mu.Lock()
	p.state.here.Add(a.Fate)
	p.state.received += int64(size)
	p.mu.Unlock()
}

// refuse notes why a message was refused.
func (p *peer) refuse(why string, now time.Time) {
	p.mu.Lock()
	p.state.refusal, p.state.refusedAt = why, now
	p.mu.Unlock()
}

// status returns what is known of the peer.
func (p *peer) status(now time.Time) region.Status {
	since, _, err := p.Failure()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	out := region.Status{
		Name: p.Name, CutOff: s.cut, CutTotal: s.cutTotal, LastUpdate: s.lastUpdate, Set: s.set, Lags: len(s.lags),
		Skew: s.skew, SkewKnown: s.known, Sent: s.bytes, Received: s.received, Messages: s.messages, Failures: s.failures,
		Accepted: s.accepted, FailingSince: since, Refuses: region.IsRefusal(err), There: s.there, Here: s.here,
		Refusal: s.refusal, RefusedAt: s.refusedAt,
	}
	if err != nil {
		out.Failure = err.Error()
	}
	if s.cut {
		out.CutFor = now.Sub(s.cutSince)
		out.CutTotal += out.CutFor
	}
	if len(s.lags) > 0 {
		out.LagNow = s.lags[(s.next+len(s.lags)-1)%len(s.lags)]
		out.LagP99 = p99(s.lags)
	}
	return out
}

func p99(ds []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[(len(sorted)*99+99)/100-1]
}

// Overview returns what this node knows.
func (x *Exchange) Overview() region.Overview {
	now := x.opt.Now()
	x.mu.Lock()
	waiting, estimates := x.box.Len(), x.estimates.list(now)
	x.mu.Unlock()
	o := region.Overview{Self: x.opt.Self, Interval: x.opt.Interval, Exported: x.counts.exported.Load(),
		Waiting: int64(waiting),
		Refused: x.counts.refused.Load(), Invalid: x.counts.invalid.Load(), Failing: x.failing.Load(), Rules: estimates}
	for _, p := range x.peers {
		o.Peers = append(o.Peers, p.status(now))
	}
	return o
}

// lag returns the longest 99th percentile, or two intervals while there is none.
func (x *Exchange) lag() time.Duration {
	most := time.Duration(0)
	for _, p := range x.peers {
		p.mu.Lock()
		if len(p.state.lags) > 0 {
			most = max(most, p99(p.state.lags))
		}
		p.mu.Unlock()
	}
	if most == 0 {
		most = 2 * x.opt.Interval
	}
	return most
}

const (
	// estimateTurn is half the time for which an estimate is remembered.
	estimateTurn = 10 * time.Second
	// mostEstimated bounds the buckets whose rate is measured, and mostRules the rules with an estimate.
	mostEstimated, mostRules = 20_000, 1000
)

// estimates holds the estimates of the rules whose buckets this node exports.
type estimates struct {
	last     map[limiter.Key]lastTaken
	now, old map[int64]region.Estimate
	turned   time.Time
}

type lastTaken struct {
	born, taken int64
	at          time.Time
}

func (e *estimates) init() {
	e.last, e.now, e.old = map[limiter.Key]lastTaken{}, map[int64]region.Estimate{}, map[int64]region.Estimate{}
}

// add measures the rate of a bucket since its last export here.
func (e *estimates) add(r *match.Compiled, l limiter.Limit, s *limiter.Exported, now time.Time, lag time.Duration,
	regions int) {
	e.turn(now)
	last, ok := e.last[s.Key]
	if !ok && len(e.last) >= mostEstimated {
		clear(e.last)
	}
	e.last[s.Key] = lastTaken{s.Sums.Born, s.Sums.Taken, now}
	past := now.Sub(last.at)
	if !ok || last.born != s.Sums.Born || past <= 0 || l.Capacity() == 0 {
		return
	}
	rate := float64(s.Sums.Taken-last.taken) / past.Seconds()
	percent := 100 * rate * lag.Seconds() * float64(regions-1) / float64(regions) / float64(l.Capacity())
	if was, ok := e.now[r.Rule.ID]; ok && was.OverPercent >= percent || !ok && len(e.now) >= mostRules {
		return
	}
	most := rules.DefaultMaxOver
	if r.Rule.MaxOverPercent != nil {
		most = *r.Rule.MaxOverPercent
	}
	e.now[r.Rule.ID] = region.Estimate{Rule: r.Rule.Name, OverPercent: percent, MaxOverPercent: most}
}

// turn forgets what is too old.
func (e *estimates) turn(now time.Time) {
	if now.Sub(e.turned) >= estimateTurn {
		e.old, e.now, e.turned = e.now, map[int64]region.Estimate{}, now
	}
}

// list returns the estimates in force by the names of their rules.
func (e *estimates) list(now time.Time) (out []region.Estimate) {
	e.turn(now)
	for id, old := range e.old {
		if e.now[id].OverPercent < old.OverPercent {
			out = append(out, old)
		}
	}
	for id, is := range e.now {
		if is.OverPercent >= e.old[id].OverPercent {
			out = append(out, is)
		}
	}
	slices.SortFunc(out, func(a, b region.Estimate) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}
