package fleet

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"sluice/internal/atomicfile"
	"sluice/internal/wire"
)

// Journal is a Memory whose figures outlive the process: each post is appended to a file before it returns, so that a
// process that is killed loses no more than what it had not posted. A power failure may lose more. Nodes, busy keys and
// recent lines are of the present and are not kept. While the file cannot be written, the board works without it.
//
// The file begins with journalHead. A record is
//
//	length of the rest (4 bytes), CRC-32C of the rest (4 bytes), changes
//
// with the fixed numbers in little-endian. A change is changeSet, table, field, value and the time at which the table
// expires (ms since 1970), or changeForget and a table. Numbers are uvarints, texts have their length before them. The
// file ends at the first incomplete or damaged record.
type Journal struct {
	*Memory
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File // nil while it cannot be written, and after Close
	// size is that of the file, base what it was when it was last written anew.
	size, base int64
	retry      time.Time
	failing    bool
	closed     bool
}

const (
	journalHead  = "sluice figures 2\n"
	changeSet    = 'S'
	changeForget = 'F'

	recordHead = 8
	// maxRecord is the largest record, chunk the size from which a new one begins when the file is written anew.
	maxRecord = 64 << 20
	chunk     = 1 << 20
	// A file is written anew when it is larger than minJournal and than journalGrowth times what it was.
	minJournal    = 4 << 20
	journalGrowth = 3
	// retryJournal is the time between attempts while the file cannot be written.
	retryJournal = time.Minute
	// maxTTL is the longest time for which any table is kept.
	maxTTL = trialsTTL
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var _ Board = (*Journal)(nil)

// OpenJournal opens the board of a file, which need not exist and which no other process may use. A file that cannot be
// read is replaced. Tables expire by now.
func OpenJournal(path string, now func() time.Time, log *slog.Logger) *Journal {
	j := &Journal{Memory: NewMemory(now), path: path, log: log}
	if err := j.load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("the figures of the last run could not be read", "file", path, "error", err)
	}
	j.rewrite()
	return j
}

// Post implements Board.
func (j *Journal) Post(ctx context.Context, entries []Entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.Memory.Post(ctx, entries) // memory never fails
	now := j.now()
	b := newRecord()
	for i := range entries {
		if e := &entries[i]; keptTable(e.Table) {
			b = appendSet(b, e.Table, e.Field, e.Value, now.Add(e.TTL))
		}
		if len(b) > chunk {
			j.append(b)
			b = b[:recordHead]
		}
	}
	j.append(b)
	return nil
}

// Forget implements Board.
func (j *Journal) Forget(ctx context.Context, tables []string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.Memory.Forget(ctx, tables) // memory never fails
	b := newRecord()
	for _, t := range tables {
		b = wire.AppendText(append(b, changeForget), t)
	}
	j.append(b)
	return nil
}

// Close closes the file. The board works on without it.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	if j.file == nil {
		return nil
	}
	err := errors.Join(j.file.Sync(), j.file.Close())
	j.file = nil
	return err
}

// keptTable reports whether a table has figures: their names have a colon.
func keptTable(table string) bool { return strings.Contains(table, ":") }

// newRecord returns the space for the head of a record.
func newRecord() []byte { return make([]byte, recordHead, chunk/16) }

func appendSet(b []byte, table, field, value string, expires time.Time) []byte {
	b = wire.AppendText(append(b, changeSet), table)
	b = wire.AppendText(wire.AppendText(b, field), value)
	return binary.AppendUvarint(b, uint64(max(0, expires.UnixMilli())))
}

func sealRecord(b []byte) []byte {
	binary.LittleEndian.PutUint32(b, uint32(len(b)-recordHead))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[recordHead:], castagnoli))
	return b
}

