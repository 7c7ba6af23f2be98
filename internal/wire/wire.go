// Package wire reads the private binary formats of tokens, snapshots and messages:
// varints, bytes, and texts with a length prefix. It is safe for untrusted input.
//
//	b := wire.AppendText(binary.AppendUvarint(nil, 7), "user:42")
//	in := wire.Read(b)
//	n, key := in.Number(100), in.Text(64)
//	if !in.Done() {
//		return errors.New("invalid input")
//	}
package wire

import "encoding/binary"

// AppendText appends a text with a length prefix.
func AppendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// Reader reads untrusted bytes. After a failure no bytes are left, and every method
// returns zero.
type Reader struct {
	rest   []byte
	failed bool
}

// Read returns a Reader of b. It keeps a reference to b.
func Read(b []byte) Reader { return Reader{rest: b} }

// Fail marks the input as invalid.
func (r *Reader) Fail() { r.rest, r.failed = nil, true }

// Failed reports whether the input was invalid.
func (r *Reader) Failed() bool { return r.failed }

// Len returns the number of remaining bytes.
func (r *Reader) Len() int { return len(r.rest) }

// Done reports whether the whole input was read without a failure.
func (r *Reader) Done() bool { return !r.failed && len(r.rest) == 0 }

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.rest) == 0 {
		r.Fail()
		return 0
	}
	v := r.rest[0]
	r.rest = r.rest[1:]
	return v
}

// Bool reads a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	v := r.Byte()
	if v > 1 {
		r.Fail()
	}
	return v == 1
}

// Varint reads a signed number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.rest)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// Number reads a number from 0 to most.
func (r *Reader) Number(most int64) int64 {
	if len(r.rest) > 0 && r.rest[0] < 0x80 && int64(r.rest[0]) <= most { // most numbers are small
		v := r.rest[0]
		r.rest = r.rest[1:]
		return int64(v)
	}
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > uint64(most) {
		r.Fail()
		return 0
	}
	r.rest = r.rest[n:]
	return int64(v)
}

// Count reads the number of items that follow, of which each takes at least size
// bytes.
func (r *Reader) Count(size int) int {
	n := int(r.Number(int64(len(r.rest))))
	if n > len(r.rest)/size {
		r.Fail()
		return 0
	}
	return n
}

// Text reads a text of at most most bytes.
func (r *Reader) Text(most int64) string {
	return string(r.Bytes(r.Number(most)))
}

// Bytes reads n bytes, without a copy.
func (r *Reader) Bytes(n int64) []byte {
	if n < 0 || n > int64(len(r.rest)) {
		r.Fail()
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}
