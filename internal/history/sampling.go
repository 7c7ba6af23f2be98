package history

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
)

// allowed samples the allowed requests of a second: the first one and then one in stride, at most maxSamples.
type allowed struct {
	seen, stride atomic.Int64 // stride is at least 1

	mu   sync.Mutex
	list []Request
}

// SampleAllowed counts an allowed request, and reports whether it is to be sampled with KeepAllowed.
func (r *Recorder) SampleAllowed() bool {
	before, stride := r.allowed.seen.Add(1)-1, r.allowed.stride.Load()
	return before%stride == 0 && before/stride < maxSamples
}

// KeepAllowed keeps an allowed request as a sample.
func (r *Recorder) KeepAllowed(d Request) {
	r.allowed.mu.Lock()
	defer r.allowed.mu.Unlock()
	if len(r.allowed.list) < maxSamples {
		r.allowed.list = append(r.allowed.list, d)
	}
}

// take returns up to n samples of the second that has ended, spread over it. The stride of the next one follows from
// what was seen.
func (a *allowed) take(n int) []Request {
	a.stride.Store(max(1, (a.seen.Swap(0)+maxSamples-1)/maxSamples))
	a.mu.Lock()
	list := a.list
	a.list = nil
	a.mu.Unlock()
	if len(list) <= n {
		return list
	}
	out := make([]Request, n)
	for i := range out {
		out[i] = list[i*len(list)/n]
	}
	return out
}

// samples are marshalled samples by list.
type postedSamples map[string][]string

// takeSamples names the samples of the last second and lets them wait for the board.
func (p *Publisher) takeSamples(denied, allowed []Request) {
	for list, samples := range map[string][]Request{deniedList: denied, allowedList: allowed} {
		p.fresh[list] = p.fresh[list][:0]
		for i := range samples {
			d := &samples[i]
			p.serial++
			d.Node, d.ID = p.node, p.node+"-"+strconv.FormatInt(p.serial, 36)
			text, err := json.Marshal(d)
			if err != nil {
				continue
			}
			p.fresh[list] = append(p.fresh[list], string(text))
			if len(p.waiting[list]) < maxUnposted {
				p.waiting[list] = append(p.waiting[list], string(text))
			}
		}
	}
}

// postSamples appends the queued samples to the lists on the board.
func (p *Publisher) postSamples(ctx context.Context) error {
	for list, waiting := range p.waiting {
		if err := p.opt.Board.Append(ctx, list, waiting, sampleLists[list]); err != nil {
			return err
		}
		p.waiting[list] = waiting[:0]
	}
	return nil
}
