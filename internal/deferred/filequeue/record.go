package filequeue

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"sluice/api/decide"
	"sluice/internal/wire"
)

// A record is
//
//	length of the rest (4 bytes), CRC-32C of the rest (4 bytes), kind (1), number of the item
//
// and, for a put, also: at, expires, deliveries, length of id, id, length of bucket, bucket, and
// the body up to the end. The two fixed numbers are little-endian, the others uvarints.
const (
	recPut   = 'P'
	recLease = 'L'
	recBack  = 'B'
	recEnd   = 'E'
	// recNext is the lowest number that the next item may have.
	recNext = 'N'

	headSize  = 8
	maxRecord = decide.MaxQueueBody + 4*decide.MaxQueueName
	maxNumber = 1 << 62
)

var table = crc32.MakeTable(crc32.Castagnoli)

// record is the content of one record. bodyAt counts from the record's first byte.
type record struct {
	kind                    byte
	seq                     int64
	at, expires, deliveries int64
	id, bucket              string
	bodyAt                  int64
	bodySize                int
}

func seal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-headSize))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[headSize:], table))
	return b
}

func markRecord(kind byte, seq int64) []byte {
	b := append(make([]byte, headSize, headSize+1+binary.MaxVarintLen64), kind)
	return seal(binary.AppendUvarint(b, uint64(seq)))
}

func putRecord(seq int64, it *decide.QueueItem) (b []byte, bodyAt int64) {
	b = append(make([]byte, headSize, headSize+64+len(it.ID)+len(it.Bucket)+len(it.Body)), recPut)
	for _, v := range []int64{seq, it.At, it.Expires, it.Deliveries} {
		b = binary.AppendUvarint(b, uint64(max(v, 0)))
	}
	for _, s := range []string{it.ID, it.Bucket} {
		b = wire.AppendText(b, s)
	}
	bodyAt = int64(len(b))
	return seal(append(b, it.Body...)), bodyAt
}

// scan reads records until the end or the first incomplete or damaged one. The error is that of
// the reader.
func scan(r io.Reader, found func(*record, int64)) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var head [headSize]byte
	var body []byte
	for {
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return unlessEnd(err)
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n == 0 || n > maxRecord {
			return nil
		}
		if uint32(cap(body)) < n {
			body = make([]byte, n)
		}
		body = body[:n]
		if _, err := io.ReadFull(in, body); err != nil {
			return unlessEnd(err)
		}
		rec, ok := parse(body)
		if !ok || crc32.Checksum(body, table) != binary.LittleEndian.Uint32(head[4:]) {
			return nil
		}
		found(&rec, headSize+int64(n))
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// parse reads the part of a record after its head.
func parse(b []byte) (r record, ok bool) {
	in := wire.Read(b)
	r.kind, r.seq = in.Byte(), in.Number(maxNumber)
	if r.kind == recPut {
		r.at, r.expires, r.deliveries = in.Number(maxNumber), in.Number(maxNumber), in.Number(maxNumber)
		r.id, r.bucket = in.Text(maxRecord), in.Text(maxRecord)
		r.bodyAt, r.bodySize = int64(headSize+len(b)-in.Len()), in.Len()
	}
	return r, !in.Failed()
}
