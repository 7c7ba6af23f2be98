package records

import (
	"encoding/binary"
	"sync"
)

// maxBuffered bounds the raw events that are queued for the goroutine of a Log, in bytes: about 16,000 events. The
// goroutine encodes as many at the same time.
const maxBuffered = 8 << 20

// buffer is a bounded queue of raw events, each preceded by its length. Many goroutines add events and one takes them.
// It is safe for concurrent use.
type buffer struct {
	// filled receives a value once events wait.
	filled chan struct{}

	mu      sync.Mutex
	waiting []byte
	since   int64 // when the first of them was added, ms since the epoch
	taken   int64 // when the oldest taken but unfinished event was added
	closed  bool
}

func newBuffer() *buffer { return &buffer{filled: make(chan struct{}, 1)} }

// Results of add.
type added uint8

const (
	isAdded added = iota
	isFull
	isClosed
)

// add adds one event that write appends. now is in ms since the epoch.
func (b *buffer) add(now int64, write func([]byte) []byte) added {
	b.mu.Lock()
	defer b.mu.Unlock()
	from := len(b.waiting)
	switch {
	case b.closed:
		return isClosed
	case from >= maxBuffered:
		return isFull
	}
	const length = 4
	b.waiting = write(append(b.waiting, make([]byte, length)...))
	if len(b.waiting) > maxBuffered {
		b.waiting = b.waiting[:from]
		return isFull
	}
	binary.LittleEndian.PutUint32(b.waiting[from:], uint32(len(b.waiting)-from-length)) //nolint:gosec // at most 8 MiB
	if from == 0 {
		b.since = now
		select {
		case b.filled <- struct{}{}:
		default: // the goroutine has not taken the last one yet
		}
	}
	return isAdded
}

// take returns what waits, and waits in spare from now on. Call done once the sink has it.
func (b *buffer) take(spare []byte) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	took := b.waiting
	b.waiting, b.since, b.taken = spare[:0], 0, b.since
	return took
}

// done says that the sink has what was taken.
func (b *buffer) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = 0
}

// oldest is when the event was added that has waited longest for the sink to take it, ms since the epoch, 0 if none
// waits.
func (b *buffer) oldest() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.taken > 0 {
		return b.taken
	}
	return b.since
}

// close makes add refuse.
func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// cut returns the first event of took, and the rest.
func cut(took []byte) (raw, rest []byte) {
	n := 4 + int(binary.LittleEndian.Uint32(took))
	return took[4:n], took[n:]
}
