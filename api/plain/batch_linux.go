package plain

import (
	"context"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/api/decide"
)

// worker reads and answers what is ready when its turn comes.
type worker struct {
	l *Loop
	turn
	arena []byte    // what was read in this turn
	again []*owned  // the worker's, to be looked at again: something has happened to them
	spare []*owned  // memory of again
	ready []pending // requests to decide together: their callers wait equally long
	asks  []Ask     // of ready
	outs  [][]byte  // memory of answers
	stamps
}

// pending is the whole request with which the bytes of a connection begin.
type pending struct {
	c      *owned
	head   head
	waited time.Duration // to be read, in a crowded turn
}

const (
	// mostReady is how many requests are decided together at most: a script call carries no more.
	mostReady = 100
	// arenaSize is how much is read in a turn, and room how much of one connection at once: about as much is kept for a
	// client that sends many requests and reads no answers.
	arenaSize, room = 256 << 10, 16 << 10
)

// serve does what the events say, and all that follows from it.
func (w *worker) serve(events []unix.EpollEvent) {
	for i := range events {
		if c := w.l.of(&events[i]); c != nil && c.event(events[i].Events) {
			w.attend(c)
		}
	}
	for len(w.ready)+len(w.again) > 0 {
		w.divide()
		if w.l.slow.Load() || len(w.ready) >= many {
			w.l.passOn(w)
		}
		w.decide()
		w.arena = w.arena[:0]
		again := w.again
		w.again = w.spare[:0]
		for _, c := range again {
			w.attend(c)
		}
		clear(again)
		w.spare = again[:0]
	}
}

// attend does what c is ready for: it goes on with an answer, or reads the next request.
func (w *worker) attend(c *owned) {
	defer w.l.contain(c)
	if len(c.out) > 0 {
		w.flush(c)
		return
	}
	h, maxBody := head{}, w.l.s.d.MaxBody
	for read := false; ; read = true {
		if read {
			if n := w.read(c); n == 0 {
				return
			}
		}
		var found finding
		var why string
		switch c.in, found, why = scan(c.in, c.used.Load(), &h, maxBody); {
		case found == whole && len(w.ready) < mostReady:
			w.take(c, &h)
			return
		case found == whole:
			w.lookAgain(c)
			return
		case found == foreign:
			c.handOver(why)
			return
		case read && c.empty && !c.half.Load():
			w.await(c, found)
			return
		}
	}
}

// read reads once, and returns the number of bytes. 0 means that no more can be read from c now: it ended, or waits, or
// this turn has no room.
func (w *worker) read(c *owned) int {
	var to []byte
	if at := len(w.arena); len(c.in) > 0 {
		c.grow()
		to = c.in[len(c.in):cap(c.in)]
	} else {
		if c.own = false; w.arena == nil {
			w.arena = make([]byte, 0, arenaSize)
		}
		if at+room > cap(w.arena) {
			w.lookAgain(c)
			return 0
		}
		to = w.arena[at : at+room]
	}
	n, err := w.fill(c, to)
	if n == 0 {
		_, found, _ := scan(c.in, c.used.Load(), new(head), w.l.s.d.MaxBody)
		switch {
		case err == syscall.EAGAIN: //nolint:errorlint // an errno
			w.await(c, found)
		case found == part:
			c.handOver(cutShort) // net/http meets the same end
		default:
			c.close()
		}
		return 0
	}
	if c.empty = n < len(to); c.own {
		c.in = c.in[:len(c.in)+n]
	} else {
		w.arena = w.arena[:len(w.arena)+n]
		c.in = to[:n:n]
	}
	return n
}

// fill reads what c has into p.
func (w *worker) fill(c *owned, p []byte) (n int, err error) {
	c.waited = 0
	if !w.crowded {
		return read(c.fd, p)
	}
	n, arrived, err := w.stamps.read(c.fd, p)
	c.waited = w.l.waited(arrived)
	return n, err
}

// await releases c until more of a request arrives.
func (w *worker) await(c *owned, found finding) {
	c.keep()
	if at := now() + int64(patience); found == part && at < c.due.Load() {
		c.due.Store(at)
		w.l.soon(c)
	}
	if !c.release() {
		w.lookAgain(c)
	}
}

// lookAgain keeps c for another read.
func (w *worker) lookAgain(c *owned) {
	c.keep()
	w.again = append(w.again, c)
}

// take puts a whole request into the batch.
func (w *worker) take(c *owned, h *head) {
	follows := len(c.in) > h.size+h.body
	c.follows.Store(follows)
	number := c.number.Add(1)
	if c.half.Load() && !follows {
		c.leavesLater(number)
	}
	w.ready = append(w.ready, pending{c: c, head: *h, waited: c.waited})
	c.waited = 0 // later requests of a pipeline wait for this answer anyway
}

// divide keeps the requests whose callers wait as long as the first caller in the batch. Other workers answer the other
// requests at the same time.
func (w *worker) divide() {
	for i := range w.ready {
		if w.ready[i].head.timeout != w.ready[0].head.timeout {
			w.send(i)
			return
		}
	}
}

