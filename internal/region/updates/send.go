package updates

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice/internal/region"
	"sluice/limiter"
	"sluice/rules/match"
)

const (
	// MediaType is the media type of messages.
	MediaType = "application/vnd.sluice.regions"
	// sendWait bounds one message.
	sendWait = 2 * time.Second
	// mostAnswer bounds an answer, in bytes.
	mostAnswer = 64 << 10
	// mostAtOnce is how many buckets are sent in one message, and mostUnderWay how many messages are not answered yet.
	mostAtOnce, mostUnderWay = 10_000, 8
)

// peer is another region, as this node sees it.
type peer struct {
	*region.Link

	mu    sync.Mutex
	since time.Time // units that wait to be sent were spent after this instant; zero if none wait
	beat  bool      // a message is due even without buckets: it says that this region is there
	state peerState

	unanswered time.Time // when it last did not answer a restore, zero if it answered, or if that is not shown any more
}

// nudge wakes the sending goroutine. exported says that buckets wait whose units were spent after since.
func (p *peer) nudge(since time.Time, exported, beat bool) {
	p.mu.Lock()
	if exported && p.since.IsZero() {
		p.since = since
	}
	p.beat = p.beat || beat
	p.mu.Unlock()
	p.Wake()
}

// lacks notes that the peer still lacks what was spent after an instant, zero for nothing, and whether a message is due
// even without buckets.
func (p *peer) lacks(since time.Time, beat bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = p.beat || beat
	if !since.IsZero() && (p.since.IsZero() || since.Before(p.since)) {
		p.since = since
	}
}

// recalled notes whether the peer has answered a restore: err is nil if it has.
func (p *peer) recalled(err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered = (time.Time{}); err != nil {
		p.unanswered = now
	}
}

// endsUnanswered reports whether it was shown for long enough that the peer did not answer a restore.
func (p *peer) endsUnanswered(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.unanswered.IsZero() || now.Sub(p.unanswered) < restoreShown {
		return false
	}
	p.unanswered = time.Time{}
	return true
}

// sendTo sends to a peer whatever it lacks, until ctx ends, to its addresses in turn. It does not wait for an answer
// before the next interval's message, which may take longer than an interval.
func (x *Exchange) sendTo(ctx context.Context, p *peer) {
	var sending sync.WaitGroup
	defer sending.Wait()
	underWay := make(chan struct{}, mostUnderWay)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Awake():
		}
		select {
		case <-ctx.Done():
			return
		case underWay <- struct{}{}:
		}
		sending.Go(func() {
			defer func() { <-underWay }()
			for x.send(ctx, p) {
			}
		})
	}
}

// send sends what the peer lacks now to the next of its nodes, and reports whether there may be more.
func (x *Exchange) send(ctx context.Context, p *peer) (more bool) {
	node := p.Node()
	p.Leave(node)
	x.mu.Lock()
	updates := x.box.Next(p.Name, mostAtOnce)
	x.mu.Unlock()
	p.mu.Lock()
	since, beat := p.since, p.beat
	p.since, p.beat = time.Time{}, false
	p.mu.Unlock()
	if len(updates) == 0 && !beat {
		return false
	}
	m := &Message{Head: region.Head{From: x.opt.Self, To: p.Name, Prefix: x.opt.Prefix,
		At: x.opt.Now().UnixMilli()}, CutOff: x.cut.Load().from, Buckets: bucketsOf(updates)}
	if set := x.opt.Sets.Load(); set != nil {
		m.Set = set.Version()
	}
	lacking := func(limiter.Key) bool { return false }
	for _, body := range Encode(m) {
		start := x.opt.Now()
		answer, err := x.post(ctx, p, node, body)
		took := x.opt.Now().Sub(start)
		if ctx.Err() != nil {
			return false
		}
		p.sent(x.opt.Trouble, p.URL(node), answer, err, start, took, int64(len(body)))
		if err != nil {
			p.lacks(since, true) // so that this node learns when it reaches the peer again
			x.mu.Lock()
			x.box.Lost(p.Name, updates)
			x.mu.Unlock()
			return false
		}
		x.accepted(ctx, p)
		if p.endsUnanswered(x.opt.Now()) {
			x.opt.Trouble.Clear(restoreFailing, p.Name)
		}
		if answer.Unknown > 0 && answer.Set < m.Set { // its rules will follow
			lacking = answer.lacks(lacking)
			p.lacks(since, false)
			since = time.Time{}
		}
		if !since.IsZero() && len(updates) > 0 {
			p.lagged(start.Add(took / 2).Sub(since))
		}
	}
	accepted, lost := split(updates, lacking)
	x.mu.Lock()
	x.box.Accepted(p.Name, accepted)
	if len(lost) > 0 {
		x.box.Lost(p.Name, lost)
	}
	x.mu.Unlock()
	p.accepted(len(accepted))
	x.confirmNow(ctx)
	return len(accepted) == mostAtOnce
}

// lacks reports of a bucket whether the region that answers cannot have accepted it, because it does not have the rule
// yet, or before says so of an earlier message.
func (a *Answer) lacks(before func(limiter.Key) bool) func(limiter.Key) bool {
	return func(key limiter.Key) bool {
		id, _ := match.RuleID(key)
		return before(key) || len(a.UnknownRules) == 0 || slices.Contains(a.UnknownRules, id)
	}
}

// split divides updates by whether the peer has accepted them.
func split(updates []Update, lacking func(limiter.Key) bool) (accepted, lost []Update) {
	for _, s := range updates {
		if lacking(s.Key) {
			lost = append(lost, s)
		} else {
			accepted = append(accepted, s)
		}
	}
	return accepted, lost
}

func bucketsOf(updates []Update) []Bucket {
	out := make([]Bucket, len(updates))
	for i, s := range updates {
		out[i] = Bucket{Key: s.Key, Sums: s.Sums}
	}
	return out
}

// post sends one message to a node of a peer.
func (x *Exchange) post(ctx context.Context, p *peer, node uint32, body []byte) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	reply, err := p.Ask(ctx, node, MediaType, body, mostAnswer)
	if err != nil {
		return nil, err
	}
	var a Answer
	if err := json.Unmarshal(reply, &a); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if a.From != p.Name {
		return nil, fmt.Errorf("the answer is from %q, not from that region", a.From)
	}
	return &a, nil
}
