package decide

import (
	"context"
	"testing"
	"time"
)

// paper is a board in memory.
type paper struct {
	values map[string]int64
	left   map[string]time.Duration
	err    error
	reads  int
	// between is called during a read.
	between func()
}

func (p *paper) Put(_ context.Context, pool string, millionths int64, ttl time.Duration) error {
	if p.err == nil {
		p.values[pool], p.left[pool] = millionths, ttl
	}
	return p.err
}

func (p *paper) Get(_ context.Context, pools []string) ([]int64, []time.Duration, error) {
	p.reads++
	v, left := make([]int64, len(pools)), make([]time.Duration, len(pools))
	for i, pool := range pools {
		v[i], left[i] = p.values[pool], p.left[pool]
	}
	if p.between != nil {
		p.between()
	}
	return v, left, p.err
}

func newPaper() *paper {
	return &paper{values: map[string]int64{}, left: map[string]time.Duration{}}
}

// clock is a clock that the test sets.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func newClock() *clock { return &clock{at: time.UnixMilli(epoch)} }

func TestLoads_AReportEndsByItself(t *testing.T) {
	c := newClock()
	for name, board := range map[string]LoadBoard{"alone": nil, "with a board": newPaper()} {
		l := NewLoads(board, c.now)
		if err := l.Report(t.Context(), "shop", 420_000, 5*time.Second); err != nil {
			t.Fatal(err)
		}
		c.at = c.at.Add(4999 * time.Millisecond)
		if v, left, ok := l.Load("shop"); !ok || v != 420_000 || left != time.Millisecond {
			t.Errorf("%s: got %d, %v, %v", name, v, left, ok)
		}
		c.at = c.at.Add(time.Millisecond)
		if _, _, ok := l.Load("shop"); ok {
			t.Errorf("%s: fresh after its end", name)
		}
	}
	if _, _, ok := (*Loads)(nil).Load("shop"); ok {
		t.Error("nothing knows something")
	}
}

func TestLoads_AnotherNodesReportArrivesAndGoes(t *testing.T) {
	c, board := newClock(), newPaper()
	a, b := NewLoads(board, c.now), NewLoads(board, c.now)
	if err := a.Report(t.Context(), "shop", 1_200_000, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := b.Load("shop"); ok {
		t.Fatal("known before it was read")
	}
	b.refresh(t.Context(), []string{"other", "shop"})
	if v, left, ok := b.Load("shop"); !ok || v != 1_200_000 || left != 5*time.Second {
		t.Errorf("got %d, %v, %v", v, left, ok)
	}
	board.left["shop"] = 0
	b.refresh(t.Context(), []string{"other", "shop"})
	if _, _, ok := b.Load("shop"); ok {
		t.Error("still known after the board has dropped it")
	}
	reads := board.reads
	b.refresh(t.Context(), nil)
	if board.reads != reads {
		t.Error("the board was read although there are no pools")
	}
}

func TestLoads_ABoardThatIsAwayLeavesWhatIsKnownToItsEnd(t *testing.T) {
	c, board := newClock(), newPaper()
	l := NewLoads(board, c.now)
	if err := l.Report(t.Context(), "shop", 1, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	board.err = errAway
	l.refresh(t.Context(), []string{"shop"})
	if _, _, ok := l.Load("shop"); !ok {
		t.Error("forgotten with the board")
	}
	if err := l.Report(t.Context(), "shop", 2, time.Minute); err == nil {
		t.Error("a report that nobody else can hear was accepted")
	}
	if v, _, _ := l.Load("shop"); v != 1 {
		t.Errorf("the refused report counts: %d", v)
	}
	c.at = c.at.Add(5 * time.Second)
	if _, _, ok := l.Load("shop"); ok {
		t.Error("outlived its end")
	}
}

func TestLoads_AReportMadeDuringAReadIsNotOverwritten(t *testing.T) {
	c, board := newClock(), newPaper()
	l := NewLoads(board, c.now)
	board.values["shop"], board.left["shop"] = 7, time.Minute
	board.between = func() {
		if err := l.Report(t.Context(), "shop", 8, time.Minute); err != nil {
			t.Error(err)
		}
	}
	l.refresh(t.Context(), []string{"shop"})
	if v, _, _ := l.Load("shop"); v != 8 {
		t.Errorf("got %d, want the newer report", v)
	}
}

func TestLoads_FollowReadsUntilItIsStopped(t *testing.T) {
	c, board := newClock(), newPaper()
	l := NewLoads(board, c.now)
	board.values["shop"], board.left["shop"] = 7, time.Minute
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	read := make(chan struct{}, 16)
	board.between = func() { read <- struct{}{} }
	go func() {
		defer close(done)
		l.Follow(ctx, func() []string { return []string{"shop"} })
	}()
	<-read
	stop()
	<-done
	if v, _, ok := l.Load("shop"); !ok || v != 7 {
		t.Errorf("got %d, %v", v, ok)
	}
}
