package client

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"sluice/internal/gather"
)

// nearCalls makes the calls of a Near. A call carries everything that waits: settlements, followed by reserves, which
// may take the units that the settlements give back. A reserve for which a caller waits is sent as soon as a call may
// start, under the same condition as for checks (see dispatcher). The others wait for such a call, but only for a
// bounded time: a reserve ahead for nearGather, a settlement for its own time.
type nearCalls struct {
	near   *Near
	ctx    context.Context // of all calls
	cancel context.CancelFunc
	work   sync.WaitGroup // the goroutines of calls and refunds

	mu          sync.Mutex
	reserves    gather.Queue[*nearReserve]
	settlements gather.Queue[*nearSettlement]
	calls       int         // in flight
	carried     int         // reserves and settlements in them
	due         bool        // the queue is sent as soon as a call may start
	timer       *time.Timer // makes it due, nil if none runs
	lost        []Check     // reserves whose answers were lost, to be refunded by their ids
	refunding   bool
	ending      bool // Close sends the rest, and nothing is sent a third time
	closed      bool
}

// nearReserve is a reserve and its answer.
type nearReserve struct {
	place gather.Item[*nearReserve]
	key   *nearKey
	fill  *nearFill
	id    string
	body  []byte

	sent   int64 // ns, when its call began
	answer Answer
	err    error
}

// nearSettlement reports what became of a lease, or denials.
type nearSettlement struct {
	place gather.Item[*nearSettlement]
	body  []byte
	left  int64 // requests that it gives back
	// once: each report counts, so that it must not be repeated if it may have arrived.
	once bool
	// by is when it goes at the latest, and until when the service takes it, ns.
	by, until int64
	tries     int
}

const (
	reservePath      = "/ratelimit/reserve"
	reserveBatchPath = "/ratelimit/reserve/batch"
	// maxNearItems and maxNearBytes bound a call, of reserves and of settlements each; the service accepts no more.
	maxNearItems, maxNearBytes = 100, 31 << 10
	// nearGather is how long a reserve waits for others that nobody waits for, a part of a Near's Target.
	nearGather = 20
	// nearRide is how long a settlement that gives nothing back waits for a reserve, ns.
	nearRide = 400 * ms
	// maxNearLost is how many lost reserves wait for their refund; others are lost.
	maxNearLost = 4096
)

func (d *nearCalls) start(n *Near) {
	d.near = n
	d.ctx, d.cancel = context.WithCancel(context.Background())
}

// reserve queues a reserve. ahead: nobody waits for it yet.
func (d *nearCalls) reserve(r *nearReserve, ahead bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reserves.Push(&r.place, r, 1, len(r.body)+1)
	switch {
	case !ahead:
		d.due = true
		d.startCalls()
	case d.timer == nil && !d.due:
		d.timer = time.AfterFunc(d.near.opt.Target/nearGather, d.makeDue)
	}
}

// settle queues a settlement. It reports false after Close.
func (d *nearCalls) settle(s *nearSettlement) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	d.settlements.Push(&s.place, s, 1, len(s.body)+1)
	return true
}

// flush has what waits sent, if a settlement has waited for long enough.
func (d *nearCalls) flush(now int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.settlements.All() {
		if s.by <= now {
			d.due = true
			break
		}
	}
	d.startCalls()
}

func (d *nearCalls) makeDue() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer = nil; !d.ending {
		d.due = true
		d.startCalls()
	}
}

// startCalls has what waits sent while it is due and calls may start. d.mu is held.
func (d *nearCalls) startCalls() {
	for d.due && !d.closed {
		n := min(d.reserves.Len(), maxNearItems) + min(d.settlements.Len(), maxNearItems)
		if n == 0 {
			d.due = false
			return
		}
		if d.calls > 0 && (d.calls >= maxCalls || n < d.carried) {
			return
		}
		b := d.take()
		d.calls, d.carried = d.calls+1, d.carried+b.size()
		d.work.Go(func() {
			d.send(b)
			d.mu.Lock()
			defer d.mu.Unlock()
			d.calls, d.carried = d.calls-1, d.carried-b.size()
			d.startCalls()
		})
	}
}

// nearBatch is what one call carries.
type nearBatch struct {
	settlements []*nearSettlement
	reserves    []*nearReserve
}

func (b *nearBatch) size() int { return len(b.settlements) + len(b.reserves) }

// take removes a batch from the queue. d.mu is held.
func (d *nearCalls) take() *nearBatch {
	b := &nearBatch{}
	b.settlements, _ = d.settlements.Take(nil, maxNearItems, maxNearBytes, nil)
	b.reserves, _ = d.reserves.Take(nil, maxNearItems, maxNearBytes, nil)
	return b
}

// send makes one call, or, if the service refuses it because something in it is not valid, one for each of its parts.
func (d *nearCalls) send(b *nearBatch) {
	settled, err := d.exchange(b)
	var p *Problem
	if b.size() > 1 && errors.As(err, &p) && (p.Status == http.StatusUnprocessableEntity ||
		p.Status == http.StatusBadRequest || p.Status == http.StatusRequestEntityTooLarge) {
		for i := range b.settlements {
			d.send(&nearBatch{settlements: b.settlements[i : i+1]})
		}
		for i := range b.reserves {
			d.send(&nearBatch{reserves: b.reserves[i : i+1]})
		}
		return
	}
	for i, s := range b.settlements {
		d.settled(s, settled[i], err)
	}
	for _, r := range b.reserves {
		if err != nil {
			r.err = err
		}
		r.key.learn(r)
		if r.err != nil && Unavailable(r.err) && !errors.Is(r.err, errBreaker) && !Overloaded(r.err) {
			d.refund(r) // it may have been charged
		}
	}
}

