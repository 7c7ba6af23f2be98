package fleet

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/tick"
	"sluice/internal/wire"
	"sluice/limiter"
)

// BusOptions configure a Bus. Client and Received are required.
type BusOptions struct {
	// Client talks to the servers; it may be the client of the counter store.
	Client redis.UniversalClient
	// Prefix is the prefix of the counter store: nodes that share buckets share a channel. "sl:" if empty.
	Prefix string
	// Received is called by one goroutine for each bucket that another node named.
	// It must not block.
	Received func(k limiter.Key, leases bool)
}

const (
	// maxQueued is the largest number of buckets in the queue for sending.
	maxQueued = 1024
	// busBatch is the largest number of buckets in one message.
	busBatch = 64
	// busKey is the longest key that is sent, in bytes.
	busKey = 4096
	// busWait bounds the time to send one message. busRetry is the pause after a
	// subscription has ended.
	busWait  = 250 * time.Millisecond
	busRetry = 250 * time.Millisecond
)

// Bus sends to other nodes which buckets have more room than before, through
// Redis publish and subscribe: at most once, in no order, and not at all while
// Redis is unreachable. It is safe for concurrent use and owns two goroutines.
type Bus struct {
	opt     BusOptions
	id      [8]byte
	channel string
	queue   chan notice
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	sent, received, lost atomic.Int64
}

// notice names a bucket that has more room than before. leases: nodes with leases of it
// must end them.
type notice struct {
	key    limiter.Key
	leases bool
}

// NewBus subscribes. Close it to stop its goroutines.
func NewBus(opt BusOptions) (*Bus, error) {
	if opt.Client == nil || opt.Received == nil {
		return nil, errors.New("bus: Client and Received are required")
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bus{opt: opt, channel: opt.Prefix + "forget", queue: make(chan notice, maxQueued), cancel: cancel}
	_, _ = rand.Read(b.id[:]) // never fails: it ends the process instead
	b.wg.Go(func() { b.sendAll(ctx) })
	b.wg.Go(func() { b.receiveAll(ctx) })
	return b, nil
}

// Send informs the other nodes that a bucket has more room than before, and, if leases is set, that their leases of it
// must end. It never blocks and may fail silently.
func (b *Bus) Send(k limiter.Key, leases bool) {
	if len(k) > busKey {
		b.lost.Add(1)
		return
	}
	select {
	case b.queue <- notice{k, leases}:
	default:
		b.lost.Add(1)
	}
}

// Close stops sending and receiving. It may be called twice.
func (b *Bus) Close() error {
	b.cancel()
	b.wg.Wait()
	return nil
}

// sendAll sends the buckets that queued during the last message.
func (b *Bus) sendAll(ctx context.Context) {
	for {
		var some []notice
		select {
		case <-ctx.Done():
			return
		case k := <-b.queue:
			some = append(some, k)
		}
	more:
		for len(some) < busBatch {
			select {
			case k := <-b.queue:
				some = append(some, k)
			default:
				break more
			}
		}
		sending, cancel := context.WithTimeout(ctx, busWait)
		err := b.opt.Client.Publish(sending, b.channel, b.pack(some)).Err()
		cancel()
		if err != nil {
			b.lost.Add(int64(len(some)))
			continue
		}
		b.sent.Add(int64(len(some)))
	}
}

// pack encodes a message: the sender's id, then each key after its length, whose
// lowest bit is leases.
func (b *Bus) pack(some []notice) []byte {
	out := append(make([]byte, 0, 256), b.id[:]...)
	for _, n := range some {
		head := uint64(len(n.key)) << 1
		if n.leases {
			head |= 1
		}
		out = binary.AppendUvarint(out, head)
		out = append(out, n.key...)
	}
	return out
}

// unpack reads the keys in a message of another node. It ignores malformed
// messages.
func (b *Bus) unpack(m string) {
	if len(m) < len(b.id) || m[:len(b.id)] == string(b.id[:]) {
		return
	}
	in := wire.Read([]byte(m[len(b.id):]))
	for n := 0; in.Len() > 0 && n < busBatch; n++ {
		head := in.Number(2*busKey + 1)
		key := in.Bytes(head >> 1)
		if in.Failed() {
			return
		}
		b.received.Add(1)
		b.opt.Received(limiter.Key(key), head&1 == 1)
	}
}

// receiveAll subscribes, and again after each failure.
func (b *Bus) receiveAll(ctx context.Context) {
	b.subscription(ctx)
	for tick.Wait(ctx, busRetry) {
		b.subscription(ctx)
	}
}

// subscription receives messages until the connection or ctx ends.
func (b *Bus) subscription(ctx context.Context) {
	sub := b.opt.Client.Subscribe(ctx, b.channel)
	stop := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer func() {
		if stop() {
			_ = sub.Close()
		}
	}()
	for {
		m, err := sub.ReceiveMessage(ctx)
		if err != nil {
			return
		}
		b.unpack(m.Payload)
	}
}
