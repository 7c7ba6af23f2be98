package plain

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// turns say which worker waits for the connections. One worker at a time is cheapest: requests that arrive while it
// answers a batch form its next batch, and no other worker wakes. But a long batch must not delay later requests, and
// one worker uses one processor. So the worker passes the turn on before it decides a batch, if the batch is large or
// the previous one took longer than longTurn. The keeper passes it on if a batch takes unexpectedly long.
type turns struct {
	workers sync.WaitGroup // all workers
	mine    sync.Mutex
	leader  *worker // whose turn it is; nobody, while all workers are busy
	nobody  *worker
	busy    int       // workers that have or had a turn and have not ended
	idle    []*worker // the memory of workers that ended
	slow    atomic.Bool
	calm    atomic.Int64 // when nothing was left to read after a turn had begun: bytes read later have arrived since
	minded  atomic.Bool  // the keeper watches the turn
}

// turn is what a worker knows of its turn.
type turn struct {
	began atomic.Int64 // when it began to serve; 0 while it waits
	// crowded: more may be ready than a turn takes, so that what is read may have waited.
	crowded bool
}

// longTurn is how long a batch may take whose worker keeps its turn.
const longTurn = 2 * time.Millisecond

// many is the size of a large batch: the more processors, the sooner another worker helps.
var many = max(mostReady/10, 2*mostReady/runtime.GOMAXPROCS(0))

// mostWorkers is how many batches are under way at most. While all of them wait for Redis, requests wait in their
// sockets.
func mostWorkers() int { return 2*runtime.GOMAXPROCS(0) + 2 }

// waited is how long bytes that were just read have waited, if they arrived at that time, ns since 1970; 0 if it is
// unknown. The clock of the system may step, so the result is never longer than the time since everything was read.
func (l *Loop) waited(arrived int64) time.Duration {
	if arrived == 0 {
		return 0
	}
	at := time.Now().UnixNano() //nolint:forbidigo // the clock of the kernel
	return time.Duration(max(0, min(at-arrived, now()-l.calm.Load())))
}

func newTurns() turns {
	nobody := new(worker)
	return turns{leader: nobody, nobody: nobody}
}

// passOn gives the turn to another worker if w has it.
func (l *Loop) passOn(w *worker) {
	l.mine.Lock()
	defer l.mine.Unlock()
	if l.leader != w {
		return
	}
	if l.leader = l.nobody; l.busy == mostWorkers() {
		return
	}
	next := &worker{l: l}
	if n := len(l.idle); n > 0 {
		next, l.idle = l.idle[n-1], l.idle[:n-1]
	}
	l.busy++
	l.leader = next
	l.workers.Go(next.lead)
}

// goesOn reports whether w, which has served, waits again: it still has its turn, or nobody has.
func (l *Loop) goesOn(w *worker) bool {
	l.mine.Lock()
	defer l.mine.Unlock()
	if l.leader == l.nobody {
		l.leader = w
	}
	if l.leader == w {
		return true
	}
	l.busy--
	l.idle = append(l.idle, w)
	return false
}

// lead waits and serves as long as it is the turn of w.
func (w *worker) lead() {
	var events [mostReady]unix.EpollEvent
	for {
		n, err := w.l.wait(events[:])
		if err != nil {
			return
		}
		began := now()
		w.began.Store(began)
		if w.crowded = n == len(events); !w.crowded {
			w.l.calm.Store(began)
		}
		if !w.l.minded.Load() {
			w.l.mind()
		}
		w.serve(events[:n])
		w.l.slow.Store(now()-began > int64(longTurn))
		w.began.Store(0)
		if !w.l.goesOn(w) {
			return
		}
	}
}

// mind makes the keeper watch the turn.
func (l *Loop) mind() {
	l.minded.Store(true)
	l.stir()
}

// hurry passes the turn on if it has lasted too long. It reports whether the worker serves.
func (l *Loop) hurry(at int64) bool {
	l.mine.Lock()
	w := l.leader
	l.mine.Unlock()
	began := w.began.Load()
	if began != 0 && at-began > int64(longTurn) {
		l.passOn(w)
	}
	return began != 0
}
