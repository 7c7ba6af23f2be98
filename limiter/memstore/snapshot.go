package memstore

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"sluice/internal/atomicfile"
	"sluice/limiter"
)

// A snapshot is
//
//	magic    8 bytes "SLUICEMS"
//	version  uint32, big-endian as every fixed number here
//	saved    int64, when on the store's clock, ms since the epoch
//	chunks   kind (1 buckets, 2 records), uint32 length, that many bytes of elements
//	end      kind 0, uint32 16, then how many buckets and records as two uint64
//	check    SHA-256 of everything before it
const (
	magic   = "SLUICEMS"
	version = 4

	chunkEnd     byte = 0
	chunkBuckets byte = 1
	chunkRecords byte = 2

	// chunkMax is the largest chunk, so that a damaged length is detected. A chunk
	// ends at chunkSize; a single element may be longer.
	chunkMax  = 64 << 20
	chunkSize = 1 << 20

	headerSize = len(magic) + 4 + 8
	endSize    = 16
)

// Snapshot writes all buckets and records that have not expired. It holds the lock
// of one shard at a time, so decisions continue: each bucket is consistent, but a
// request that is decided during the snapshot may be in some of its buckets and not
// in others. Records follow their buckets. Sums of limits that span regions are not in a snapshot.
func (s *Store) Snapshot(w io.Writer) error {
	sum := sha256.New()
	out := &chunkWriter{w: io.MultiWriter(w, sum), buf: s.borrowBuffer()}
	defer func() { s.returnBuffer(out.buf) }()
	header := append(make([]byte, 0, headerSize), magic...)
	header = binary.BigEndian.AppendUint32(header, version)
	header = binary.BigEndian.AppendUint64(header, uint64(s.instant().now))
	out.write(header)
	var buckets, records uint64
	for i := range s.shards {
		buckets += s.snapshotBuckets(i, out)
	}
	out.flush(chunkBuckets)
	for i := range s.records {
		records += s.snapshotRecords(i, out)
	}
	out.flush(chunkRecords)
	out.buf = binary.BigEndian.AppendUint64(out.buf, buckets)
	out.buf = binary.BigEndian.AppendUint64(out.buf, records)
	out.flush(chunkEnd)
	if out.err == nil {
		_, out.err = w.Write(sum.Sum(nil))
	}
	if out.err != nil {
		return fmt.Errorf("write snapshot: %w", out.err)
	}
	return nil
}

// borrowBuffer returns the buffer of the last snapshot, so that frequent snapshots
// leave no garbage.
func (s *Store) borrowBuffer() []byte {
	if b := s.buffer.Swap(nil); b != nil {
		return (*b)[:0]
	}
	return nil
}

// returnBuffer keeps b for the next snapshot, unless it has become large.
func (s *Store) returnBuffer(b []byte) {
	if cap(b) <= 4*chunkSize {
		s.buffer.Store(&b)
	}
}

// snapshotBuckets encodes one shard under its lock and writes without it.
func (s *Store) snapshotBuckets(i int, out *chunkWriter) (n uint64) {
	sh := &s.shards[i]
	sh.mu.Lock()
	mono := s.mono()
	for j := range sh.buckets.slots {
		b := &sh.buckets.slots[j]
		if keep := b.deadline - mono; keep > 0 {
			out.buf = appendBucket(out.buf, &b.key, keep, &b.value)
			out.cut()
			n++
		}
	}
	sh.mu.Unlock()
	out.flushFull(chunkBuckets)
	return n
}

func (s *Store) snapshotRecords(i int, out *chunkWriter) (n uint64) {
	sh := &s.records[i]
	sh.mu.Lock()
	mono := s.mono()
	for j := range sh.book.records.slots {
		r := &sh.book.records.slots[j]
		if keep := r.deadline - mono; keep > 0 {
			out.buf = appendRecord(out.buf, r.key, keep, r.value)
			out.cut()
			n++
		}
	}
	sh.mu.Unlock()
	out.flushFull(chunkRecords)
	return n
}

// chunkWriter collects elements and writes them in chunks. After the first error,
// which it keeps, it does nothing.
type chunkWriter struct {
	w    io.Writer
	buf  []byte
	cuts []int // where in buf a chunk ends
	err  error
}

func (c *chunkWriter) write(b []byte) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
}

// cut marks the end of an element, and of a chunk if it is large enough.
func (c *chunkWriter) cut() {
	start := 0
	if n := len(c.cuts); n > 0 {
		start = c.cuts[n-1]
	}
	if len(c.buf)-start >= chunkSize {
		c.cuts = append(c.cuts, len(c.buf))
	}
}

// flushFull writes the full chunks and keeps the rest.
func (c *chunkWriter) flushFull(kind byte) {
	start := 0
	for _, end := range c.cuts {
		c.chunk(kind, c.buf[start:end])
		start = end
	}
	c.cuts = c.cuts[:0]
	c.buf = c.buf[:copy(c.buf, c.buf[start:])]
}

// flush writes everything collected.
func (c *chunkWriter) flush(kind byte) {
	c.flushFull(kind)
	if len(c.buf) > 0 {
		c.chunk(kind, c.buf)
		c.buf = c.buf[:0]
	}
}

func (c *chunkWriter) chunk(kind byte, b []byte) {
	c.write(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(b))))
	c.write(b)
}

// SaveFile writes a snapshot to path, readable by its owner only. The file is
// replaced atomically.
func (s *Store) SaveFile(path string) error {
	err := atomicfile.Write(path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 64<<10)
		if err := s.Snapshot(w); err != nil {
			return err
		}
		return w.Flush()
	})
	if err != nil {
		return fmt.Errorf("save counters to %s: %w", path, err)
	}
	return nil
}

// keepWithin bounds how long a restored element is kept.
func keepWithin(keep int64) int64 { return min(keep, limiter.MaxWindow+slackMax) }
