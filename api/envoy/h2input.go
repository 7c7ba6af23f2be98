package envoy

import (
	"io"

	"golang.org/x/net/http2"
)

// The sizes of one read. A connection that fills smallRead gets largeRead, until smallReads reads in a row bring less
// than an eighth of it.
const (
	smallRead  = 4 << 10
	largeRead  = 32 << 10
	smallReads = 8
)

const (
	frameHead = 9
	// maxFrame is the longest payload of a frame, in both directions: the least that an end may set.
	maxFrame = 16 << 10
)

// input is what was read from a connection and is not parsed. Its frames are read through Read.
type input struct {
	buf   []byte
	r, w  int // buf[r:w] is not parsed
	small int // how many reads in a row brought little
}

var _ io.Reader = (*input)(nil)

// Read implements io.Reader for the framer, which reads only frames that are complete, or too large.
func (in *input) Read(b []byte) (int, error) {
	if in.r == in.w {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(b, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// hasFrame reports whether a whole frame was read, or the beginning of one that is too large.
func (in *input) hasFrame() bool {
	b := in.buf[in.r:in.w]
	if len(b) < frameHead {
		return false
	}
	n := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	return n > maxFrame || len(b) >= frameHead+n
}

// fill reads once.
func (in *input) fill(from io.Reader) error {
	size := max(len(in.buf), smallRead)
	switch filled := in.w == len(in.buf); {
	case filled && in.w > 0: // by the last read
		size = largeRead
	case in.r == in.w && in.small >= smallReads:
		size = smallRead
	}
	old := in.buf[in.r:in.w]
	if size != len(in.buf) {
		in.buf, in.small = make([]byte, size), 0
	}
	in.r, in.w = 0, copy(in.buf, old)
	n, err := from.Read(in.buf[in.w:])
	in.w += n
	if in.small++; n > largeRead/8 {
		in.small = 0
	}
	if n > 0 {
		return nil // the next read returns the same error
	}
	return err
}

// preface removes the preface of the client. It reports whether the input begins with it, and whether enough was read
// to know.
func (in *input) preface() (ok, known bool) {
	b := in.buf[in.r:in.w]
	n := min(len(b), len(http2.ClientPreface))
	if string(b[:n]) != http2.ClientPreface[:n] {
		return false, true
	}
	if n < len(http2.ClientPreface) {
		return false, false
	}
	in.r += n
	return true, true
}
