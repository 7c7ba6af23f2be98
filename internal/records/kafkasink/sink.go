package kafkasink

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"sluice/internal/records"
	"sluice/internal/trouble"
)

// DeliveryTimeout is how long an event waits for Kafka before it is dropped as records.TooOld. An event that was sent
// and not answered waits longer: until there is an answer, or until Close.
const DeliveryTimeout = 2 * time.Minute

// The bounds of what waits for Kafka. Events above them are dropped as records.ClientFull.
const (
	maxEvents = 16 << 10
	maxBytes  = 16 << 20
)

// Connection says how to reach a topic. Brokers and Topic are required.
type Connection struct {
	// Brokers are host:port of some brokers, from which the others are learned.
	Brokers []string
	// Topic must exist: it is not created.
	Topic string
	// TLS is nil for connections in clear.
	TLS *tls.Config
	// SASL is plain, scram-sha-256, scram-sha-512, or "" for none.
	SASL string
	User string
	// Password is asked for each time a connection authenticates, so that it may change.
	Password func() string
	// Dial opens a connection to host:port, before TLS. The zero value dials TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Options configure a Sink. Account, Log and Now are required.
type Options struct {
	Connection

	// Compression of batches is gzip, zstd or none; "" is gzip.
	Compression string

	Account *records.Account
	Log     *slog.Logger
	Now     func() time.Time
	Trouble *trouble.Registry // nil discards
}

// Sink writes events to a topic. It implements records.Sink.
type Sink struct {
	opt    Options
	ledger *ledger
	status *status

	client *kgo.Client
	opened time.Time
	broken chan struct{} // has room for one: the client can produce no more
	old    sync.WaitGroup
	cancel context.CancelFunc
}

// reopenAfter is how long a client that can produce no more is kept.
const reopenAfter = 10 * time.Second

// Open creates a Sink. It does not wait for Kafka and fails only for wrong options: a broker that does not answer is
// logged.
func Open(opt Options) (*Sink, error) {
	if len(opt.Brokers) == 0 || opt.Topic == "" || opt.Account == nil || opt.Log == nil || opt.Now == nil {
		return nil, errors.New("kafka: Brokers, Topic, Account, Log and Now are required")
	}
	s := &Sink{opt: opt, ledger: newLedger(opt.Account), broken: make(chan struct{}, 1)}
	s.status = &status{opt: &s.opt, oldest: s.Oldest, now: opt.Now}
	s.ledger.delivered, s.ledger.noticed = s.status.works, s.status.noticed
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	client := s.client
	s.old.Go(func() { s.check(ctx, client) })
	return s, nil
}

// Write implements records.Sink. It does not block.
func (s *Sink) Write(b records.Batch) {
	select {
	case <-s.broken:
		s.reopen()
	default:
	}
	now := s.opt.Now()
	for i, line := range b.Lines {
		line = line[:len(line)-1] // without its line end
		e := s.ledger.add(len(b.Keys[i])+len(line), now)
		if e == nil {
			s.opt.Account.Drop(records.ClientFull, 1)
			continue
		}
		s.fill(e, b.Keys[i], line)
		s.client.TryProduce(context.Background(), &e.record, func(_ *kgo.Record, err error) { s.finish(e, err) })
	}
}

// fill makes the record of an event. An event without a key goes to any partition.
func (s *Sink) fill(e *event, key string, line []byte) {
	b := make([]byte, 0, len(key)+len(line)+digits)
	b = append(append(b, key...), line...)
	var number [digits / 2]byte
	binary.BigEndian.PutUint64(number[:], e.id)
	b = hex.AppendEncode(b, number[:])
	value := len(key) + len(line)
	e.header[0] = kgo.RecordHeader{Key: headerName, Value: b[value:]}
	e.record = kgo.Record{Topic: s.opt.Topic, Value: b[len(key):value:value], Headers: e.header[:]}
	if key != "" {
		e.record.Key = b[:len(key):len(key)]
	}
}

// finish notes what the client says of an event.
func (s *Sink) finish(e *event, err error) {
	if err == nil {
		s.ledger.deliver(e)
		return
	}
	if final(err) {
		s.breaks()
	}
	s.status.gaveUp(err)
	s.ledger.fail(e, reasonOf(err))
}

// breaks notes that the client can produce no more.
func (s *Sink) breaks() {
	select {
	case s.broken <- struct{}{}:
	default:
	}
}

// reopen replaces a client that can produce no more: it was refused a producer id, Kafka has lost what it knew of the
// client's last events, or the topic was deleted and created again.
func (s *Sink) reopen() {
	if s.opt.Now().Sub(s.opened) < reopenAfter {
		s.breaks() // a later Write tries again
		return
	}
	before := s.client
	if err := s.open(); err != nil { // the options were right before
		s.status.refuse(err) // by the client that can produce no more
		return
	}
	s.old.Go(before.Close)
}

// Oldest implements records.Sink.
func (s *Sink) Oldest() time.Time { return s.ledger.oldest() }

// flush waits until the results of all events are known. The Flush of the client sends lingering events at once, but
// does not wait for answers about events that it gave up.
func (s *Sink) flush(ctx context.Context) error {
	if err := s.client.Flush(ctx); err != nil {
		return err
	}
	return s.ledger.wait(ctx)
}

// Close implements records.Sink. It waits for Kafka until ctx ends. Remaining events that were certainly not sent are
// dropped as records.Shutdown; the others are doubtful. Close logs them and returns no error: a stopping node can do
// nothing more while Kafka does not answer.
func (s *Sink) Close(ctx context.Context) error {
	err := s.flush(ctx)
	s.cancel()
	left := s.ledger.close()
	s.client.Close()
	s.old.Wait()
	if left.dropped+left.doubtful > 0 {
		s.opt.Log.Warn("the node stopped before Kafka took all events of the decision log", "dropped", left.dropped,
			"doubtful", left.doubtful, "bytes", left.bytes, "brokers", s.opt.Brokers, "topic", s.opt.Topic, "error", err)
	}
	return nil
}

var _ records.Sink = (*Sink)(nil)