// send gives the requests from i on that do not belong to the batch to other workers.
func (w *worker) send(i int) {
	apart := map[time.Duration]*worker{}
	kept := w.ready[:i]
	for _, r := range w.ready[i:] {
		d := r.head.timeout
		if d == w.ready[0].head.timeout {
			kept = append(kept, r)
			continue
		}
		if apart[d] == nil {
			apart[d] = &worker{l: w.l}
		}
		r.c.keep()
		scan(r.c.in, r.c.used.Load(), &r.head, w.l.s.d.MaxBody) // its memory has moved
		apart[d].ready = append(apart[d].ready, r)
	}
	clear(w.ready[len(kept):])
	w.ready = kept
	for _, other := range apart {
		w.l.workers.Go(func() { other.serve(nil) })
	}
}

// decide has the batch decided, and sends the answers.
func (w *worker) decide() {
	if len(w.ready) == 0 {
		return
	}
	defer w.contain()
	s := w.l.s
	for i := range w.ready {
		if i == len(w.outs) {
			w.outs = append(w.outs, make([]byte, headRoom, smallOut))
		}
		c, h := w.ready[i].c, &w.ready[i].head
		w.asks = append(w.asks, Ask{Call: c.call(h, nil), Client: c, Traceparent: h.traceparent,
			Body: c.in[h.size : h.size+h.body], Gone: &c.gone, Late: decide.TooLate(w.ready[i].waited, h.timeout),
			Out: w.outs[i][:headRoom]})
	}
	ctx, began := context.Background(), now()
	if d := w.ready[0].head.timeout; d > 0 {
		ctx = decide.WithPatience(ctx, d)
	}
	s.d.CheckAll(ctx, w.asks)
	ended := now()
	for len(w.ready) > 0 { // answered requests no longer belong to the worker
		i := len(w.ready) - 1
		s.d.Checked()
		r := w.ready[i]
		if w.ready = w.ready[:i]; ended-began > int64(s.d.Write) {
			r.c.close()
		} else {
			w.write(&r, i, ended)
		}
	}
	clear(w.ready[:len(w.asks)])
	clear(w.asks)
	w.asks = w.asks[:0]
}

// contain closes the connections of the batch at a panic. Somebody may still use their memory.
func (w *worker) contain() {
	if v := recover(); v != nil {
		w.l.s.recovered(w.ready[0].c, v)
		for i := range w.ready {
			w.ready[i].c.close()
		}
		w.ready, w.asks, w.outs, w.arena = nil, nil, nil, nil
	}
}

// write sends the answer to request i of the batch.
func (w *worker) write(r *pending, i int, at int64) {
	s, c, a := w.l.s, r.c, &w.asks[i]
	defer w.l.contain(c)
	size := r.head.size + r.head.body
	c.last = c.closing(size)
	b := s.frame(a.Out, a.Problem, c.last)
	if w.outs[i] = a.Out; cap(a.Out) > largestOut {
		w.outs[i] = make([]byte, headRoom, smallOut)
	}
	c.in = c.in[size:]
	c.used.Store(true)
	n, err := write(c.fd, b)
	switch {
	case n == len(b):
		w.answered(c, at)
	case err == nil || err == syscall.EAGAIN: //nolint:errorlint // an errno
		c.out = append([]byte(nil), b[n:]...)
		c.due.Store(at + int64(s.d.Write))
		w.l.soon(c)
		w.lookAgain(c) // it may have room by now
	default:
		c.close()
	}
}

// flush goes on with an answer.
func (w *worker) flush(c *owned) {
	for len(c.out) > 0 {
		n, err := write(c.fd, c.out)
		switch {
		case err == nil:
			c.out = c.out[n:]
		case err != syscall.EAGAIN: //nolint:errorlint // an errno
			c.close()
			return
		case !c.release():
			w.lookAgain(c)
			return
		default:
			return
		}
	}
	c.out, c.empty = nil, false // the kernel has reported later input, which was not read
	w.answered(c, now())
}

// answered ends a request whose answer was sent.
func (w *worker) answered(c *owned, at int64) {
	c.rest(at)
	switch {
	case c.last:
		c.close()
	case c.gone.Load():
		c.handOver(clientLeft)
	case len(c.in) >= leastRead || !c.empty || c.half.Load():
		w.lookAgain(c)
	default:
		if c.keep(); len(c.in) == 0 {
			c.in = nil
		}
		if !c.release() {
			w.lookAgain(c)
		}
	}
}

// closing reports whether the answer to the request of that size is the last one of the connection: during a drain, it
// is unless another request has arrived. A client that never stops sending them is not waited for.
func (c *owned) closing(size int) bool {
	if !c.loop.s.d.Draining() {
		return false
	}
	if c.drained += size; c.drained > mostDrained {
		return true
	}
	if len(c.in) == size {
		c.grow()
		n, _ := read(c.fd, c.in[size:cap(c.in)]) // the next read returns the same error
		c.in = c.in[:size+n]
	}
	return len(c.in) < size+leastRead
}
