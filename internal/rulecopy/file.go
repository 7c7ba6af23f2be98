package rulecopy

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"os"

	"sluice/internal/atomicfile"
	"sluice/rules"
)

// SaveRules writes c to the file at path, readable by its owner only, with the rules rs instead of the rules of c. The
// file appears whole or not at all: it is written next to path, synced and renamed, so several nodes may share a path.
// identity identifies the database of the copy and must always be the same for one database. SaveRules holds one rule
// at a time in memory, and calls rest after each written piece.
func SaveRules(path, identity string, c *Copy, rest func(), rs iter.Seq[*rules.Rule]) error {
	return replaceFile(path, func(f *os.File) error {
		if _, err := f.Seek(int64(headerSize), io.SeekStart); err != nil {
			return err
		}
		sum := sha256.New()
		content := &counted{w: resting{io.MultiWriter(f, sum), rest}}
		w := bufio.NewWriterSize(content, pieceSize)
		if err := c.write(w, rs); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		head := header(identity, c.At, content.n)
		sum.Write(head)
		if _, err := f.Write(sum.Sum(nil)); err != nil {
			return err
		}
		_, err := f.WriteAt(head, 0)
		return err
	})
}

// pieceSize is how many bytes of a copy are written at a time.
const pieceSize = 64 << 10

// resting calls rest after each piece.
type resting struct {
	w    io.Writer
	rest func()
}

func (r resting) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	r.rest()
	return n, err
}

// counted counts what is written, and refuses more than a copy may have.
type counted struct {
	w io.Writer
	n int
}

func (c *counted) Write(p []byte) (int, error) {
	if c.n += len(p); c.n > MaxContent {
		return 0, tooLarge(c.n)
	}
	return c.w.Write(p)
}

// replaceFile makes the file what write writes, whole or not at all.
func replaceFile(path string, write func(*os.File) error) error {
	if err := atomicfile.Write(path, write); err != nil {
		return fmt.Errorf("save a copy of the rules to %s: %w", path, err)
	}
	return nil
}

// Load reads and verifies the file. The error wraps fs.ErrNotExist when there is
// none; otherwise it is Decode's, or one of reading.
func Load(path, identity string) (*Copy, error) {
	data, err := readFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	return Decode(identity, data)
}

// readFile reads a regular file of at most most bytes.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, damaged("not a regular file")
	}
	if info.Size() > most {
		return nil, damaged(fmt.Sprintf("%d bytes are more than a copy can have", info.Size()))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	b.Grow(int(info.Size()) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(f, most+1)) // one more, so that what follows the end is seen
	return b.Bytes(), err
}
