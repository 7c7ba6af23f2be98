package filequeue

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"

	"sluice/internal/atomicfile"
)

// compactOver is the size in bytes below which a file is not compacted.
const compactOver = 1 << 20

// tidy compacts the file if most of its bytes are no longer needed. After a failure, such as a
// full disk, the old file stays in use, and tidy tries again when the file has doubled.
func (l *log) tidy() {
	if l.size < compactOver || l.live > l.size/2 || l.size < l.retry {
		return
	}
	l.retry = 0
	if l.compact() != nil {
		l.retry = 2 * l.size
	}
}

// compact replaces the file atomically, after the new one was flushed to the disk.
func (l *log) compact() error {
	tmp, err := os.OpenFile(l.path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	places, size, err := l.copyTo(tmp)
	if err == nil {
		err = l.sync(tmp)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), l.path)
	}
	if err != nil {
		return errors.Join(err, tmp.Close(), os.Remove(l.path+".new"))
	}
	// If the folder cannot be flushed, either the old or the new file exists after a power
	// failure, and both are valid.
	_ = atomicfile.SyncDir(filepath.Dir(l.path))
	old := l.file
	l.file, l.size, l.live = tmp, size, 0
	for e, p := range places {
		e.body, e.whole = p.body, p.whole
		l.live += p.whole
	}
	old.Close() // its contents are no longer needed
	return nil
}

// place is the position of an entry in the new file.
type place struct{ body, whole int64 }

// copyTo writes the number of the next item, then the items in order.
func (l *log) copyTo(f *os.File) (places map[*entry]place, size int64, err error) {
	out := bufio.NewWriterSize(f, 1<<16)
	write := func(b []byte) {
		if err == nil {
			_, err = out.Write(b)
		}
		size += int64(len(b))
	}
	write([]byte(magic))
	write(markRecord(recNext, l.next))
	places = make(map[*entry]place, len(l.byTicket))
	for _, e := range l.entries {
		if e.gone {
			continue
		}
		it := e.item()
		it.Body = make([]byte, e.size)
		if _, readErr := l.file.ReadAt(it.Body, e.body); readErr != nil {
			return nil, 0, readErr
		}
		record, bodyAt := putRecord(e.seq, &it)
		places[e] = place{body: size + bodyAt, whole: int64(len(record))}
		write(record)
	}
	return places, size, errors.Join(err, out.Flush())
}
