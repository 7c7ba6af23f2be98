package filequeue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"sluice/api/decide"
)

// entry is one item of a log, without its body.
type entry struct {
	seq         int64
	at, expires int64
	id, bucket  string
	body        int64 // its position in the file
	size        int   // of the body
	whole       int64 // size of the record that added it
	deliveries  int64
	until       int64 // leased until, ms; 0 if free
	gone        bool  // removed or dropped, but still in log.entries
	// nonces are those of the last Puts that returned it, shared says that there was more than one. They end with the
	// process.
	nonces []string
	shared bool
}

func (e *entry) ticket() string { return strconv.FormatInt(e.seq, 36) }

// item returns an entry without its body.
func (e *entry) item() decide.QueueItem {
	return decide.QueueItem{Ticket: e.ticket(), ID: e.id, Bucket: e.bucket, At: e.at, Expires: e.expires,
		Deliveries: e.deliveries}
}

// log is the file of one rule and the state in it.
type log struct {
	path string
	file *os.File
	size int64 // of the valid part, after which records are written
	// next is the number of the next item; numbers are never used twice.
	next     int64
	entries  []*entry // in order; some gone
	dead     int      // number of entries that are gone
	live     int64    // bytes of the records that added existing items
	byTicket map[string]*entry
	byID     map[string]*entry
	byNonce  map[string]*entry
	dirty    bool  // written since the last flush
	retry    int64 // the size at which compaction is tried again after a failure
	// sync flushes a file to the disk. Tests replace it.
	sync func(*os.File) error
}

// magic begins every file.
const magic = "sluice queue 1\n"

// errNotAQueue means that a file does not begin like a queue of this version.
var errNotAQueue = errors.New("is not a queue file that this version can read")

// openLog opens or creates a file and reads it. torn is the number of bytes that were cut off
// after the last valid record.
func openLog(path string) (l *log, torn int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, 0, err
	}
	l = &log{path: path, file: f, next: 1, byTicket: map[string]*entry{}, byID: map[string]*entry{},
		byNonce: map[string]*entry{}, sync: (*os.File).Sync}
	if torn, err = l.read(); err != nil {
		return nil, 0, errors.Join(fmt.Errorf("%s: %w", filepath.Base(path), err), f.Close())
	}
	return l, torn, nil
}

// read replays the file and cuts off everything after the last valid record.
func (l *log) read() (torn int64, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	head := make([]byte, min(int64(len(magic)), info.Size()))
	if _, err := io.ReadFull(l.file, head); err != nil {
		return 0, err
	}
	if len(head) < len(magic) && string(head) == magic[:len(head)] {
		// New, or interrupted while it was created.
		if _, err := l.file.WriteAt([]byte(magic), 0); err != nil {
			return 0, err
		}
		l.size, l.dirty = int64(len(magic)), true
		return 0, nil
	}
	if string(head) != magic {
		return 0, errNotAQueue
	}
	l.size = int64(len(magic))
	if err := scan(io.NewSectionReader(l.file, l.size, info.Size()-l.size), l.replay); err != nil {
		return 0, err
	}
	if torn = info.Size() - l.size; torn > 0 {
		return torn, l.file.Truncate(l.size)
	}
	return 0, nil
}

// replay applies one record, whose size is whole.
func (l *log) replay(r *record, whole int64) {
	start := l.size
	l.size += whole
	e := l.byTicket[strconv.FormatInt(r.seq, 36)]
	switch {
	case r.kind == recNext:
		l.next = max(l.next, r.seq)
	case r.kind == recPut:
		l.next = max(l.next, r.seq+1)
		l.add(&entry{
			seq: r.seq, at: r.at, expires: r.expires, id: r.id, bucket: r.bucket, deliveries: r.deliveries,
			body: start + r.bodyAt, size: r.bodySize, whole: whole,
		})
	case e == nil: // of an item that is gone
	case r.kind == recLease:
		e.deliveries++
	case r.kind == recBack:
		e.deliveries--
	case r.kind == recEnd:
		l.forget(e)
	}
}

func (l *log) add(e *entry) {
	l.entries = append(l.entries, e)
	l.byTicket[e.ticket()] = e
	if e.id != "" {
		l.byID[e.id] = e
	}
	l.live += e.whole
}

// forget removes an item from the state.
func (l *log) forget(e *entry) {
	e.gone = true
	l.dead++
	l.live -= e.whole
	delete(l.byTicket, e.ticket())
	if l.byID[e.id] == e {
		delete(l.byID, e.id)
	}
	for _, nonce := range e.nonces {
		delete(l.byNonce, nonce)
	}
	if l.dead > 32 && l.dead > len(l.entries)/2 {
		l.entries = slices.DeleteFunc(l.entries, func(e *entry) bool { return e.gone })
		l.dead = 0
	}
}

// write appends one record. If that fails, it removes what was written of the record.
func (l *log) write(record []byte) error {
	if _, err := l.file.WriteAt(record, l.size); err != nil {
		return errors.Join(err, l.file.Truncate(l.size))
	}
	l.size += int64(len(record))
	l.dirty = true
	return nil
}

// put adds an item.
func (l *log) put(it *decide.QueueItem) (*entry, error) {
	record, bodyAt := putRecord(l.next, it)
	start := l.size
	if err := l.write(record); err != nil {
		return nil, err
	}
	e := &entry{
		seq: l.next, at: it.At, expires: it.Expires, id: it.ID, bucket: it.Bucket,
		body: start + bodyAt, size: len(it.Body), whole: int64(len(record)),
	}
	l.next++
	l.add(e)
	return e, nil
}

// maxNonces bounds entry.nonces. A caller may repeat a request at will.
const maxNonces = 4

// putBy notes that a Put returned an item.
func (l *log) putBy(nonce string, e *entry) {
	if nonce == "" || l.byNonce[nonce] != nil {
		return
	}
	if len(e.nonces) == maxNonces {
		delete(l.byNonce, e.nonces[0])
		e.nonces = slices.Delete(e.nonces, 0, 1)
	}
	l.byNonce[nonce] = e
	e.nonces = append(e.nonces, nonce)
}

// lease reads an item and marks it until the given time.
func (l *log) lease(e *entry, until int64) (decide.QueueItem, error) {
	body := make([]byte, e.size)
	if _, err := l.file.ReadAt(body, e.body); err != nil {
		return decide.QueueItem{}, err
	}
	if err := l.write(markRecord(recLease, e.seq)); err != nil {
		return decide.QueueItem{}, err
	}
	e.until = until
	e.deliveries++
	it := e.item()
	it.Body = body
	return it, nil
}

func (l *log) back(e *entry) error {
	if err := l.write(markRecord(recBack, e.seq)); err != nil {
		return err
	}
	e.until = 0
	e.deliveries--
	return nil
}

func (l *log) remove(e *entry) error {
	if err := l.write(markRecord(recEnd, e.seq)); err != nil {
		return err
	}
	l.forget(e)
	return nil
}

// sweep drops items that are too old and returns their number. It begins with the oldest and
// stops at the first that is not too old.
func (l *log) sweep(now int64) int {
	var old []*entry
	for _, e := range l.entries {
		if e.gone {
			continue
		}
		if e.expires > now {
			break
		}
		old = append(old, e)
	}
	for _, e := range old {
		if l.remove(e) != nil {
			l.forget(e) // the file needs no record, because it has the time of expiry
		}
	}
	return len(old)
}
