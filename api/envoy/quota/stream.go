package quota

import (
	"container/heap"
	"errors"
	"math"

	"sluice/api/decide"
	"sluice/limiter"
)

// ErrTooManyBuckets means that a stream has no room for another bucket.
var ErrTooManyBuckets = errors.New("too many buckets")

const never = math.MaxInt64

// Stream is the buckets of one proxy.
type Stream struct {
	book    *Book
	caller  *Caller
	holders map[string]*Holder
	due     dueHeap
	out     []*Holder // have an answer to send
	returns []Return
	most    int
}

// Holder is a bucket of a stream.
type Holder struct {
	// ID names the bucket in its stream, and Bucket is what the proxy calls it.
	ID     string
	Bucket map[string]string

	stream *Stream
	key    string // in Book.shared, "" before the first Want
	place  int    // there
	demand float64
	heard  int64 // its last report
	idle   int
	// fresh: the proxy may hold a lump of another stream, which a new one would replace. It is asked for at due only.
	fresh  bool
	asking bool
	next   *Answer // waits to be sent
	lump   *lump   // the last that was sent
	owed   []*lump // the earlier lumps that have ended
	// The holder asks for no lump before notBefore, and, if only because the last one has ended, not before renew.
	notBefore, renew int64
	// got is what it got in the window that ends at gotUntil.
	got, gotUntil int64
	// others is the demand of other nodes at othersAt. doubt is a lump that may be charged although the store did not
	// confirm it. Only the goroutine that asks the store uses them.
	others   Demand
	othersAt int64
	doubt    *decide.LumpDoubt
	dueAt    int64
	index    int // in Stream.due, -1 if it is not there
}

// lump is units that a proxy has.
type lump struct {
	token       any
	units, used int64 // used is what was reported since it was sent, or more
	end         int64
	keep        int64 // after this instant giving back is of no use
	after       int   // reports that were counted since its end
	counted     int64 // when the last of them came
}

// report counts a report against a lump, and says whether all that was spent of the lump is known.
func (l *lump) report(allowed, now int64) bool {
	l.used = min(l.used+allowed, limiter.MaxExact)
	if now >= l.end+endWait && now >= l.counted+endEvery {
		l.after, l.counted = l.after+1, now
	}
	return l.after >= endReports
}

// spent reports whether a lump is known to have no units left.
func (l *lump) spent() bool { return l.used >= l.units }

// Return is units of a lump that were spent at most; the rest is given back.
type Return struct {
	Token any
	Spent int64
	Back  int64
}

// Answer is what became of a question about a holder.
type Answer struct {
	Rule Rule
	// Units were charged, Token stands for them, and they may be spent for Life ms from Sent.
	Units, Life, Sent int64
	Token             any
	// RetryAfter is the wait after a denial; 0 after a failure.
	RetryAfter int64

	windowEnd int64
}

// Open returns a new Stream of a caller with at most that many buckets.
func (b *Book) Open(c *Caller, most int) *Stream {
	return &Stream{book: b, caller: c, holders: map[string]*Holder{}, most: most}
}

// Close removes a stream. The units of its holders stay charged.
func (s *Stream) Close() {
	for _, h := range s.holders {
		s.drop(h)
	}
	s.out, s.returns = nil, nil
}

func (s *Stream) drop(h *Holder) {
	delete(s.holders, h.ID)
	s.count(h.ID, -1)
	s.book.leave(h)
	s.reschedule(h, never)
}

// Has reports whether the stream has a bucket.
func (s *Stream) Has(id string) bool { return s.holders[id] != nil }

// Len is how many buckets the stream has.
func (s *Stream) Len() int { return len(s.holders) }

