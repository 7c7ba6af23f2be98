package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"

	"sluice/internal/atomicfile"
	"sluice/internal/trouble"
)

// The files of a log: the current file, and earlier files, whose names contain the time in UTC at which they ended and
// sort by age. An earlier file is compressed into a file with gzipEnd.
const (
	currentFile = "decisions.jsonl"
	earlierName = "decisions-20060102T150405.000000000Z"
	plainEnd    = ".jsonl"
	gzipEnd     = ".jsonl.gz"
	tempEnd     = ".tmp"
)

const (
	// parts is the smallest number of files into which the space of a log is divided.
	parts = 8
	// maxAge is the age at which a file is ended.
	maxAge = 24 * time.Hour
)

// FileOptions configure a FileSink. All are required except Trouble.
type FileOptions struct {
	// Dir is the directory, which only this process writes to.
	Dir string
	// MaxBytes bounds the bytes of all files together, at least 1 MiB: the oldest are removed.
	MaxBytes int64
	Account  *Account
	Now      func() time.Time
	Log      *slog.Logger
	Trouble  *trouble.Registry // nil discards
}

// FileSink writes events as lines to files, which it rotates by size and age, compresses and removes. It owns a
// goroutine while it compresses a file; Close waits for it.
type FileSink struct {
	opt   FileOptions
	file  *os.File
	size  int64
	began time.Time
	// stuck is when the file could not be ended, and zero if it could.
	stuck time.Time

	compressing sync.WaitGroup
	stop        context.CancelFunc // of the goroutine
	stopped     context.Context    //nolint:containedctx // for the goroutine
	text        []byte
}

// OpenFiles opens the log of a directory, which it creates, and finishes what an earlier process left half done.
func OpenFiles(opt FileOptions) (*FileSink, error) {
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("decision log: %w", err)
	}
	s := &FileSink{opt: opt}
	s.stopped, s.stop = context.WithCancel(context.Background())
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("decision log: %w", err)
	}
	s.tidy()
	return s, nil
}

