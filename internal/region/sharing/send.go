package sharing

import (
	"context"
	"encoding/json"
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

	mu      sync.Mutex
	failure string    // why the last message was not taken, "" if it was
	failing time.Time // since when
}

// nudge wakes the goroutine that sends.
func (p *peer) nudge() {
	select {
	case p.wake <- struct{}{}:
	default: // it is awake already
	}
}

// sendTo tells a peer what is due until ctx ends. After a failure it goes on with the peer's next address.
func (x *Shares) sendTo(ctx context.Context, p *peer) {
	at := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		}
		told, err := x.tell(ctx, p, p.Addresses[at%len(p.Addresses)])
		if ctx.Err() != nil {
			return
		}
		if !told && err == nil {
			continue // that says nothing about the peer
		}
		p.mu.Lock()
		was := p.failure
		if p.failure = ""; err != nil {
			p.failure = err.Error()
			at++
		}
		if was == "" {
			p.failing = x.opt.Now()
		}
		p.mu.Unlock()
		switch {
		case err != nil && was == "":
			x.opt.Log.Warn("a region cannot be told about shares; loans from it end", "region", p.Name, "error", err)
		case err == nil && was != "":
			x.opt.Log.Info("a region can be told about shares again", "region", p.Name)
		}
	}
}

// tell sends one message if one is due and no other node of this region sends it, and reports whether it did.
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
	due, err := x.opt.Book.Turn(ctx, turn+p.Name, pause)
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
	if err != nil {
		return false, err
	}
	return true, x.step(ctx, specs, func(s *share.State, now int64) { s.Accept(&x.cfg, a, specs, sent, now) })
}

// post sends one message.
func (x *Shares) post(ctx context.Context, address string, m *share.Message) (*share.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	reply, err := exchange.Post(ctx, x.opt.Client, address, MediaType, x.opt.Token(), body, share.MaxMessage+1)
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
