package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"sluice/internal/region"
)

// hurried is the number of times in an interval that a region asks while it lacks units.
const hurried = 4

// sendTo sends to a peer what is due until ctx ends.
func (x *Shares) sendTo(ctx context.Context, p *region.Link) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.Awake():
		}
		if _, err := x.send(ctx, p); err != nil && ctx.Err() == nil {
			x.opt.Log.Debug("a message about shares was not sent, or its answer was not kept", "region", p.Name, "error", err)
		}
	}
}

// send sends one message if one is due and no other node of this region sends it, and reports whether the answer was
// kept.
func (x *Shares) send(ctx context.Context, p *region.Link) (kept bool, err error) {
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
	var m *Message
	var sent int64
	if err := x.step(ctx, specs, func(s *State, now int64) {
		m, sent = s.Message(&x.cfg, p.Name, specs, now), now
		m.Set = set.Version()
	}); err != nil || m == nil {
		return false, err
	}
	node := p.Node()
	a, err := x.post(ctx, p, node, m)
	if errors.Is(err, context.Canceled) {
		return false, err // this node stops
	}
	x.opt.Trouble.Note(messagesFailing, p.Name, err)
	p.Note(err, x.opt.Now())
	if err != nil {
		p.Leave(node)
		return false, err
	}
	return true, x.step(ctx, specs, func(s *State, now int64) { s.Accept(&x.cfg, a, specs, sent, now) })
}

// due reports whether this node is to send a message now. A node that did not reach the peer leaves its turns to the
// other nodes, and makes an attempt now and then to learn when it reaches the peer again.
func (x *Shares) due(ctx context.Context, p *region.Link, turn string, pause time.Duration) (bool, error) {
	if _, tried, failed := p.Failure(); failed != nil {
		return x.opt.Now().Sub(tried) >= min(pause, max(x.opt.Interval/hurried, x.every)), nil
	}
	return x.opt.Book.Turn(ctx, turn, pause)
}

// post sends one message to a node of a peer.
func (x *Shares) post(ctx context.Context, p *region.Link, node uint32, m *Message) (*Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, sendWait)
	defer cancel()
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	reply, err := p.Ask(ctx, node, MediaType, body, region.MaxMessage+1)
	if err != nil {
		return nil, err
	}
	a, err := DecodeAnswer(reply, x.opt.Now().UnixMilli())
	if err == nil && a.From != m.To {
		err = fmt.Errorf("%w: %q answers for %q", region.ErrMessage, a.From, m.To)
	}
	return a, err
}
