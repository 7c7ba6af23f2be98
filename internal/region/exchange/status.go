package exchange

import (
	"errors"
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

// SkewLimit is the difference between clocks from which it is shown as a fault.
const SkewLimit = 2 * time.Second

// lags is how many of the last lags are kept.
const lags = 256

// counts are those of this node since its start.
type counts struct {
	exported, refused, invalid atomic.Int64
}

// peerState is what this node knows of another region.
type peerState struct {
	cut       bool
	cutSince  time.Time
	cutTotal  time.Duration
	lastNews  time.Time
	set       int64
	lags      []time.Duration // a ring
	next      int
	skew      time.Duration // how far its clock is ahead
	known     bool          // skew is known
	bytes     int64
	told      int64
	messages  int64
	failures  int64
	failure   string
	refuses   bool
	failed    time.Time // when the first message failed after one that did not, zero if the last one did not
	answers   Answer    // the totals of those it has sent
	applied   Answer    // the totals of those it was sent
	received  int64     // bytes
	refusal   string
	refusedAt time.Time
	cutFrom   []string // what it says that it is cut off from, in order
}

// Status is what this node knows of another region.
type Status struct {
	Name string
	// CutOff: for three intervals no node of this region has had news of that one, or that one has taken none of this one.
	// CutFor is for how long, and CutTotal how long since the node has started, all in all.
	CutOff           bool
	CutFor, CutTotal time.Duration
	// LastNews is when this node last saw that news had arrived, zero for never.
	LastNews time.Time
	// Set is the version of its rules when it last sent something.
	Set int64
	// LagNow and LagP99 are the time from a unit spent here to the moment at which the other region decides with it, of
	// the last message and of the last 256. Lags is how many there were.
	LagNow, LagP99 time.Duration
	Lags           int
	// Skew is how far its clock is ahead of that of this node, if SkewKnown.
	Skew      time.Duration
	SkewKnown bool
	// Sent and Received are bytes, Messages and Failures what this node has sent, Told the buckets in them.
	Sent, Received, Messages, Failures, Told int64
	// Failure is why the last message failed, "" if it did not, and FailingSince when the first one did after one that did
	// not.
	Failure      string
	FailingSince time.Time
	// Refuses: the region answers and refuses the messages of this node. Failure says why.
	Refuses bool
	// Calls are of keys that are at home there. The exchange does not know them: internal/app fills them in.
	Calls region.Calls
	// There and Here are the totals of what became of buckets: of those sent there, and of those received here.
	There, Here Answer
	// Refusal is why this node has last refused a message of that region, and RefusedAt when.
	Refusal   string
	RefusedAt time.Time
}

// ClocksApart reports whether the clock of the region and that of this node are too far apart.
func (s *Status) ClocksApart() bool { return s.SkewKnown && s.Skew.Abs() > SkewLimit }

// heard notes whether news of the peer counts, and returns whether it is cut off.
func (p *peer) heard(what string, ok bool, now time.Time) (cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	if ok {
		var set, ahead int64
		if n, _ := fmt.Sscanf(what, "%d %d", &set, &ahead); n == 2 {
			s.set = set
		}
		s.cutFrom = nil
		if _, names, ok := strings.Cut(what, awayMark); ok {
			s.cutFrom = strings.Split(names, ",")
		}
		s.lastNews = now
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
func (p *peer) agrees(away []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Equal(p.state.cutFrom, away)
}

// sent notes what became of a message.
func (p *peer) sent(known *trouble.Registry, address string, a *Answer, err error, start time.Time, took time.Duration,
	size int64) {
	known.Note(messagesRefused, p.Name, err, "address", address)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	s.messages++
	if err != nil {
		s.failures++
		var refused *refusedError
		s.refuses = errors.As(err, &refused)
		if s.failure = err.Error(); s.failed.IsZero() {
			s.failed = start
		}
		return
	}
	s.failed, s.failure, s.refuses = time.Time{}, "", false
	s.bytes += size
	s.answers.add(a)
	s.skew, s.known = time.UnixMilli(a.At).Sub(start.Add(took/2)).Round(time.Millisecond), true
}

// fails reports whether the last message to the peer has failed.
func (p *peer) fails() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.state.failed.IsZero()
}

// told notes how many buckets the peer has taken.
func (p *peer) told(n int) {
	p.mu.Lock()
	p.state.told += int64(n)
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
	p.state.applied.add(a)
	p.state.received += int64(size)
	p.mu.Unlock()
}

// refuse notes why a message was refused.
func (p *peer) refuse(why string, now time.Time) {
	p.mu.Lock()
	p.state.refusal, p.state.refusedAt = why, now
	p.mu.Unlock()
}

func (a *Answer) add(b *Answer) {
	a.Applied, a.Repeated, a.Shrunk, a.Unknown = a.Applied+b.Applied, a.Repeated+b.Repeated, a.Shrunk+b.Shrunk,
		a.Unknown+b.Unknown
}

// status returns what is known of the peer.
func (p *peer) status(now time.Time) Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &p.state
	out := Status{
		Name: p.Name, CutOff: s.cut, CutTotal: s.cutTotal, LastNews: s.lastNews, Set: s.set, Lags: len(s.lags), Skew: s.skew,
		SkewKnown: s.known, Sent: s.bytes, Received: s.received, Messages: s.messages, Failures: s.failures, Told: s.told,
		Failure: s.failure, FailingSince: s.failed, Refuses: s.refuses, There: s.answers, Here: s.applied, Refusal: s.refusal,
		RefusedAt: s.refusedAt,
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

// Overview is what this node knows of all regions.
type Overview struct {
	Self string
	// Interval is that of the exports.
	Interval time.Duration
	Peers    []Status
	// Exported is how many buckets this node has exported, Waiting how many of them some region lacks, Refused how many
	// had no room, and Invalid how many messages were refused.
	Exported, Waiting, Refused, Invalid int64
	// Failing: the region's Redis does not answer the exchange.
	Failing bool
	Rules   []Estimate
	// Shares are of the limits that are divided. Like Status.Calls, internal/app fills them in.
	Shares region.Shares
}

// Overview returns what this node knows.
func (x *Exchange) Overview() Overview {
	now := x.opt.Now()
	x.mu.Lock()
	waiting, estimates := x.box.Len(), x.estimates.list(now)
	x.mu.Unlock()
	o := Overview{Self: x.opt.Self, Interval: x.opt.Interval, Exported: x.counts.exported.Load(), Waiting: int64(waiting),
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

// Estimate is by how much a rule may let through too much because of this region: what it spends of one key before the
// others have heard of it, as a part of the limit. The sum over all regions is that of the published formula.
type Estimate struct {
	Rule string
	// OverPercent is that of the busiest key in the last ten to twenty seconds, and MaxOverPercent what the rule says.
	OverPercent    float64
	MaxOverPercent int64
}

const (
	// estimateTurn is half the time for which an estimate is remembered.
	estimateTurn = 10 * time.Second
	// mostEstimated bounds the buckets whose rate is measured, and mostRules the rules with an estimate.
	mostEstimated, mostRules = 20_000, 1000
)

// estimates are those of the rules whose buckets this node exports.
type estimates struct {
	last     map[limiter.Key]lastTaken
	now, old map[int64]Estimate
	turned   time.Time
}

type lastTaken struct {
	born, taken int64
	at          time.Time
}

func (e *estimates) init() {
	e.last, e.now, e.old = map[limiter.Key]lastTaken{}, map[int64]Estimate{}, map[int64]Estimate{}
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
	e.now[r.Rule.ID] = Estimate{Rule: r.Rule.Name, OverPercent: percent, MaxOverPercent: most}
}

// turn forgets what is too old.
func (e *estimates) turn(now time.Time) {
	if now.Sub(e.turned) >= estimateTurn {
		e.old, e.now, e.turned = e.now, map[int64]Estimate{}, now
	}
}

// list returns the estimates in force by the names of their rules.
func (e *estimates) list(now time.Time) (out []Estimate) {
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
	slices.SortFunc(out, func(a, b Estimate) int { return strings.Compare(a.Rule, b.Rule) })
	return out
}
