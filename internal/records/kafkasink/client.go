package kafkasink

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const (
	// linger is how long a batch waits for more events.
	linger = 40 * time.Millisecond
	// dialTimeout bounds the opening of a connection, with TLS.
	dialTimeout = 5 * time.Second
	// retryMost is the longest pause before Kafka is tried again, and metadataPause the least between two questions
	// for the leaders of the topic.
	retryMost     = time.Second
	metadataPause = time.Second
)

// open creates the client. The producer is idempotent by default, and waits for all replicas that are in sync.
func (s *Sink) open() error {
	compressor, err := newCompressor(s.ledger, s.opt.Compression)
	if err != nil {
		return err
	}
	opts := []kgo.Opt{
		kgo.ClientID("sluice"),
		kgo.DisableClientMetrics(),
		kgo.MinVersions(kversion.V2_1_0()), // the first with zstd
		kgo.SeedBrokers(s.opt.Brokers...),
		kgo.Dialer(s.dial),
		kgo.DialTimeout(dialTimeout),
		kgo.ConnIdleTimeout(5 * time.Minute),
		kgo.RetryBackoffFn(func(n int) time.Duration { return min(100*time.Millisecond<<min(n, 8), retryMost) }),
		kgo.MetadataMinAge(metadataPause),
		kgo.MetadataMaxAge(time.Minute),
		kgo.WithCompressor(compressor),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)),
		kgo.ProducerLinger(linger),
		kgo.ProducerBatchMaxBytes(512 << 10),
		// The ledger has the same bounds, at which it saves the client the work. The client's bytes have the headers.
		kgo.MaxBufferedRecords(maxEvents),
		kgo.MaxBufferedBytes(maxBytes + maxEvents*(len(headerName)+digits)),
		kgo.RecordDeliveryTimeout(DeliveryTimeout),
		// Otherwise the client sends events again that Kafka may have, and Kafka takes them twice.
		kgo.StopProducerOnDataLossDetected(),
		kgo.WithHooks(s.status),
	}
	if s.opt.SASL != "" {
		mechanism, err := s.opt.mechanism()
		if err != nil {
			return err
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return err
	}
	s.client, s.opened = client, s.opt.Now()
	return nil
}

// mechanism is the SASL mechanism of a connection.
func (c *Connection) mechanism() (sasl.Mechanism, error) {
	if c.User == "" || c.Password == nil {
		return nil, fmt.Errorf("%s needs a user and a password", c.SASL)
	}
	scramAuth := func(context.Context) (scram.Auth, error) {
		return scram.Auth{User: c.User, Pass: c.Password()}, nil
	}
	switch c.SASL {
	case "plain":
		return plain.Plain(func(context.Context) (plain.Auth, error) {
			return plain.Auth{User: c.User, Pass: c.Password()}, nil
		}), nil
	case "scram-sha-256":
		return scram.Sha256(scramAuth), nil
	case "scram-sha-512":
		return scram.Sha512(scramAuth), nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q: use plain, scram-sha-256 or scram-sha-512", c.SASL)
}

// dial opens a connection that the ledger watches.
func (s *Sink) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := s.opt.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return newConn(c, s.ledger), nil
}

// dial opens a connection, with TLS if it is to be secure.
func (c *Connection) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	dial := c.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err != nil || c.TLS == nil {
		return conn, err
	}
	config := c.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secure, nil
}

// checkFor is how long the first question to Kafka may take before it is logged that there is no answer.
const checkFor = 10 * time.Second

// check asks Kafka for the topic at the start, so that a wrong broker or topic is logged before there are events.
func (s *Sink) check(ctx context.Context, client *kgo.Client) {
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	req := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(s.opt.Topic)
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, client)
	s.status.checked(ctx, resp, err)
}
