package app

import (
	"context"
	"time"
)

// How a copy on disk is written. 100,000 rules or a million overrides take some
// tenths of a second of a processor, and every node of a fleet begins to write them
// at the same moment, after the same edit. Written in one go they make checks wait.
const (
	// copyPiece is how long a copy is worked on before it rests.
	copyPiece = time.Millisecond
	// copyRest is how many times as long as a piece the rest after it is, copyRestMost
	// the longest such rest, so that a machine that stalls does not keep a copy for long.
	copyRest     = 9
	copyRestMost = 50 * time.Millisecond
	// copyPause is how many times as long as the whole work all rests together are.
	// What is missing follows the write. Nothing else is written meanwhile.
	copyPause = 20
)

// writeSlowly calls save whenever wake or tick says so, and once more when ctx has
// ended. What it gives to save rests where that is due; a rest ends with ctx.
func writeSlowly(ctx context.Context, now func() time.Time, wake <-chan struct{}, tick <-chan time.Time, save func(rest func())) {
	for {
		select {
		case <-ctx.Done():
			save(func() {})
			return
		case <-tick:
		case <-wake:
		}
		p := pace{now: now, began: now()}
		save(func() { p.step(ctx) })
		p.end(ctx)
	}
}

// pace measures work and rests from it.
type pace struct {
	now            func() time.Time
	began          time.Time // when the present piece began
	worked, rested time.Duration
}

// step rests if the present piece took long enough.
func (p *pace) step(ctx context.Context) {
	if piece := p.now().Sub(p.began); piece >= copyPiece {
		p.worked += piece
		p.rest(ctx, min(copyRest*piece, copyRestMost))
	}
}

// end rests for what is left.
func (p *pace) end(ctx context.Context) {
	p.worked += p.now().Sub(p.began)
	p.rest(ctx, copyPause*p.worked-p.rested)
}

func (p *pace) rest(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	p.rested += length
	p.began = p.now()
}
