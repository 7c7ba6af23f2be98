package memstore

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/maphash"
	"io"
	"os"
	"slices"

	"sluice/internal/wire"
	"sluice/limiter"
)

var (
	// ErrSnapshot wraps every refusal of a snapshot that is incomplete, damaged or of
	// another program. The store did not change.
	ErrSnapshot = errors.New("not a usable snapshot")
	// ErrSnapshotVersion wraps the refusal of a snapshot from a newer release.
	ErrSnapshotVersion = errors.New("snapshot of another format")
)

// LoadFile restores the snapshot at path. The error for a missing file wraps
// fs.ErrNotExist.
func (s *Store) LoadFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("load counters: %w", err)
	}
	defer f.Close()
	if err := s.Restore(f); err != nil {
		return fmt.Errorf("load counters from %s: %w", path, err)
	}
	return nil
}

// Restore replaces the content of the store with a snapshot, without elements that
// expired since. Nothing changes unless the whole snapshot is valid. Call it before
// the first decision: it loses requests decided during it.
func (s *Store) Restore(r io.Reader) error {
	in := &snapshotReader{r: bufio.NewReaderSize(r, 16<<10), sum: sha256.New()}
	loaded, err := s.read(in)
	if err != nil {
		return err
	}
	s.install(loaded)
	s.makeRoom()
	return nil
}

// contents is a snapshot being read.
type contents struct {
	shards        [shardCount]table[bucketKey, limiter.State]
	records       [shardCount]table[recordName, *record]
	buckets, recs uint64 // elements in the snapshot
	elapsed, mono int64
}

// snapshotReader reads exact lengths and computes the checksum.
type snapshotReader struct {
	r   *bufio.Reader
	sum hash.Hash
	buf bytes.Buffer
}

// next reads n bytes, valid until the next call. The buffer grows only as data
// arrives.
func (in *snapshotReader) next(n int) ([]byte, error) {
	in.buf.Reset()
	if _, err := io.CopyN(&in.buf, in.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: unexpected end", ErrSnapshot)
		}
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	in.sum.Write(in.buf.Bytes())
	return in.buf.Bytes(), nil
}

func (s *Store) read(in *snapshotReader) (*contents, error) {
	header, err := in.next(headerSize)
	if err != nil {
		return nil, err
	}
	if string(header[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: wrong first bytes", ErrSnapshot)
	}
	if v := binary.BigEndian.Uint32(header[len(magic):]); v != version {
		return nil, fmt.Errorf("%w: %d, and this version reads %d", ErrSnapshotVersion, v, version)
	}
	at := s.instant()
	saved := int64(binary.BigEndian.Uint64(header[len(magic)+4:]))
	c := &contents{mono: at.mono}
	if at.now > saved {
		c.elapsed = at.now - saved
	}
	for {
		kind, data, err := in.chunk()
		if err != nil {
			return nil, err
		}
		if kind == chunkEnd {
			return c, in.finish(c, data)
		}
		if err := s.readChunk(c, kind, data); err != nil {
			return nil, err
		}
	}
}

func (in *snapshotReader) chunk() (kind byte, data []byte, err error) {
	head, err := in.next(5)
	if err != nil {
		return 0, nil, err
	}
	kind = head[0]
	n := binary.BigEndian.Uint32(head[1:])
	if n > chunkMax || kind > chunkRecords || (kind == chunkEnd && n != endSize) {
		return 0, nil, fmt.Errorf("%w: chunk of kind %d with %d bytes", ErrSnapshot, kind, n)
	}
	data, err = in.next(int(n))
	return kind, data, err
}

// finish checks the counts, the checksum, and the end.
func (in *snapshotReader) finish(c *contents, end []byte) error {
	if binary.BigEndian.Uint64(end) != c.buckets || binary.BigEndian.Uint64(end[8:]) != c.recs {
		return fmt.Errorf("%w: elements are missing", ErrSnapshot)
	}
	want := in.sum.Sum(nil)
	got, err := in.next(len(want))
	if err != nil {
		return err
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%w: wrong checksum", ErrSnapshot)
	}
	if _, err := in.r.ReadByte(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: data after the end", ErrSnapshot)
	}
	return nil
}

func (s *Store) readChunk(c *contents, kind byte, data []byte) error {
	d := &decoder{wire.Read(data)}
	for d.Len() > 0 {
		var err error
		if kind == chunkBuckets {
			err = s.readBucket(c, d)
		} else {
			err = s.readRecord(c, d)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
	}
	return nil
}

func (s *Store) readBucket(c *contents, d *decoder) error {
	key, keep, st, err := d.bucket()
	if err != nil {
		return err
	}
	c.buckets++
	if keep = keepWithin(keep) - c.elapsed; keep <= 0 {
		return nil
	}
	h := s.hash(key)
	t := &c.shards[shardOf(h)]
	k := newBucketKey(key)
	if t.find(h, k) != nil {
		return fmt.Errorf("%w: a key appears twice", errMalformed)
	}
	t.add(bucketSlot{hash: h, deadline: c.mono + keep, key: k, value: st})
	return nil
}

func (s *Store) readRecord(c *contents, d *decoder) error {
	name, keep, rec, err := d.record()
	if err != nil {
		return err
	}
	c.recs++
	if keep = keepWithin(keep) - c.elapsed; keep <= 0 {
		return nil
	}
	h := maphash.Comparable(s.seed, name)
	t := &c.records[shardOf(h)]
	if t.find(h, name) != nil {
		return fmt.Errorf("%w: a record appears twice", errMalformed)
	}
	rec.name = name
	t.add(slot[recordName, *record]{hash: h, deadline: c.mono + keep, key: name, value: rec})
	return nil
}

// install puts the contents in place, one shard at a time.
func (s *Store) install(c *contents) {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		s.keys.Add(int64(len(c.shards[i].slots) - len(sh.buckets.slots)))
		sh.buckets = c.shards[i]
		sh.mu.Unlock()
	}
	s.forgetRecords()
	for _, r := range c.recordsByAge() {
		sh := s.recordShard(r.value.name.tag)
		sh.mu.Lock()
		s.remember(sh, r.value, r.deadline)
		sh.mu.Unlock()
		s.makeRoom()
	}
}

// recordsByAge lists the records of the snapshot, oldest first.
func (c *contents) recordsByAge() []*slot[recordName, *record] {
	var all []*slot[recordName, *record]
	for i := range c.records {
		for j := range c.records[i].slots {
			all = append(all, &c.records[i].slots[j])
		}
	}
	slices.SortFunc(all, func(a, b *slot[recordName, *record]) int { return cmp.Compare(a.value.at, b.value.at) })
	return all
}

// forgetRecords drops all request records.
func (s *Store) forgetRecords() {
	for i := range s.records {
		sh := &s.records[i]
		sh.mu.Lock()
		for sh.book.order.first != nil {
			s.dropRecord(sh, sh.book.order.first)
		}
		sh.mu.Unlock()
	}
}