// Report takes up a report about a bucket: how many requests were allowed and denied since the last one, each at most
// limiter.MaxExact.
func (s *Stream) Report(id string, bucket map[string]string, allowed, denied, now int64) error {
	h := s.holders[id]
	interval := int64(firstInterval)
	if h == nil {
		if len(s.holders) >= s.most {
			return ErrTooManyBuckets
		}
		h = &Holder{ID: id, Bucket: bucket, stream: s, index: -1, fresh: denied == 0, notBefore: now,
			othersAt: now - exchangeEvery}
		if h.fresh {
			h.notBefore = now + maxLife
		}
		s.holders[id] = h
		s.count(id, 1)
	} else {
		interval = max(minInterval, now-h.heard)
	}
	h.heard = now
	all := allowed + denied
	h.demand = max(float64(all)*second/float64(interval), h.demand/2) //nolint:mnd // half of it is forgotten
	if h.idle++; all > 0 {
		h.idle = 0
	}
	if h.fresh && denied > 0 {
		h.fresh, h.notBefore = false, now
	}
	h.settle(allowed, now)
	s.schedule(h, now)
	return nil
}

// settle counts allowed requests against the lumps, and returns the rest of the lumps whose spending is completely
// known.
func (h *Holder) settle(allowed, now int64) {
	if h.lump != nil && h.lump.report(allowed, now) {
		h.stream.giveBack(h.lump, now)
		h.lump = nil
	}
	kept := h.owed[:0]
	for _, l := range h.owed {
		if l.report(allowed, now) {
			h.stream.giveBack(l, now)
		} else {
			kept = append(kept, l)
		}
	}
	clear(h.owed[len(kept):])
	h.owed = kept
}

func (s *Stream) giveBack(l *lump, now int64) {
	if l.spent() || now >= l.keep {
		return
	}
	s.returns = append(s.returns, Return{Token: l.token, Spent: l.used, Back: l.units - l.used})
}

// Returns takes what is to be given back.
func (s *Stream) Returns() []Return {
	r := s.returns
	s.returns = nil
	return r
}

// schedule decides when something is to be done about a holder.
func (s *Stream) schedule(h *Holder, now int64) {
	at := max(h.renew, h.notBefore)
	live := h.lump != nil && now < h.lump.end
	switch {
	case h.asking || h.next != nil:
		at = never
	case h.idle >= idleReports && !live:
		if at = never; len(h.owed) == 0 && (h.lump == nil || h.lump.spent()) {
			at = now // to abandon it
		}
	case live && !h.lump.spent():
		at = max(at, h.lump.end)
	case live: // a further one, if it would last
		const worth = 2 * second
		if at = max(now, h.notBefore); at+worth > h.renew {
			at = max(at, h.renew)
		}
	}
	if !h.asking && h.next == nil && max(at, now) > h.heard+maxSilence {
		at = h.forgetAt()
	}
	s.reschedule(h, at)
}

// silent reports whether a proxy may not read what is sent about a holder, or no longer has the bucket: it reports all
// that it has.
func (h *Holder) silent(now int64) bool { return now-h.heard > maxSilence }

// forgetAt is when a holder is abandoned if no report names it before.
func (h *Holder) forgetAt() int64 {
	at := h.heard + forgetAfter
	if h.lump != nil {
		at = max(at, h.lump.end)
	}
	return at
}

// Due takes up to n holders about which the store is to be asked. The caller then calls Book.Want and Answered of each.
func (s *Stream) Due(n int, now int64) (list []*Holder) {
	for len(list) < n && len(s.due) > 0 && s.due[0].dueAt <= now {
		h := s.due[0]
		s.reschedule(h, never)
		live := h.lump != nil && now < h.lump.end
		switch {
		case h.idle >= idleReports && !live, now >= h.forgetAt():
			s.send(h, &Answer{})
			continue
		case h.silent(now):
			s.schedule(h, now)
			continue
		}
		h.asking, h.fresh = true, false
		list = append(list, h)
	}
	return list
}

// Next returns when Due has something to do, if no report comes before.
func (s *Stream) Next() (at int64, ok bool) {
	if len(s.due) == 0 {
		return 0, false
	}
	return s.due[0].dueAt, true
}

func (s *Stream) send(h *Holder, a *Answer) {
	h.next = a
	s.out = append(s.out, h)
}

