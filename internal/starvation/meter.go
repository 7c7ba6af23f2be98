package starvation

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Meter measures what this process lost. It measures while Run runs and somebody asks for Lost. Its methods are safe
// for concurrent use.
type Meter struct {
	start time.Time
	cpu   func() time.Duration // the CPU time that this process has used
	lost  atomic.Int64
	// Lost sets asked, which is cleared every 10 s. wake holds a token once Lost has set asked.
	asked atomic.Bool
	wake  chan struct{}
	// due is when the next tick is due, in ns since start; 0 during a pause.
	due atomic.Int64

	mu      sync.Mutex
	account account
	delays  delays
}

// New creates a Meter.
func New() *Meter {
	//nolint:forbidigo // the ticker that it is compared with knows no other clock
	return &Meter{start: time.Now(), cpu: cpuTime, wake: make(chan struct{}, 1)}
}

// Run measures until ctx ends. It pauses after 10 to 20 s in which nobody called Lost: on an idle machine a tick wakes
// several threads of the Go runtime, and 200 of them a second cost more than the work of a small node.
func (m *Meter) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.wake:
		}
		if !m.measure(ctx) {
			return
		}
	}
}

// measure measures until nobody asks, or until ctx ends. Then it returns false.
func (m *Meter) measure(ctx context.Context) bool {
	m.begin()
	defer m.pause()
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		for range samples {
			select {
			case <-ctx.Done():
				return false
			case at := <-ticker.C: // the time at which the tick was due
				m.tick(at.Sub(m.start))
			}
		}
		if !m.asked.Swap(false) {
			return true
		}
		select {
		case <-m.wake: // it is awake
		default:
		}
	}
}

// begin forgets the pause.
func (m *Meter) begin() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.account = account{processors: runtime.GOMAXPROCS(0), counted: now, cpu: m.cpu()}
	m.due.Store(int64(now + period))
}

// pause forgets the delays, so that none of long ago is served.
func (m *Meter) pause() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due.Store(0)
	m.delays = delays{}
}

// tick counts a tick that was due at a time.
func (m *Meter) tick(due time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.lost.Add(int64(m.account.lost(due, now, m.cpu())))
	m.delays.add(now - due)
	late := max(0, now-due)
	m.due.Store(int64(due + period + late - late%period)) // the ticker skips the ticks that it has missed
}

// Lost returns the time that this process lost since the first call. It grows only. It is what the last tick knew, so
// that it costs two loads.
func (m *Meter) Lost() time.Duration {
	if !m.asked.Load() && !m.asked.Swap(true) {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
	return time.Duration(m.lost.Load())
}

// Refresh counts what was lost since the last tick and returns the lost time. A caller that wakes up after a gap,
// perhaps before the tick, gets the length of the gap from Refresh. Without a gap it reads the clock once and takes no
// lock. Unlike Lost it does not end a pause.
func (m *Meter) Refresh() time.Duration {
	if due := time.Duration(m.due.Load()); due > 0 && m.now()-due >= leastLate {
		m.refresh()
	}
	return time.Duration(m.lost.Load())
}

func (m *Meter) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	due, now := time.Duration(m.due.Load()), m.now() // a tick may have come first
	if due > 0 && now-max(due, m.account.counted) >= leastLate {
		m.lost.Add(int64(m.account.lost(due, now, m.cpu())))
	}
}

// Delay99 returns the 99th percentile of the scheduling delay in the last 10 s, 0 during a pause.
func (m *Meter) Delay99() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.delays.percentile(99)
}

//nolint:forbidigo // see New
func (m *Meter) now() time.Duration { return time.Since(m.start) }