// open opens the current file. If its last line is incomplete, the next event begins a new line.
func (s *FileSink) open() error {
	f, err := os.OpenFile(filepath.Join(s.opt.Dir, currentFile), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.WriteString("\n")
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.size, s.began = f, info.Size(), s.opt.Now()
	if s.size > 0 {
		s.began = info.ModTime()
	}
	return nil
}

// Write implements Sink. Lines that cannot be written are dropped as Refused; the next batch tries again.
func (s *FileSink) Write(b Batch) {
	s.find()
	for lines := b.Lines; len(lines) > 0; {
		most := s.fileBytes()
		if s.due() {
			if err := s.rotate(); err != nil {
				// The file may also have the part that is for compressing it.
				if most = 2 * s.fileBytes(); s.size >= most {
					s.account(len(lines), err)
					return
				}
			}
		}
		// As many as fit into the file, at least one.
		n, size := 0, int64(0)
		for s.text = s.text[:0]; n < len(lines) && (n == 0 || s.size+size+int64(len(lines[n])) <= most); n++ {
			s.text = append(s.text, lines[n]...)
			size += int64(len(lines[n]))
		}
		s.account(n, s.append())
		lines = lines[n:]
	}
}

// find makes sure that the open file is the one in the directory. A file that was removed or moved away would take
// events that nobody can read.
func (s *FileSink) find() {
	if s.file == nil {
		return
	}
	there, err := os.Lstat(filepath.Join(s.opt.Dir, currentFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // unknown; writing says more
	}
	ours, ourErr := s.file.Stat()
	if err == nil && ourErr == nil && os.SameFile(there, ours) {
		return
	}
	s.opt.Log.Warn("another program removed or replaced the file of the decision log; events go to a new one",
		"dir", s.opt.Dir)
	s.drop()
}

// drop closes the file, so that the next event opens it.
func (s *FileSink) drop() {
	_ = s.file.Close() // written data is no longer in memory of this process
	s.file, s.size = nil, 0
}

// append writes s.text. If only a part could be written, that part is removed again.
func (s *FileSink) append() error {
	if s.file == nil {
		if err := os.MkdirAll(s.opt.Dir, 0o700); err != nil {
			return err
		}
		if err := s.open(); err != nil {
			return err
		}
	}
	n, err := s.file.Write(s.text)
	if err != nil && n > 0 {
		if cutErr := s.file.Truncate(s.size); cutErr != nil {
			err = errors.Join(err, cutErr)
			s.drop() // open ends the torn line
		}
		return err
	}
	s.size += int64(n)
	return err
}

var unwritten = trouble.Declare(trouble.Condition{Code: "decision_log_unwritten",
	Advice: "see to the disk and the rights of the directory of SLUICE_DECISION_LOG", Of: "dir", Severe: true,
	Starts: "the decision log cannot be written; its events are dropped and counted in " +
		"sluice_decision_log_dropped_total until it can", Ends: "the decision log is written again",
	Banner: "The decision log cannot be written. Its events are dropped."})

// account counts n lines.
func (s *FileSink) account(n int, err error) {
	if err == nil {
		s.opt.Account.Deliver(n)
	} else {
		s.opt.Account.Drop(Refused, n)
	}
	s.opt.Trouble.Note(unwritten, s.opt.Dir, err)
}

// fileBytes is the size at which a file is ended.
func (s *FileSink) fileBytes() int64 { return s.opt.MaxBytes / parts }

// due reports whether the file must be ended. Its age also counts if the clock was set back.
func (s *FileSink) due() bool {
	return s.size > 0 && (s.size >= s.fileBytes() || s.opt.Now().Sub(s.began).Abs() >= maxAge)
}

// rotateAgain is the pause after which a failed end of a file is retried.
const rotateAgain = time.Second

// errStuck is the error of a file that is full and that could not be ended a moment ago.
var errStuck = errors.New("the file is full and cannot be renamed")

// rotate ends the current file. After every step that a crash leaves half done, tidy can go on. After an error the
// file is still the current one; the first error is logged.
func (s *FileSink) rotate() error {
	now := s.opt.Now()
	if !s.stuck.IsZero() && now.Sub(s.stuck).Abs() < rotateAgain {
		return errStuck
	}
	path, err := s.unused(now)
	if err == nil {
		err = os.Rename(filepath.Join(s.opt.Dir, currentFile), path)
	}
	if err != nil {
		if s.stuck.IsZero() {
			s.opt.Log.Error("the decision log cannot begin a new file and goes on with the old one until that has a "+
				"quarter of SLUICE_DECISION_LOG_MAX_BYTES", "dir", s.opt.Dir, "error", err)
		}
		s.stuck = now
		return err
	}
	s.stuck = time.Time{}
	s.drop()
	if s.open() == nil { // else append tries again and reports it
		s.tidy()
	}
	return nil
}

// unused returns the path for the file that ends now. It sorts after all earlier files, even if the clock was set back.
func (s *FileSink) unused(now time.Time) (string, error) {
	names, err := earlier(s.opt.Dir)
	at := now.UTC()
	for _, name := range names {
		if len(name) < len(earlierName) {
			continue
		}
		if ended, parseErr := time.Parse(earlierName, name[:len(earlierName)]); parseErr == nil && !at.After(ended) {
			at = ended.Add(1)
		}
	}
	return filepath.Join(s.opt.Dir, at.Format(earlierName)+plainEnd), err
}

// tidy compresses earlier files and removes the oldest ones, in a goroutine, one at a time.
func (s *FileSink) tidy() {
	s.compressing.Wait()
	s.compressing.Go(func() {
		// One part is the current file, one is for the compressed copy that is being made.
		err := errors.Join(removeOldest(s.opt.Dir, s.opt.MaxBytes-2*s.fileBytes()), compressAll(s.stopped, s.opt.Dir))
		if err != nil && s.stopped.Err() == nil {
			s.opt.Log.Error("earlier files of the decision log cannot be compressed or removed", "dir", s.opt.Dir,
				"error", err)
		}
	})
}

// Oldest implements Sink: nothing waits here.
func (s *FileSink) Oldest() time.Time { return time.Time{} }

// Close implements Sink. Everything was written before. A file that is not compressed when ctx ends is left to the
// next start.
func (s *FileSink) Close(ctx context.Context) error {
	end := context.AfterFunc(ctx, s.stop)
	s.compressing.Wait()
	end()
	s.stop()
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Sync(), s.file.Close())
}

// compressAll compresses the earlier files that are not, and removes what was left half done, until ctx ends.
func compressAll(ctx context.Context, dir string) error {
	names, err := earlier(dir)
	for _, name := range names {
		path := filepath.Join(dir, name)
		switch {
		case strings.HasSuffix(name, tempEnd):
			err = errors.Join(err, os.Remove(path))
		case strings.HasSuffix(name, plainEnd):
			err = errors.Join(err, compress(ctx, path))
		}
	}
	return err
}

// gzipLevel takes a quarter of the time that level 6 of the standard library takes, for files that are a sixth larger.
const gzipLevel = 3

// compress replaces a file by its compressed form, which appears whole or not at all.
func compress(ctx context.Context, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // it was only read
	err = atomicfile.Write(strings.TrimSuffix(path, plainEnd)+gzipEnd, func(f *os.File) error {
		z, err := gzip.NewWriterLevel(f, gzipLevel)
		if err != nil {
			return err
		}
		_, err = io.Copy(z, while{ctx, from})
		return errors.Join(err, z.Close())
	})
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// while reads until its context ends.
type while struct {
	ctx  context.Context //nolint:containedctx // of one call of io.Copy
	from io.Reader
}

// Read implements io.Reader.
func (w while) Read(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.from.Read(b)
}

// removeOldest removes the oldest earlier files until the rest has at most most bytes. It begins with the oldest, so
// that a reader finds no gap.
func removeOldest(dir string, most int64) error {
	names, err := earlier(dir)
	slices.Reverse(names) // newest first
	var sum int64
	var old []string
	for _, name := range names {
		info, statErr := os.Stat(filepath.Join(dir, name))
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		if sum += info.Size(); sum > most {
			old = append(old, name)
		}
	}
	for _, name := range slices.Backward(old) {
		err = errors.Join(err, os.Remove(filepath.Join(dir, name)))
	}
	return err
}

// earlier returns the names of the earlier files and of their unfinished copies, oldest first.
func earlier(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "decisions-") && e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

var _ Sink = (*FileSink)(nil)