// Answered processes the answer for a holder that was due. The stream may have closed meanwhile.
func (s *Stream) Answered(h *Holder, a *Answer, now int64) {
	if h.asking = false; s.holders[h.ID] != h {
		return
	}
	switch {
	case a.Rule.Refused, a.Rule.Unlimited:
		h.notBefore = now + maxLife
		s.send(h, a)
		return
	case a.Units > 0:
		if a.Rule.Kind == Drains {
			a.Life = a.Rule.life()
		}
		a.windowEnd = min(now, a.Sent+maxDelay) + a.Life + 1
		s.send(h, a)
		return
	}
	most := int64(maxRetry)
	if a.Rule.Kind != Ends {
		most = slideRetry
	}
	wait := a.RetryAfter
	if wait < 0 || wait > most {
		wait = most
	}
	h.notBefore = now + max(wait+1, minRetry)
	s.schedule(h, now)
}

// Act is what a proxy must do with a bucket.
type Act uint8

// The acts.
const (
	Abandon Act = iota
	Deny
	Allow
	Spend
)

// Action is for one bucket of a proxy.
type Action struct {
	Act    Act
	Bucket map[string]string
	Units  int64
	// TTL is in whole seconds.
	TTL int64
}

// Actions takes up to n actions, which the caller sends at once or never.
func (s *Stream) Actions(n int, now int64) (list []Action) {
	for len(list) < n && len(s.out) > 0 {
		h := s.out[0]
		s.out[0], s.out = nil, s.out[1:]
		a := h.next
		if h.next = nil; s.holders[h.ID] != h {
			continue
		}
		action := Action{Bucket: h.Bucket, TTL: maxLife/second + firstInterval/second}
		switch {
		case a.Rule.Refused:
			action.Act = Deny
		case a.Rule.Unlimited:
			action.Act, h.lump = Allow, nil
		case a.Units == 0:
			s.drop(h)
			list = append(list, action)
			continue
		default:
			if action.TTL = s.hand(h, a, now); action.TTL == 0 {
				s.schedule(h, now)
				continue
			}
			action.Act, action.Units = Spend, a.Units
		}
		s.schedule(h, now)
		list = append(list, action)
	}
	return list
}

// hand gives a lump to a holder and returns its time to live in seconds, 0 if there is no time to say so.
func (s *Stream) hand(h *Holder, a *Answer, now int64) (ttl int64) {
	ttl = min(a.Sent+a.Life-now-margin, maxLife) / second
	keep := int64(never)
	if a.Rule.Kind == Ends {
		keep = a.windowEnd
	}
	further := now < h.gotUntil
	if further { // it ends when the next share is due
		ttl = min(ttl, max(1, (h.gotUntil-now)/second))
	}
	l := &lump{token: a.Token, units: a.Units, end: now + ttl*second, keep: keep}
	if ttl < 1 || h.silent(now) {
		s.giveBack(l, now)
		h.notBefore = max(now+minRetry, h.renew)
		if a.Rule.Kind != Drains && a.windowEnd-now < 2*second {
			h.notBefore = a.windowEnd
		}
		return 0
	}
	if old := h.lump; old != nil && !old.spent() {
		if h.owed = append(h.owed, old); len(h.owed) > maxOwed {
			h.owed = h.owed[1:]
		}
	}
	h.lump = l
	h.got += l.units
	if further {
		return ttl
	}
	h.got, h.gotUntil = l.units, l.end
	if a.Rule.Kind != Drains && a.windowEnd < l.end+2*second { // no other one fits into the window
		h.gotUntil = a.windowEnd
	}
	h.renew = h.gotUntil
	return ttl
}

func (s *Stream) reschedule(h *Holder, at int64) {
	h.dueAt = at
	switch {
	case at == never && h.index >= 0:
		heap.Remove(&s.due, h.index)
	case at == never:
	case h.index >= 0:
		heap.Fix(&s.due, h.index)
	default:
		heap.Push(&s.due, h)
	}
}

// dueHeap has the holders with a dueAt, the earliest first.
type dueHeap []*Holder

var _ heap.Interface = (*dueHeap)(nil)

// Len implements heap.Interface.
func (d dueHeap) Len() int { return len(d) }

// Less implements heap.Interface.
func (d dueHeap) Less(i, j int) bool { return d[i].dueAt < d[j].dueAt }

// Swap implements heap.Interface.
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

// Push implements heap.Interface.
func (d *dueHeap) Push(x any) {
	h, _ := x.(*Holder)
	h.index = len(*d)
	*d = append(*d, h)
}

// Pop implements heap.Interface.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.index = -1
	return h
}
