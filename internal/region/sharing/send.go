package sharing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/internal/region/exchange"
	"sluice/internal/region/share"
)

// hurried is how many times an interval a region asks that lacks something.
const hurried = 4

// peer is another region, as this node sees it.
type peer struct {
	exchange.Peer
	wake chan struct{}

	at int // the address in use: the next one after a failure; of sendTo alone

	mu      sync.Mutex
	failure string    // why the last message was not taken, "" if it was
	since   time.Time // when that began, zero if it was
	tried   time.Time // when the last message was sent
}

// nudge wakes the goroutine that sends.
func (p *peer) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// sendTo tells a peer what is due until ctx ends.
func (x *Shares) sendTo(ctx context.Context, p *peer) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		if _, err := x.tell(ctx, p, p.Addresses[p.at%len(p.Addresses)]); err != nil && ctx.Err() == nil {
			x.opt.Log.Debug("a message about shares was not sent, or its answer was not kept", "region", p.Name, "error", err)
		}
	}
}

// tell sends one message if one is due and no other node of this region sends it, and reports whether the answer was
// kept.
func (x *Shares) tell(ctx context.Context, p *peer, address string) (told bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait+2*bookWait)
	defer cancel()
	set := x.opt.Sets.Load()
	t := x.inForce.Load()
	if set == nil || t == nil {
		return false, nil
	}
	specs := specsOf(set)
	turn, pause := "to:", x.opt.Interval*95/100
	now := t.at + x.opt.Now().Sub(t.read).Milliseconds()
	switch {
	case t.state.WaitsFor(p.Name):
		turn, pause = "ask:", x.every*95/100 // this region spends the least part until then
	case t.state.Lacks(&x.cfg, p.Name, specs, now):
		pause = max(pause/hurried, x.every)
	}
	due, err := x.due(ctx, p, turn+p.Name, pause)
	if err != nil || !due {
		return false, err
	}
	var m *share.Message
	var sent int64
	if err := x.step(ctx, specs, func(s *share.State, now int64) {
		m, sent = s.Message(&x.cfg, p.Name, specs, now), now
		m.Set = set.Version()
	}); err != nil || m == nil {
		return false, err
	}
	a, err := x.post(ctx, address, m)
	if errors.Is(err, context.Canceled) {
		return false, err // this node stops
	}
	if x.sent(p, err); err != nil {
		return false, err
	}
	return true, x.step(ctx, specs, func(s *share.State, now int64) { s.Accept(&x.cfg, a, specs, sent, now) })
}

// due reports whether this node is to send a message now. One that did not reach the peer leaves the turns to nodes
// that may, and tries by itself now and then, to learn when it reaches the peer again.
func (x *Shares) due(ctx context.Context, p *peer, turn string, pause time.Duration) (bool, error) {
	p.mu.Lock()
	failing, tried := p.failure != "", p.tried
	p.mu.Unlock()
	if failing {
		return x.opt.Now().Sub(tried) >= min(pause, max(x.opt.Interval/hurried, x.every)), nil
	}
	return x.opt.Book.Turn(ctx, turn, pause)
}

// sent notes what became of a message. After a failure the next one goes to the peer's next address.
func (x *Shares) sent(p *peer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x.opt.Trouble.Note(messagesFailing, p.Name, err)
	p.tried = x.opt.Now()
	if err == nil {
		p.failure, p.since = "", time.Time{}
		return
	}
	if p.failure == "" {
		p.since = p.tried
	}
	p.failure = err.Error()
	p.at++
}

// post sends one message.
func (x *Shares) post(ctx context.Context, address string, m *share.Message) (*share.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	reply, err := exchange.Post(ctx, x.opt.Client, address+exchange.Path, MediaType, x.opt.Token(), body,
		share.MaxMessage+1)
	if err == nil {
		err = reply.Refusal()
	}
	if err != nil {
		return nil, err
	}
	a, err := share.DecodeAnswer(reply.Body, x.opt.Now().UnixMilli())
	if err == nil && a.From != m.To {
		err = fmt.Errorf("%w: %q answers for %q", share.ErrMessage, a.From, m.To)
	}
	return a, err
}
