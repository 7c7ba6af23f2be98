package kafkasink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Each record ends with its header: a length and this many hexadecimal digits.
const (
	headerName = "n"
	digits     = 16
)

// seed is the seed of the hashes of batches.
var seed = maphash.MakeSeed()

// compressor notes which events are in a batch, and compresses it. Unlike the compressor of the client, it keeps its
// encoders, a megabyte each, between garbage collections.
type compressor struct {
	ledger *ledger
	codec  kgo.CompressionCodecType
	zstd   *zstd.Encoder
	gzip   chan *gzip.Writer // idle encoders
}

// encoders is how many batches are compressed at once.
const encoders = 2

// newCompressor returns a compressor for an Options.Compression.
func newCompressor(l *ledger, compression string) (c compressor, err error) {
	c.ledger = l
	switch compression {
	case "none":
	case "", "gzip":
		c.codec, c.gzip = kgo.CodecGzip, make(chan *gzip.Writer, encoders)
		for range encoders {
			w, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
			if err != nil {
				return c, err
			}
			c.gzip <- w
		}
	case "zstd":
		c.codec = kgo.CodecZstd
		c.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(64<<10),
			zstd.WithEncoderConcurrency(encoders))
	default:
		err = fmt.Errorf("unknown compression %q: use gzip, zstd or none", compression)
	}
	return c, err
}

// Compress implements kgo.Compressor. The client calls it just before it writes a batch, and holds the lock that
// prevents it from giving up the events of the batch at the same time.
func (c compressor) Compress(dst *bytes.Buffer, src []byte, flags ...kgo.CompressFlag,
) ([]byte, kgo.CompressionCodecType) {
	out, codec := src, kgo.CodecNone
	// The client writes src if that is not longer.
	if small := c.compress(dst, src, flags); small != nil && len(small) < len(src) {
		out, codec = small, c.codec
	}
	c.ledger.encode(maphash.Bytes(seed, out), numbers(src))
	return out, codec
}

// compress returns the compressed bytes of a batch, nil if it is not to be compressed.
func (c compressor) compress(dst *bytes.Buffer, src []byte, flags []kgo.CompressFlag) []byte {
	switch {
	case c.codec == kgo.CodecZstd && !slices.Contains(flags, kgo.CompressDisableZstd):
		dst.Grow(len(src) / 4)
		return c.zstd.EncodeAll(src, dst.AvailableBuffer())
	case c.codec == kgo.CodecGzip:
		dst.Grow(len(src) / 4)
		w := <-c.gzip
		defer func() { c.gzip <- w }()
		w.Reset(dst)
		if _, err := w.Write(src); err != nil || w.Close() != nil {
			return nil
		}
		return dst.Bytes()
	}
	return nil
}

// numbers reads the numbers of the events of a batch.
func numbers(src []byte) []uint64 {
	var ids []uint64
	for len(src) > 0 {
		size, n := binary.Varint(src)
		if n <= 0 || size < digits || size > int64(len(src)-n) {
			return nil
		}
		src = src[n:]
		id, err := strconv.ParseUint(string(src[size-digits:size]), 16, 64)
		if err != nil {
			return nil
		}
		ids, src = append(ids, id), src[size:]
	}
	return ids
}

// place is a partition of the topic. A connection writes to one topic.
type place = int32

// request is a produce request that was written.
type request struct {
	version int16
	batches map[place][]*event
}

// errGaveUp ends a connection that is about to write events which the account says were not written.
var errGaveUp = errors.New("the events of a request were given up before it was written")

// conn is an unencrypted connection to a broker: TLS is in a layer below. It reports the written batches and their
// answers to the ledger.
type conn struct {
	net.Conn
	ledger *ledger

	mu       sync.Mutex
	closed   bool
	requests map[int32]request // by correlation id

	// The present answer. Only the reading goroutine uses these fields.
	size []byte // the four bytes of its length
	left int    // bytes to come
	keep bool   // it may be the answer of a produce request
	text []byte
}

func newConn(c net.Conn, l *ledger) *conn {
	return &conn{Conn: c, ledger: l, requests: map[int32]request{}}
}

// Write implements net.Conn. The client writes one whole request at a time.
func (c *conn) Write(b []byte) (int, error) {
	id, r, err := c.begin(b)
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	if err != nil && n < len(b) && r != nil { // a request that is cut off is not executed
		if r, ok := c.take(id); ok {
			r.end(c.ledger, refused)
		}
	}
	return n, err
}

