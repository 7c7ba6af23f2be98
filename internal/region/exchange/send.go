package exchange

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
	// MediaType is that of messages.
	MediaType = "application/vnd.sluice.regions"
	// sendWait bounds one message. A link on which nothing arrives is given up then.
	sendWait = 2 * time.Second
	// mostAnswer bounds an answer, in bytes.
	mostAnswer = 64 << 10
	// mostAtOnce is how many buckets are sent in one message, and mostUnderWay how many messages are not answered yet.
	mostAtOnce, mostUnderWay = 10_000, 8
)

// peer is another region, as this node sees it.
type peer struct {
	Peer
	wake chan struct{}

	mu    sync.Mutex
	since time.Time // what waits to be told was spent after that; zero for nothing
	beat  bool      // it is to be told that this region is there
	state peerState
}

// nudge wakes the goroutine that sends, if there may be something to send.
func (p *peer) nudge(since time.Time, news, beat bool) {
	p.mu.Lock()
	if news && p.since.IsZero() {
		p.since = since
	}
	p.beat = p.beat || beat
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// lacks says that the peer still lacks what was spent after an instant, zero for nothing, and whether it is still to be
// told that this region is there.
func (p *peer) lacks(since time.Time, beat bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.beat = p.beat || beat
	if !since.IsZero() && (p.since.IsZero() || since.Before(p.since)) {
		p.since = since
	}
}

// sendTo sends to a peer whatever it lacks, until ctx ends, to its addresses in turn. It does not wait for an answer
// before the next interval's message, which may take longer than an interval.
func (x *Exchange) sendTo(ctx context.Context, p *peer) {
	var sending sync.WaitGroup
	defer sending.Wait()
	underWay := make(chan struct{}, mostUnderWay)
	for at := 0; ; at++ {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		select {
		case <-ctx.Done():
			return
		case underWay <- struct{}{}:
		}
		sending.Go(func() {
			defer func() { <-underWay }()
			for next := at; x.tell(ctx, p, p.Addresses[next%len(p.Addresses)]); next++ {
			}
		})
	}
}

// tell sends what the peer lacks now and reports whether there may be more.
func (x *Exchange) tell(ctx context.Context, p *peer, address string) (more bool) {
	x.mu.Lock()
	news := x.box.Next(p.Name, mostAtOnce)
	x.mu.Unlock()
	p.mu.Lock()
	since, beat := p.since, p.beat
	p.since, p.beat = time.Time{}, false
	p.mu.Unlock()
	if len(news) == 0 && !beat {
		return false
	}
	m := &region.Message{Head: region.Head{From: x.opt.Self, To: p.Name, Prefix: x.opt.Prefix,
		At: x.opt.Now().UnixMilli()}, Away: x.cut.Load().from, Buckets: bucketsOf(news)}
	if set := x.opt.Sets.Load(); set != nil {
		m.Set = set.Version()
	}
	lacking := func(limiter.Key) bool { return false }
	for _, body := range region.Encode(m) {
		start := x.opt.Now()
		answer, err := x.post(ctx, p.Name, address, body)
		took := x.opt.Now().Sub(start)
		if ctx.Err() != nil {
			return false
		}
		p.sent(x.opt.Trouble, address, answer, err, start, took, int64(len(body)))
		if err != nil {
			p.lacks(since, true) // so that this node learns when it reaches the peer again
			x.mu.Lock()
			x.box.Lost(p.Name, news)
			x.mu.Unlock()
			return false
		}
		x.taken(ctx, p)
		x.opt.Trouble.Note(restoreFailing, p.Name, nil)
		if answer.Unknown > 0 && answer.Set < m.Set { // its rules will follow
			lacking = answer.lacks(lacking)
			p.lacks(since, false)
			since = time.Time{}
		}
		if !since.IsZero() && len(news) > 0 {
			p.lagged(start.Add(took / 2).Sub(since))
		}
	}
	told, lost := split(news, lacking)
	x.mu.Lock()
	x.box.Told(p.Name, told)
	if len(lost) > 0 {
		x.box.Lost(p.Name, lost)
	}
	x.mu.Unlock()
	p.told(len(told))
	x.confirmNow(ctx)
	return len(told) == mostAtOnce
}

// lacks reports of a bucket whether the region that answers cannot have taken it, because it does not have the rule
// yet, or before says so of an earlier message.
func (a *Answer) lacks(before func(limiter.Key) bool) func(limiter.Key) bool {
	return func(key limiter.Key) bool {
		id, _ := match.RuleID(key)
		return before(key) || len(a.UnknownRules) == 0 || slices.Contains(a.UnknownRules, id)
	}
}

// split divides news by whether it was taken.
func split(news []region.News, lacking func(limiter.Key) bool) (told, lost []region.News) {
	for _, s := range news {
		if lacking(s.Key) {
			lost = append(lost, s)
		} else {
			told = append(told, s)
		}
	}
	return told, lost
}

func bucketsOf(news []region.News) []region.Bucket {
	out := make([]region.Bucket, len(news))
	for i, s := range news {
		out[i] = region.Bucket{Key: s.Key, Sums: s.Sums}
	}
	return out
}

// post sends one message to a region.
func (x *Exchange) post(ctx context.Context, to, address string, body []byte) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	reply, err := Post(ctx, x.opt.Client, address+Path, MediaType, x.opt.Token(), body, mostAnswer)
	if err == nil {
		err = reply.Refusal()
	}
	if err != nil {
		return nil, err
	}
	var a Answer
	if err := json.Unmarshal(reply.Body, &a); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if a.From != to {
		return nil, fmt.Errorf("the answer is from %q, not from that region", a.From)
	}
	return &a, nil
}