// exchange makes one call. It sets the results of the reserves, and returns the results of the settlements. An error
// concerns all of them.
func (d *nearCalls) exchange(b *nearBatch) ([]nearResult, error) {
	c, wait := d.near.c, d.near.c.timeout
	if len(b.reserves) == 0 {
		wait = c.callTimeout
	}
	ctx, cancel := context.WithTimeout(d.ctx, wait)
	defer cancel()
	sent := d.near.now()
	for _, r := range b.reserves {
		r.sent = sent
	}
	settled := make([]nearResult, len(b.settlements))
	d.near.counts.calls.Add(1)
	if len(b.reserves) == 1 && len(b.settlements) == 0 {
		return settled, c.decide(ctx, d.ctx, reservePath, b.reserves[0].body, &b.reserves[0].answer)
	}
	var got nearResults
	err := c.decide(ctx, d.ctx, reserveBatchPath, b.encode(), &got)
	switch {
	case err != nil:
		return settled, err
	case len(got.Settlements) != len(b.settlements) || len(got.Reserves) != len(b.reserves):
		return settled, errResults
	}
	for i, r := range b.reserves {
		if got.Reserves[i].Problem != nil {
			r.err = got.Reserves[i].Problem
		} else {
			r.err = r.answer.read(got.Reserves[i].Answer)
		}
	}
	return got.Settlements, nil
}

// encode returns the body of a batch.
func (b *nearBatch) encode() []byte {
	out := []byte(`{"settlements":[`)
	for i, s := range b.settlements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, s.body...)
	}
	out = append(out, `],"reserves":[`...)
	for i, r := range b.reserves {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, r.body...)
	}
	return append(out, "]}"...)
}

// nearResults are the results of a batch.
type nearResults struct {
	Settlements []nearResult `json:"settlements"`
	Reserves    []nearResult `json:"reserves"`
}

// nearResult is an answer, or why there is none.
type nearResult struct {
	Answer  json.RawMessage `json:"answer"`
	Problem *Problem        `json:"problem"`
}

// settled ends a settlement, or queues it again. err is the error of its call.
func (d *nearCalls) settled(s *nearSettlement, got nearResult, err error) {
	var a struct {
		Refunded int64 `json:"refunded"`
	}
	if err == nil && got.Problem != nil {
		err = got.Problem
	}
	if err == nil {
		err = json.Unmarshal(got.Answer, &a)
	}
	if err != nil && Unavailable(err) && d.again(s, err) {
		return
	}
	if a.Refunded > 0 {
		d.near.counts.returned.Add(s.left)
	} else {
		d.near.counts.lost.Add(s.left)
	}
}

// again queues a settlement that failed, and reports whether it does.
func (d *nearCalls) again(s *nearSettlement, err error) bool {
	var p *Problem
	var dial *net.OpError
	undone := errors.Is(err, errBreaker) || errors.As(err, &p) && p.Status == http.StatusServiceUnavailable ||
		errors.As(err, &dial) && dial.Op == "dial"
	now := d.near.now()
	s.tries++
	s.by = now + nearRetry
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.once && !undone || now >= s.until || d.ending && s.tries > 1 || d.closed {
		return false
	}
	d.settlements.Push(&s.place, s, 1, len(s.body)+1)
	d.due = d.ending || d.due && d.reserves.Len() > 0 // otherwise the service would be asked again at once
	return true
}

// refund gives back what a reserve whose answer was lost may have charged.
func (d *nearCalls) refund(r *nearReserve) {
	q := r.key.q
	q.RequestID = r.id
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.lost) == maxNearLost || d.closed {
		return
	}
	d.lost = append(d.lost, q)
	if !d.refunding {
		d.refunding = true
		d.work.Go(d.refundAll)
	}
}

func (d *nearCalls) refundAll() {
	for {
		d.mu.Lock()
		if len(d.lost) == 0 || d.ctx.Err() != nil {
			d.refunding = false
			d.mu.Unlock()
			return
		}
		q := d.lost[0]
		d.lost = d.lost[1:]
		d.mu.Unlock()
		d.near.counts.calls.Add(1)
		_, _ = d.near.c.Refund(d.ctx, q)
	}
}

// close sends the queue, for at most within. The rest is then lost.
func (d *nearCalls) close(within time.Duration) {
	defer d.cancel()
	defer time.AfterFunc(within, d.cancel).Stop()
	d.mu.Lock()
	d.ending = true
	d.mu.Unlock()
	for {
		d.mu.Lock()
		d.due = true
		d.startCalls()
		d.mu.Unlock()
		d.work.Wait()
		d.mu.Lock()
		if d.settlements.Len()+d.reserves.Len() == 0 {
			d.end()
			d.mu.Unlock()
			return
		}
		d.mu.Unlock()
	}
}

// end lets nothing more be sent. d.mu is held.
func (d *nearCalls) end() {
	d.closed = true
	if d.timer != nil {
		d.timer.Stop()
	}
}
