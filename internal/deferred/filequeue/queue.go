// Package filequeue stores deferred requests in files of this node, one for each rule. It is the
// queue of a node without Redis.
//
// A file is a log of operations (put, lease, return, remove), each in a record with a checksum.
// Reading it from the start restores the state. When most of it is no longer needed, it is
// compacted. Every record is passed to the operating system before the call returns, so nothing
// is lost if the process is killed. Files are flushed to the disk once per second, so a power
// failure can lose about a second. The log ends at the first incomplete or damaged record; the
// rest is dropped. Leases end with the process: after a restart all items wait again.
//
// A full queue rejects new items, so that a ticket stays valid until its item is too old.
package filequeue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/api/decide"
	"sluice/internal/tick"
)

// Options configure a Queue. Dir and Now are required.
type Options struct {
	// Dir is the folder of the files. It is created with mode 0700. Only one Queue may use it
	// at a time.
	Dir string
	// Now is the wall clock.
	Now func() time.Time
	// Dropped is called with the items that became too old. It may be nil.
	Dropped decide.QueueDropped
	// Torn is called for a log that ended in an incomplete or damaged record when it was
	// opened, with the number of dropped bytes. It may be nil.
	Torn func(rule, bytes int64)
	// Unusable is called for a file that could not be read when the Queue was opened, with the
	// error. It may be nil. A file that is not a queue of this version was renamed; the new
	// name ends in .damaged. If the disk failed, calls for the rule fail until the file can be
	// read.
	Unusable func(file string, err error)
	// SyncEvery is how often written records are flushed to the disk, 1 s if 0.
	SyncEvery time.Duration
}

// Queue is a decide.Queue in files. It owns one goroutine, which flushes them. Close stops it.
type Queue struct {
	opt Options

	mu   sync.Mutex
	logs map[int64]*log // nil after Close

	cancel context.CancelFunc
	done   chan struct{}
}

var _ decide.Queue = (*Queue)(nil)

var errClosed = fmt.Errorf("%w: it was closed", decide.ErrQueueUnavailable)

const suffix = ".queue"

// Open reads the existing files, removes those without items, and starts flushing. A file that
// it cannot read does not prevent it from opening the others.
func Open(opt Options) (*Queue, error) {
	if opt.Dir == "" || opt.Now == nil {
		return nil, errors.New("filequeue: Dir and Now are required")
	}
	if opt.Dropped == nil {
		opt.Dropped = func(int64, int) {}
	}
	if opt.Torn == nil {
		opt.Torn = func(int64, int64) {}
	}
	if opt.Unusable == nil {
		opt.Unusable = func(string, error) {}
	}
	if opt.SyncEvery <= 0 {
		opt.SyncEvery = time.Second
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, err
	}
	q := &Queue{opt: opt, logs: map[int64]*log{}, done: make(chan struct{})}
	if err := q.recall(); err != nil {
		return nil, errors.Join(err, q.closeAll())
	}
	ctx, cancel := context.WithCancel(context.Background())
	q.cancel = cancel
	go q.flush(ctx)
	return q, nil
}

// recall opens the existing files.
func (q *Queue) recall() error {
	entries, err := os.ReadDir(q.opt.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		rule, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), suffix), 10, 64)
		if err != nil || !strings.HasSuffix(e.Name(), suffix) {
			continue // not a queue file
		}
		l, err := q.log(rule)
		if err != nil {
			q.setAside(e.Name(), err)
			continue
		}
		q.sweep(rule, l)
		if len(l.byTicket) == 0 {
			delete(q.logs, rule)
			if err := errors.Join(l.file.Close(), os.Remove(q.path(rule))); err != nil {
				return err
			}
		}
	}
	return nil
}

