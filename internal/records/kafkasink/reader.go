package kafkasink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// askFor bounds the description of the topic by Kafka, and readFor the silence of Kafka while events are read.
	askFor  = 10 * time.Second
	readFor = 30 * time.Second
	// maxAhead is the number of buffered events of a partition at which reading of the partition pauses until they are
	// used.
	maxAhead = 4096
)

// Reader reads the events that a topic contains when it is opened. It belongs to one goroutine.
type Reader struct {
	client     *kgo.Client
	topic      string
	partitions []*Partition
	by         map[int32]*Partition
}

// Partition is one partition of a topic. Its events are in the order in which they were written.
type Partition struct {
	reader    *Reader
	number    int32
	next, end int64 // offsets
	waiting   []*kgo.Record
	paused    bool
}

// OpenReader opens a reader for events written at or after from, in ms since the epoch; 0 means all events.
func OpenReader(ctx context.Context, c Connection, from int64) (*Reader, error) {
	if len(c.Brokers) == 0 || c.Topic == "" {
		return nil, errors.New("kafka: Brokers and Topic are required")
	}
	r := &Reader{topic: c.Topic, by: map[int32]*Partition{}}
	opts := []kgo.Opt{kgo.ClientID("sluice"), kgo.DisableClientMetrics(), kgo.SeedBrokers(c.Brokers...),
		kgo.Dialer(c.dial), kgo.KeepControlRecords()}
	if c.SASL != "" {
		mechanism, err := c.mechanism()
		if err != nil {
			return nil, fmt.Errorf("kafka: %w", err)
		}
		opts = append(opts, kgo.SASL(mechanism))
	}
	starts, err := r.find(ctx, opts, from)
	if err != nil {
		return nil, fmt.Errorf("kafka: topic %s at %v: %w", c.Topic, c.Brokers, err)
	}
	if r.client, err = kgo.NewClient(append(opts, kgo.ConsumePartitions(starts))...); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	return r, nil
}

// find asks for the partitions and where they begin and end.
func (r *Reader) find(ctx context.Context, opts []kgo.Opt, from int64) (map[string]map[int32]kgo.Offset, error) {
	asking, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	defer asking.Close()
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	admin := kadm.NewClient(asking)
	first, err := admin.ListStartOffsets(ctx, r.topic)
	if err == nil && from > 0 {
		first, err = admin.ListOffsetsAfterMilli(ctx, from, r.topic)
	}
	if err != nil {
		return nil, err
	}
	end, err := admin.ListEndOffsets(ctx, r.topic)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(first.Error(), end.Error()); err != nil {
		return nil, err
	}
	starts := map[int32]kgo.Offset{}
	first.Each(func(o kadm.ListedOffset) {
		last, _ := end.Lookup(r.topic, o.Partition)
		r.by[o.Partition] = &Partition{reader: r, number: o.Partition, next: o.Offset, end: last.Offset}
		if o.Offset < last.Offset {
			starts[o.Partition] = kgo.NewOffset().At(o.Offset)
		}
	})
	for _, n := range slices.Sorted(maps.Keys(r.by)) {
		r.partitions = append(r.partitions, r.by[n])
	}
	return map[string]map[int32]kgo.Offset{r.topic: starts}, nil
}

// Partitions returns the partitions of the topic.
func (r *Reader) Partitions() []*Partition { return r.partitions }

// Close ends the connections.
func (r *Reader) Close() { r.client.Close() }

// Name names the partition.
func (p *Partition) Name() string { return fmt.Sprintf("%s, partition %d", p.reader.topic, p.number) }

// Next returns the next event and its offset, io.EOF after the last event that the topic contained when it was opened.
func (p *Partition) Next(ctx context.Context) (line []byte, offset int64, err error) {
	for {
		for len(p.waiting) > 0 {
			record := p.waiting[0]
			p.waiting[0] = nil
			p.waiting = p.waiting[1:]
			if p.paused && len(p.waiting) < maxAhead/2 {
				p.paused = false
				p.reader.client.ResumeFetchPartitions(map[string][]int32{p.reader.topic: {p.number}})
			}
			if !record.Attrs.IsControl() {
				return record.Value, record.Offset, nil
			}
		}
		if p.next >= p.end {
			return nil, p.next, io.EOF
		}
		if err := p.reader.poll(ctx); err != nil {
			return nil, p.next, err
		}
	}
}

// poll waits for more events of any partition.
func (r *Reader) poll(ctx context.Context) error {
	wait, cancel := context.WithTimeout(ctx, readFor)
	defer cancel()
	fetches := r.client.PollFetches(wait)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case wait.Err() != nil:
		return fmt.Errorf("kafka was silent for %s", readFor)
	}
	for _, e := range fetches.Errors() {
		return e.Err
	}
	fetches.EachRecord(func(record *kgo.Record) {
		p := r.by[record.Partition]
		if p.next = record.Offset + 1; record.Offset < p.end {
			p.waiting = append(p.waiting, record)
		}
	})
	for _, p := range r.partitions {
		if !p.paused && (len(p.waiting) >= maxAhead || p.next >= p.end) {
			p.paused = true
			r.client.PauseFetchPartitions(map[string][]int32{r.topic: {p.number}})
		}
	}
	return nil
}
