package app

import (
	"context"
	"time"

	"sluice/internal/tick"
)

// Pacing of the local copies. To write 100,000 rules or a million overrides takes some
// tenths of a second of CPU time, and every node begins at the same moment, after the
// same change. Without pauses, checks would have to wait.
const (
	// maxSlice is how long a copy is written before it pauses.
	maxSlice = time.Millisecond
	// pauseFactor is the length of a pause as a multiple of the preceding slice. maxPause bounds it, so that a machine
	// that stalls does not delay a copy for long.
	pauseFactor = 9
	maxPause    = 50 * time.Millisecond
	// totalPauseFactor is the total length of all pauses as a multiple of the work. The remaining pause follows the
	// write; nothing else is written during it.
	totalPauseFactor = 20
)

// writePaced calls write whenever wake or tick fires, and once more when ctx has
// ended. write calls the function that it gets often; that function pauses when a pause
// is due. A pause ends with ctx.
func writePaced(ctx context.Context, now func() time.Time, wake <-chan struct{}, tick <-chan time.Time,
	write func(pause func())) {
	for {
		select {
		case <-ctx.Done():
			write(func() {})
			return
		case <-tick:
		case <-wake:
		}
		p := pace{now: now, began: now()}
		write(func() { p.step(ctx) })
		p.end(ctx)
	}
}

// pace measures work and pauses.
type pace struct {
	now            func() time.Time
	began          time.Time // start of the current slice
	worked, paused time.Duration
}

// step pauses if the current slice took maxSlice or longer.
func (p *pace) step(ctx context.Context) {
	if slice := p.now().Sub(p.began); slice >= maxSlice {
		p.worked += slice
		p.pause(ctx, min(pauseFactor*slice, maxPause))
	}
}

// end pauses for the remainder of the total.
func (p *pace) end(ctx context.Context) {
	p.worked += p.now().Sub(p.began)
	p.pause(ctx, totalPauseFactor*p.worked-p.paused)
}

func (p *pace) pause(ctx context.Context, length time.Duration) {
	tick.Wait(ctx, length)
	p.paused += length
	p.began = p.now()
}
