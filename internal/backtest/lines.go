package backtest

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
)

const (
	// maxLine bounds a line of a log, in bytes. An event takes at most 16 KiB, but other programs may have rewritten
	// it.
	maxLine = 256 << 10
	// A log shrinks to about a tenth when it is compressed. A file that grows to more than maxGrowth times its size, and
	// to more than freeGrowth bytes, is no log.
	maxGrowth  = 200
	freeGrowth = 8 << 20
	// readAhead is the size of a buffer of a file. There are two for each compressed one.
	readAhead = 32 << 10
)

// Lines are the events of one place, such as a file, in encoded form.
type Lines interface {
	// Name names the place.
	Name() string
	// Next returns the next line, which is valid until the next call, and its number. The error is io.EOF at the end, and
	// wraps ErrCut if the rest is missing. Other errors end the reading.
	Next(ctx context.Context) (line []byte, number int64, err error)
}

// ErrCut means that a place ends in the middle: what came before holds.
var ErrCut = errors.New("ends before its end")

// errGrowth is the error of a compressed file that would fill the memory or the time of its reader.
var errGrowth = fmt.Errorf("it grows to more than %d times its size, which no log does", maxGrowth)

// tooLong stands for a line above maxLine, and errTooLong says so.
var (
	tooLong    = []byte("(too long)")
	errTooLong = fmt.Errorf("is longer than %d KiB", maxLine>>10)
)

// fileLines are the lines of a file, compressed or not.
type fileLines struct {
	name   string
	from   *bufio.Reader
	long   []byte // a line that is longer than the buffer of from
	number int64
	err    error // of the beginning of a compressed file
}

// NewLines returns the lines of a file, which may be compressed with gzip. It closes nothing.
func NewLines(name string, file io.Reader) Lines {
	l := &fileLines{name: name, from: bufio.NewReaderSize(file, readAhead)}
	if head, _ := l.from.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		packed := &counting{from: l.from}
		var unpacked io.Reader
		if unpacked, l.err = gzip.NewReader(packed); l.err == nil {
			l.from = bufio.NewReaderSize(&growing{from: unpacked, packed: packed}, readAhead)
		}
	}
	return l
}

// counting counts the bytes that are read. It is an io.ByteReader, so that gzip reads no further than it must.
type counting struct {
	from *bufio.Reader
	n    int64
}

// Read implements io.Reader.
func (c *counting) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.n += int64(n)
	return n, err
}

// ReadByte implements io.ByteReader.
func (c *counting) ReadByte() (byte, error) {
	b, err := c.from.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

// growing refuses what grows too much.
type growing struct {
	from   io.Reader
	packed *counting
	n      int64
}

// Read implements io.Reader.
func (g *growing) Read(b []byte) (int, error) {
	if g.n > freeGrowth+maxGrowth*g.packed.n {
		return 0, errGrowth
	}
	n, err := g.from.Read(b)
	g.n += int64(n)
	return n, err
}

// Name implements Lines.
func (l *fileLines) Name() string { return l.name }

// Next implements Lines.
func (l *fileLines) Next(ctx context.Context) ([]byte, int64, error) {
	l.number++
	if l.err != nil {
		return nil, l.number, fmt.Errorf("%w: %w", ErrCut, l.err)
	}
	line, err := l.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.rest(ctx, line)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF) && len(line) > 0:
		return line, l.number, nil
	case errors.Is(err, io.EOF):
		return nil, l.number, io.EOF
	case isCut(err):
		return nil, l.number, fmt.Errorf("%w: %w", ErrCut, err)
	}
	return nil, l.number, err
}

// isCut reports whether a compressed file is broken, so that nothing can be read from there on.
func isCut(err error) bool {
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	return corrupt || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.Is(err, errGrowth)
}

// rest reads a line that is longer than the buffer. begin is the first part of the line.
func (l *fileLines) rest(ctx context.Context, begin []byte) ([]byte, error) {
	l.long = append(l.long[:0], begin...)
	for long := false; ; {
		part, err := l.from.ReadSlice('\n')
		if long = long || len(l.long)+len(part) > maxLine; !long {
			l.long = append(l.long, part...)
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, bufio.ErrBufferFull):
		case long && (err == nil || errors.Is(err, io.EOF)):
			return tooLong, nil
		default:
			return l.long, err
		}
	}
}