// begin notes the batches of a request that is about to be written. The result is nil for other requests.
func (c *conn) begin(b []byte) (int32, *request, error) {
	in := kbin.Reader{Src: b}
	in.Int32() // length
	key, version, id := in.Int16(), in.Int16(), in.Int32()
	if !in.Ok() || key != int16(kmsg.Produce) {
		return 0, nil, nil
	}
	in.NullableString() // client id
	var p kmsg.ProduceRequest
	p.Version = version
	if p.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	if err := p.UnsafeReadFrom(in.Src); err != nil {
		return 0, nil, err
	}
	r := request{version: version, batches: map[place][]*event{}}
	for i := range p.Topics {
		for _, part := range p.Topics[i].Partitions {
			if part.Records == nil { // the client gave them up
				continue
			}
			if len(part.Records) < batchHead {
				return 0, nil, errGaveUp
			}
			events, ok := c.ledger.write(maphash.Bytes(seed, part.Records[batchHead:]))
			if !ok {
				r.end(c.ledger, refused)
				return 0, nil, errGaveUp
			}
			r.batches[part.Partition] = events
		}
	}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.requests[id] = r
	}
	c.mu.Unlock()
	if closed {
		r.end(c.ledger, refused)
		return 0, nil, net.ErrClosed
	}
	return id, &r, nil
}

// batchHead is the length of the head of a batch, before its records.
const batchHead = 61

// end notes the same of all batches of a request that have no answer.
func (r *request) end(l *ledger, v verdict) {
	for _, events := range r.batches {
		l.answer(events, v)
	}
}

// take returns a request once.
func (c *conn) take(id int32) (request, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.requests[id]
	delete(c.requests, id)
	return r, ok
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read(b[:n])
	return n, err
}

// read splits b into answers: four bytes of length, followed by that many bytes.
func (c *conn) read(b []byte) {
	for len(b) > 0 {
		if c.left == 0 {
			n := min(4-len(c.size), len(b))
			c.size, b = append(c.size, b[:n]...), b[n:]
			if len(c.size) < 4 {
				return
			}
			c.left = int(binary.BigEndian.Uint32(c.size))
			c.size, c.text = c.size[:0], c.text[:0]
			c.mu.Lock()
			c.keep = len(c.requests) > 0
			c.mu.Unlock()
			continue
		}
		n := min(c.left, len(b))
		if c.keep {
			c.text = append(c.text, b[:n]...)
		}
		if c.left -= n; c.left == 0 && c.keep {
			c.answer(c.text)
		}
		b = b[n:]
	}
}

// answer notes what an answer says about the batches of its request.
func (c *conn) answer(b []byte) {
	in := kbin.Reader{Src: b}
	r, ok := c.take(in.Int32())
	if !ok {
		return
	}
	p := kmsg.ProduceResponse{Version: r.version}
	if p.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	if err := p.ReadFrom(in.Src); err == nil {
		for i := range p.Topics {
			for _, part := range p.Topics[i].Partitions {
				c.ledger.answer(r.batches[part.Partition], verdictOf(part.ErrorCode))
				delete(r.batches, part.Partition)
				c.ledger.noticed(kerr.ErrorForCode(part.ErrorCode))
			}
		}
	}
	r.end(c.ledger, unsure)
}

// Close implements net.Conn. What has no answer by now gets none.
func (c *conn) Close() error {
	err := c.Conn.Close()
	c.mu.Lock()
	requests := c.requests
	c.closed, c.requests = true, nil
	c.mu.Unlock()
	for _, r := range requests {
		r.end(c.ledger, unsure)
	}
	return err
}

// refusals are the codes that say a batch was not appended. Others do not say it: a broker that is no leader any more
// may have appended the batch and passed it on before.
var refusals = map[int16]bool{
	kerr.CorruptMessage.Code:                     true,
	kerr.UnknownTopicOrPartition.Code:            true,
	kerr.MessageTooLarge.Code:                    true,
	kerr.InvalidTopicException.Code:              true,
	kerr.RecordListTooLarge.Code:                 true,
	kerr.NotEnoughReplicas.Code:                  true,
	kerr.TopicAuthorizationFailed.Code:           true,
	kerr.ClusterAuthorizationFailed.Code:         true,
	kerr.InvalidTimestamp.Code:                   true,
	kerr.UnsupportedVersion.Code:                 true,
	kerr.UnsupportedForMessageFormat.Code:        true,
	kerr.PolicyViolation.Code:                    true,
	kerr.OutOfOrderSequenceNumber.Code:           true,
	kerr.InvalidProducerEpoch.Code:               true,
	kerr.UnknownProducerID.Code:                  true,
	kerr.UnsupportedCompressionType.Code:         true,
	kerr.InvalidRecord.Code:                      true,
	kerr.UnknownTopicID.Code:                     true,
	kerr.TransactionalIDAuthorizationFailed.Code: true,
}

func verdictOf(code int16) verdict {
	switch {
	case code == 0, code == kerr.DuplicateSequenceNumber.Code:
		return taken
	case refusals[code]:
		return refused
	}
	return unsure
}
