package redisstore

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"time"

	"sluice/limiter"
	"sluice/limiter/redisstore/script"
)

const (
	// maxGiveBacks bounds the give-backs that wait to be repeated.
	maxGiveBacks = 100_000
	// nameLife is for how long Redis keeps what was booked under a name: NAME_LIFE
	// in decide.lua.
	nameLife = 30 * time.Second
	// The pause before give-backs are repeated, and the longest.
	giveFirst = 20 * time.Millisecond
	giveMost  = time.Second
)

// newName names an attempt at a request that spans slots.
func newName() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], rand.Uint64()) //nolint:gosec // unique, not a secret
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// giveBack is what a part of a request took, or may have taken, and must give back.
type giveBack struct {
	req   limiter.Request
	whole string
	name  string
	slot  int
	since time.Time
	taken bool  // certainly
	err   error // of the last try
}

// giveBack makes what part p has to give back; err is why it could not.
func (j *joint) giveBack(p *part, err error) *giveBack {
	return &giveBack{
		req: limiter.Request{Op: script.OpUndo, ID: j.id, Asks: p.asks}, whole: j.whole, name: p.name, slot: p.slot,
		since: j.since, taken: p.booked != nil, err: err,
	}
}

// hopeless reports whether a further try could not do it: the name is forgotten.
func (b *giveBack) hopeless(now time.Time) bool { return now.Sub(b.since) >= nameLife }

// gaveBack reports whether an answer gave back anything.
func gaveBack(res *limiter.Result) bool {
	for i := range res.Limits {
		if res.Limits[i].Refunded > 0 {
			return true
		}
	}
	return false
}

// giveBacks are those that could not be carried out at once. One goroutine repeats
// them until each is confirmed or hopeless. Its zero value is ready.
type giveBacks struct {
	mu     sync.Mutex
	lanes  [clusterLanes][]*giveBack
	n      int
	closed bool
	wake   chan struct{} // of size 1
	stop   chan struct{}
	done   chan struct{}
}

// add keeps b to be repeated and reports whether there is room.
func (g *giveBacks) add(lane int, b *giveBack) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.n >= maxGiveBacks {
		return false
	}
	g.lanes[lane] = append(g.lanes[lane], b)
	g.n++
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return true
}

func (g *giveBacks) pending() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return int64(g.n)
}

// some takes at most n of a lane, oldest first. They stay pending.
func (g *giveBacks) some(lane, n int) []*giveBack {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.lanes[lane]
	n = min(n, len(list))
	g.lanes[lane] = list[n:]
	if n == len(list) {
		g.lanes[lane] = nil
	}
	return list[:n:n]
}

// back puts one that was tried behind the others.
func (g *giveBacks) back(lane int, b *giveBack) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lanes[lane] = append(g.lanes[lane], b)
}

func (g *giveBacks) ended(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.n -= n
}

// leave keeps b to be repeated, or counts it as lost.
func (s *Store) leave(b *giveBack) bool {
	if !b.hopeless(wallTime()) && s.gives.add(s.laneIndex(b.slot), b) {
		return true
	}
	s.across.lost.Add(1)
	return false
}

// repeat is the goroutine of give-backs.
func (s *Store) repeat() {
	g := &s.gives
	defer close(g.done)
	for {
		select {
		case <-g.stop:
			return
		case <-g.wake:
		}
		for pause := giveFirst; g.pending() > 0; {
			timer := time.NewTimer(pause)
			select {
			case <-g.stop:
				timer.Stop()
				return
			case <-timer.C:
			}
			if pause = min(2*pause, giveMost); s.giveAgain() > 0 {
				pause = giveFirst
			}
		}
	}
}

// giveAgain tries one batch of each lane and returns how many were confirmed.
func (s *Store) giveAgain() (confirmed int) {
	var tried [clusterLanes][]*giveBack
	var groups [clusterLanes]*group
	for i, l := range s.lanes {
		for _, b := range s.gives.some(i, s.opt.MaxBatch) {
			if b.hopeless(wallTime()) {
				s.across.lost.Add(1)
				s.gives.ended(1)
				continue
			}
			tried[i] = append(tried[i], b)
		}
		if len(tried[i]) == 0 {
			continue
		}
		g := newGroup(len(tried[i]))
		g.giving = true
		for _, b := range tried[i] {
			o := g.add()
			o.Slot = b.slot
			o.EncodePart(&s.names, &b.req, b.whole, b.name)
		}
		if err := l.submit(g); err != nil {
			g.refuse(err)
			g.done <- struct{}{}
		}
		groups[i] = g
	}
	for i, g := range groups {
		if g == nil {
			continue
		}
		<-g.done // no call takes longer than MaxWait
		for k, b := range tried[i] {
			if b.err = g.ops[k].Err; b.err != nil {
				s.gives.back(i, b)
				continue
			}
			confirmed++
			s.gives.ended(1)
			if b.taken || gaveBack(&g.ops[k].Result) {
				s.across.gives.Add(1)
			}
		}
	}
	return confirmed
}

// closeGiveBacks tries a last time and counts what is left as lost. Lanes must
// still be open.
func (s *Store) closeGiveBacks() {
	g := &s.gives
	g.mu.Lock()
	if g.closed || g.stop == nil {
		g.mu.Unlock()
		return
	}
	g.closed = true
	close(g.stop)
	g.mu.Unlock()
	<-g.done
	ctx, cancel := context.WithTimeout(context.Background(), s.opt.MaxWait)
	defer cancel()
	for ctx.Err() == nil && g.pending() > 0 && s.giveAgain() > 0 {
	}
	s.across.lost.Add(g.pending())
	g.ended(int(g.pending()))
}