// setAside renames a file that is not a queue and reports it, so that the rule can have a queue
// again and nothing is lost.
func (q *Queue) setAside(name string, err error) {
	if errors.Is(err, errNotAQueue) {
		aside := name + "." + strconv.FormatInt(q.opt.Now().UnixMilli(), 10) + ".damaged"
		if renamed := os.Rename(filepath.Join(q.opt.Dir, name), filepath.Join(q.opt.Dir, aside)); renamed != nil {
			err = errors.Join(err, renamed)
		} else {
			name = aside
		}
	}
	q.opt.Unusable(name, err)
}

func (q *Queue) path(rule int64) string {
	return filepath.Join(q.opt.Dir, strconv.FormatInt(rule, 10)+suffix)
}

// log returns the log of a rule and opens it the first time. The caller holds mu, or no other
// goroutine runs yet.
func (q *Queue) log(rule int64) (*log, error) {
	if q.logs == nil {
		return nil, errClosed
	}
	if l := q.logs[rule]; l != nil {
		return l, nil
	}
	l, torn, err := openLog(q.path(rule))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	if torn > 0 {
		q.opt.Torn(rule, torn)
	}
	q.logs[rule] = l
	return l, nil
}

// existing is log, but returns nil for a rule that never had an item.
func (q *Queue) existing(rule int64) (*log, error) {
	if q.logs == nil {
		return nil, errClosed
	}
	if l := q.logs[rule]; l != nil {
		return l, nil
	}
	if _, err := os.Stat(q.path(rule)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // a rule without a queue is no error
	}
	return q.log(rule) // reading it failed at start
}

// Rules implements decide.Queue.
func (q *Queue) Rules(_ context.Context, most int) ([]int64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.logs == nil {
		return nil, errClosed
	}
	var ids []int64
	for rule, l := range q.logs {
		if len(l.byTicket) > 0 {
			ids = append(ids, rule)
		}
	}
	slices.Sort(ids)
	return ids[:min(len(ids), most)], nil
}

// sweep drops items that became too old. The caller holds mu, or no other goroutine runs yet. A
// record that cannot be written does no harm, because the item has its time of expiry.
func (q *Queue) sweep(rule int64, l *log) {
	if n := l.sweep(q.opt.Now().UnixMilli()); n > 0 {
		q.opt.Dropped(rule, n)
	}
}

