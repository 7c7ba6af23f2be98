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

	"sluice/internal/wire"
	"sluice/limiter"
)

// BusOptions configure a Bus. Client and Heard are required.
type BusOptions struct {
	// Client talks to the servers; it may be the one of the counter store.
	Client redis.UniversalClient
	// Prefix is that of the counter store: nodes that share buckets hear each other. "sl:"
	// if empty.
	Prefix string
	// Heard is called with what another node has told, by one goroutine. It must
	// not block.
	Heard func(k limiter.Key, slices bool)
}

const (
	// maxTold bounds the buckets that wait to be told of.
	maxTold = 1024
	// busBatch is how many buckets one message names at most.
	busBatch = 64
	// busKey is the longest key that is told of, bytes.
	busKey = 4096
	// busWait bounds one message on its way, busRetry is the pause after a
	// subscription has ended.
	busWait  = 250 * time.Millisecond
	busRetry = 250 * time.Millisecond
)

// Bus tells other nodes of buckets that have more room than before, through
// Redis publish and subscribe: at most once, in no order, and not at all while
// Redis is away. It is safe for concurrent use and owns two goroutines.
type Bus struct {
	opt     BusOptions
	id      [8]byte
	channel string
	queue   chan news
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	told, heard, lost atomic.Int64
}

// news is a bucket that has more room than before. slices: and those who spend
// from slices of it must end them.
type news struct {
	key    limiter.Key
	slices bool
}

// BusStats counts buckets: told of, heard of, and those that nobody was told of
// because too many waited or Redis did not take the message.
type BusStats struct{ Told, Heard, Lost int64 }

// NewBus starts to listen. Close it to stop its goroutines.
func NewBus(opt BusOptions) (*Bus, error) {
	if opt.Client == nil || opt.Heard == nil {
		return nil, errors.New("bus: Client and Heard are required")
	}
	if opt.Prefix == "" {
		opt.Prefix = "sl:"
	}
	ctx, cancel := context.WithCancel(context.Background())
	b := &Bus{opt: opt, channel: opt.Prefix + "forget", queue: make(chan news, maxTold), cancel: cancel}
	_, _ = rand.Read(b.id[:]) // never fails: it ends the process instead
	b.wg.Go(func() { b.speak(ctx) })
	b.wg.Go(func() { b.listen(ctx) })
	return b, nil
}

// Tell tells the other nodes of a bucket that has more room than before, and with
// slices that theirs of it must end. It never blocks and may fail silently.
func (b *Bus) Tell(k limiter.Key, slices bool) {
	if len(k) > busKey {
		b.lost.Add(1)
		return
	}
	select {
	case b.queue <- news{k, slices}:
	default:
		b.lost.Add(1)
	}
}

// Stats gives the counts of this moment.
func (b *Bus) Stats() BusStats {
	return BusStats{Told: b.told.Load(), Heard: b.heard.Load(), Lost: b.lost.Load()}
}

// Close stops speaking and listening. It may be called twice.
func (b *Bus) Close() error {
	b.cancel()
	b.wg.Wait()
	return nil
}

// speak sends what has queued while the last message was on its way.
func (b *Bus) speak(ctx context.Context) {
	for {
		var some []news
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
		say, cancel := context.WithTimeout(ctx, busWait)
		err := b.opt.Client.Publish(say, b.channel, b.pack(some)).Err()
		cancel()
		if err != nil {
			b.lost.Add(int64(len(some)))
			continue
		}
		b.told.Add(int64(len(some)))
	}
}

// pack writes a message: who speaks, and each key behind its length, whose lowest
// bit says slices.
func (b *Bus) pack(some []news) []byte {
	out := append(make([]byte, 0, 256), b.id[:]...)
	for _, n := range some {
		head := uint64(len(n.key)) << 1
		if n.slices {
			head |= 1
		}
		out = binary.AppendUvarint(out, head)
		out = append(out, n.key...)
	}
	return out
}

// unpack hands on the keys of a message of another node. What is not a message
// of ours is left alone.
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
		b.heard.Add(1)
		b.opt.Heard(limiter.Key(key), head&1 == 1)
	}
}

// listen subscribes, again and again while Redis is away.
func (b *Bus) listen(ctx context.Context) {
	for {
		b.subscription(ctx)
		pause := time.NewTimer(busRetry)
		select {
		case <-ctx.Done():
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// subscription hands on messages until the connection or ctx ends.
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
