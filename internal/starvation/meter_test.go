package starvation

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// sleep lets virtual time pass.
func sleep(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // in a bubble
	synctest.Wait()
}

// In a bubble the clock stands still while the process works, so no tick is late, however busy the machine is.
func TestMeter_WithoutAGapNothingIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		ctx, cancel := context.WithCancel(t.Context())
		go m.Run(ctx)
		for range 30 {
			if m.Lost() != 0 || m.Refresh() != 0 || m.Delay99() != 0 {
				t.Errorf("lost %s, refreshed %s, delay %s, want 0", m.Lost(), m.Refresh(), m.Delay99())
			}
			sleep(time.Second)
			if m.due.Load() == 0 {
				t.Fatal("it paused although somebody asks")
			}
		}
		cancel()
		sleep(time.Minute)
		if got := m.Refresh(); got != 0 {
			t.Errorf("lost %s after the meter stopped, want 0", got)
		}
	})
}

// A meter that nobody asks costs nothing, and a pause counts for nothing.
func TestMeter_PausesWhileNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go m.Run(ctx)
		ticks := func() bool { return m.due.Load() > 0 }
		sleep(time.Minute)
		if ticks() {
			t.Error("it ticks before anybody asked")
		}
		for range 2 {
			m.Lost()
			sleep(9 * time.Second)
			if !ticks() {
				t.Error("it pauses 9 s after somebody asked")
			}
			m.mu.Lock()
			m.delays.add(time.Second)
			m.mu.Unlock()
			sleep(12 * time.Second)
			if ticks() || m.Delay99() != 0 {
				t.Errorf("it ticks 21 s after somebody asked; the delay is %s", m.Delay99())
			}
			sleep(time.Hour)
		}
		m.Lost()
		sleep(time.Second)
		if got := m.Lost(); got != 0 {
			t.Errorf("the pauses count as %s of lost time", got)
		}
	})
}

// Refresh learns of a gap before the tick does, and the tick counts the rest of it.
func TestMeter_RefreshAndTickShareAGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		used := 7 * time.Second
		m := New()
		m.cpu = func() time.Duration { return used }
		m.account = account{processors: 2, cpu: used}
		m.due.Store(int64(period))
		sleep(period + 400*ms)
		used += 20 * ms
		if got := m.Refresh(); got != 390*ms || m.Lost() != got {
			t.Errorf("refreshed %s, lost %s, want 390 ms", got, m.Lost())
		}
		if got := m.Refresh(); got != 390*ms {
			t.Errorf("refreshed again %s, want 390 ms", got)
		}
		sleep(100 * ms)
		m.tick(period)
		if got := m.Lost(); got != 490*ms {
			t.Errorf("after the tick %s, want 490 ms", got)
		}
		if got := m.Delay99(); got != 495*ms {
			t.Errorf("the delay is %s, want 495 ms", got)
		}
		if got := time.Duration(m.due.Load()); got != 510*ms {
			t.Errorf("the next tick is due at %s, want 510 ms", got)
		}
	})
}
