package plain

import (
	"bufio"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A loop that has more to read than it takes at once says of each request whether it has waited unread for as long as
// its caller lets it wait for a turn.
func TestLoop_SaysWhatWasReadTooLate(t *testing.T) {
	var late, early, patientLate atomic.Int64
	l := newLoop(t, func(asks []Ask) {
		for i := range asks {
			switch {
			case string(asks[i].Body) == "patient" && asks[i].Late:
				patientLate.Add(1)
			case asks[i].Late:
				late.Add(1)
			default:
				early.Add(1)
			}
		}
		echo(asks)
	}, nil)
	l.awaitStamps()
	const hurried = 2 * mostReady
	hasty := strings.Replace(ask("hasty"), "Host", "Sluice-Timeout-Ms: 1\r\nHost", 1)
	var clients []*bufio.Reader
	for i := range hurried + 10 {
		c := l.dial()
		if clients = append(clients, bufio.NewReader(c)); i < hurried {
			say(t, c, hasty)
		} else {
			say(t, c, ask("patient"))
		}
	}
	for sent := time.Now(); time.Since(sent) < 2*time.Millisecond; { // they wait for longer than 0.8 ms
	}
	l.run()
	for i, from := range clients {
		want := "hasty"
		if i >= hurried {
			want = "patient"
		}
		hear(t, from, want)
	}
	if late.Load() < mostReady || patientLate.Load() != 0 {
		t.Errorf("%d of %d hasty and %d patient requests are late", late.Load(), hurried, patientLate.Load())
	}
	// In a turn that takes all that is there nothing is late: it was read as soon as it came.
	before := late.Load()
	c := l.dial()
	for range 10 {
		say(t, c, hasty)
		hear(t, bufio.NewReader(c), "hasty")
	}
	if late.Load() != before {
		t.Errorf("%d requests of an idle loop are late", late.Load()-before)
	}
}

// awaitStamps waits until the kernel stamps what arrives: it begins with that a moment after it was asked first.
func (l *looping) awaitStamps() {
	l.t.Helper()
	c := l.dial()
	fd := l.all()[0].fd
	for arrived := int64(0); arrived == 0; {
		say(l.t, c, "x")
		var err error
		for n := 0; n == 0; {
			var s stamps
			if n, arrived, err = s.read(fd, make([]byte, 8)); err != nil && !errors.Is(err, unix.EAGAIN) {
				l.t.Fatal(err)
			}
		}
	}
}

// A step of the system's clock makes nothing late.
func TestLoop_WaitsAreNoLongerThanSinceAllWasRead(t *testing.T) {
	l := newLoop(t, echo, nil)
	l.calm.Store(now())
	if got := l.waited(1); got > time.Second { // as if it had arrived in 1970
		t.Errorf("it has waited for %v", got)
	}
	if got := l.waited(time.Now().Add(time.Hour).UnixNano()); got != 0 {
		t.Errorf("what arrives in the future has waited for %v", got)
	}
	if l.waited(0) != 0 {
		t.Error("without a stamp nothing has waited")
	}
}