// append writes a record, which begins with space for its head. After a failure, the file is written anew later.
func (j *Journal) append(b []byte) {
	switch {
	case j.closed:
		return
	case j.file == nil:
		if !j.now().Before(j.retry) {
			j.rewrite()
		}
		return
	case len(b) == recordHead:
		return
	}
	n, err := j.file.Write(sealRecord(b))
	j.size += int64(n)
	switch {
	case err != nil:
		_ = j.file.Close() // the first error counts
		j.file = nil
		j.failed(err)
	case j.size > minJournal && j.size > journalGrowth*j.base:
		j.rewrite()
	}
}

// rewrite writes the file anew, without what has expired.
func (j *Journal) rewrite() {
	if j.file != nil {
		_ = j.file.Close() // it is replaced
		j.file = nil
	}
	var size int64
	err := atomicfile.Write(j.path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 1<<16)
		n, _ := w.WriteString(journalHead) // Flush returns the error
		size = int64(n)
		b := newRecord()
		flush := func() {
			if len(b) > recordHead {
				n, _ := w.Write(sealRecord(b))
				size, b = size+int64(n), b[:recordHead]
			}
		}
		for _, e := range j.all() {
			if b = appendSet(b, e.table, e.field, e.value, e.expires); len(b) > chunk {
				flush()
			}
		}
		flush()
		return w.Flush()
	})
	if err == nil {
		j.file, err = os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0o600)
	}
	if err != nil {
		j.failed(err)
		return
	}
	j.size, j.base = size, size
	if j.failing {
		j.failing = false
		j.log.Info("figures are kept for a restart again", "file", j.path)
	}
}

func (j *Journal) failed(err error) {
	j.retry = j.now().Add(retryJournal)
	if !j.failing {
		j.failing = true
		j.log.Warn("figures are not kept for a restart; retrying", "file", j.path, "error", err)
	}
}

// field is one field of a table.
type field struct {
	table, field, value string
	expires             time.Time
}

// all returns the fields that are kept and have not expired.
func (j *Journal) all() []field {
	j.Memory.mu.Lock()
	defer j.Memory.mu.Unlock()
	now := j.now()
	var out []field
	for name, t := range j.tables {
		if !keptTable(name) || !now.Before(t.expires) {
			continue
		}
		for f, v := range t.fields {
			out = append(out, field{name, f, v, t.expires})
		}
	}
	return out
}

// errNoJournal means that a file is not a journal of this version.
var errNoJournal = errors.New("it is not a file of figures of this version")

// load reads the file.
func (j *Journal) load() error {
	f, err := os.Open(j.path)
	if err != nil {
		return err
	}
	defer f.Close() // only read
	in := bufio.NewReaderSize(f, 1<<16)
	head := make([]byte, len(journalHead))
	if _, err := io.ReadFull(in, head); err != nil || string(head) != journalHead {
		return errors.Join(errNoJournal, err)
	}
	var record [recordHead]byte
	for {
		if _, err := io.ReadFull(in, record[:]); err != nil {
			return unlessEnd(err)
		}
		n := binary.LittleEndian.Uint32(record[:])
		if n == 0 || n > maxRecord {
			return nil // torn
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(in, body); err != nil {
			return unlessEnd(err)
		}
		if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(record[4:]) || !j.restore(body) {
			return nil
		}
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// restore applies the changes of a record, and reports whether it could read them.
func (j *Journal) restore(body []byte) bool {
	in := wire.Read(body)
	latest := j.now().Add(maxTTL)
	for in.Len() > 0 {
		kind, table := in.Byte(), in.Text(maxRecord)
		switch kind {
		case changeForget:
			if !in.Failed() {
				delete(j.tables, table)
			}
		case changeSet:
			name, value, expires := in.Text(maxRecord), in.Text(maxRecord), in.Number(1<<60)
			if in.Failed() {
				return false
			}
			t := j.tables[table]
			if t == nil {
				t = newTable()
				j.tables[table] = t
			}
			t.fields[name], t.expires = value, time.UnixMilli(min(expires, latest.UnixMilli()))
		default:
			return false
		}
	}
	return !in.Failed()
}