// Put implements decide.Queue.
func (q *Queue) Put(_ context.Context, rule int64, it decide.QueueItem, b decide.QueueBounds) (string, error) {
	if err := it.Check(b); err != nil {
		return "", err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.log(rule)
	if err != nil {
		return "", err
	}
	q.sweep(rule, l)
	if known := l.byID[it.ID]; it.ID != "" && known != nil {
		known.shared = known.shared || it.Nonce == "" || l.byNonce[it.Nonce] != known
		l.putBy(it.Nonce, known)
		return known.ticket(), nil
	}
	if int64(len(l.byTicket)) >= b.Items {
		return "", decide.ErrQueueFull
	}
	it.At = q.opt.Now().UnixMilli()
	it.Expires = it.At + b.Age.Milliseconds()
	e, err := l.put(&it)
	if err != nil {
		return "", fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	l.putBy(it.Nonce, e)
	l.tidy()
	return e.ticket(), nil
}

// Withdraw implements decide.Queue. A Put has ended when it returns, so none arrives later.
func (q *Queue) Withdraw(_ context.Context, rule int64, nonce string) (string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.existing(rule)
	if l == nil || err != nil {
		return "", err
	}
	q.sweep(rule, l)
	e := l.byNonce[nonce]
	switch {
	case e == nil:
		return "", nil
	case e.deliveries > 0, e.shared:
		return e.ticket(), nil
	}
	if err := l.remove(e); err != nil {
		return "", fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
	}
	l.tidy()
	return "", nil
}

// Lease implements decide.Queue. It reads every waiting item.
func (q *Queue) Lease(_ context.Context, rule int64, w decide.QueueWant) ([]decide.QueueItem, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	except := make(map[string]bool, len(w.Except))
	for _, bucket := range w.Except {
		except[bucket] = true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.existing(rule)
	if l == nil || err != nil {
		return nil, err
	}
	q.sweep(rule, l)
	now := q.opt.Now().UnixMilli()
	var items []decide.QueueItem
	for _, e := range l.entries {
		if len(items) == w.Max {
			break
		}
		if e.gone || e.until > now || e.expires <= now || except[e.bucket] {
			continue
		}
		it, err := l.lease(e, now+w.Hold.Milliseconds())
		if err != nil {
			return items, orNothing(items, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err))
		}
		items = append(items, it)
	}
	l.tidy() // expired leases leave records too
	return items, nil
}

// orNothing keeps an error only if nothing was leased before it.
func orNothing(items []decide.QueueItem, err error) error {
	if len(items) > 0 {
		return nil
	}
	return err
}

// Finish implements decide.Queue.
func (q *Queue) Finish(_ context.Context, rule int64, done, back []string) (int, error) {
	if len(done) > decide.MaxQueueLease || len(back) > decide.MaxQueueLease {
		return 0, decide.ErrQueueInvalid
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.existing(rule)
	if l == nil || err != nil {
		return 0, err
	}
	n := 0
	for _, ticket := range done {
		if e := l.byTicket[ticket]; e != nil && e.deliveries > 0 {
			if err := l.remove(e); err != nil {
				return n, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
			}
			n++
		}
	}
	for _, ticket := range back {
		if e := l.byTicket[ticket]; e != nil && e.deliveries > 0 {
			if err := l.back(e); err != nil {
				return n, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
			}
		}
	}
	l.tidy()
	return n, nil
}

// Drop implements decide.Queue.
func (q *Queue) Drop(_ context.Context, rule, until int64) (int, error) {
	if until < 0 {
		return 0, decide.ErrQueueInvalid
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.existing(rule)
	if l == nil || err != nil {
		return 0, err
	}
	n := 0
	for _, e := range slices.Clone(l.entries) {
		switch {
		case n == decide.MaxQueueLease:
			return n, nil
		case e.gone || e.at > until:
			continue
		}
		if err := l.remove(e); err != nil {
			return n, fmt.Errorf("%w: %w", decide.ErrQueueUnavailable, err)
		}
		n++
	}
	l.tidy()
	return n, nil
}

// Status implements decide.Queue.
func (q *Queue) Status(_ context.Context, rule int64) (decide.QueueStatus, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l, err := q.existing(rule)
	s := decide.QueueStatus{At: q.opt.Now().UnixMilli()}
	if l == nil || err != nil {
		return s, err
	}
	q.sweep(rule, l)
	s.Depth = int64(len(l.byTicket))
	oldest := true
	for _, e := range l.entries {
		if e.gone {
			continue
		}
		if oldest {
			s.Age = max(0, time.Duration(s.At-e.at)*time.Millisecond)
			oldest = false
		}
		if e.deliveries > 1 {
			s.Repeated++
		}
	}
	return s, nil
}

// flush flushes the written files to the disk at intervals.
func (q *Queue) flush(ctx context.Context) {
	defer close(q.done)
	for range tick.Every(ctx, q.opt.SyncEvery) {
		for _, f := range q.written() {
			_ = f.Sync() // if the disk fails, the next write fails too
		}
	}
}

// written returns the files to flush. The caller flushes them without the lock; a file that is
// replaced or closed in the meantime was flushed then.
func (q *Queue) written() []*os.File {
	q.mu.Lock()
	defer q.mu.Unlock()
	var files []*os.File
	for _, l := range q.logs {
		if l.dirty {
			l.dirty = false
			files = append(files, l.file)
		}
	}
	return files
}

// Close flushes and closes the files. Every later call fails.
func (q *Queue) Close() error {
	q.cancel()
	<-q.done
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closeAll()
}

func (q *Queue) closeAll() error {
	var errs []error
	for _, l := range q.logs {
		errs = append(errs, l.file.Sync(), l.file.Close())
	}
	q.logs = nil
	return errors.Join(errs...)
}
