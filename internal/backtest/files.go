package backtest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// The ends of the names of logs, and the file that a node writes.
	plainEnd    = ".jsonl"
	gzipEnd     = ".jsonl.gz"
	currentFile = "decisions.jsonl"

	// maxFiles bounds the files that are open at once.
	maxFiles = 256
	// snapshots is how often a directory is read again because its files were rotated during the reading.
	snapshots = 5
	// modified is how much earlier than its last event a file may have been modified, by the clock of its disk.
	modified = time.Hour
)

// ErrNoFiles means that a directory has no logs.
var ErrNoFiles = errors.New("has no files that end in " + plainEnd + " or " + gzipEnd)

// files are the opened files of a log.
type files struct {
	from     int64
	open     []*os.File
	places   []Lines
	problems []Problem
}

// OpenFiles opens logs: files, compressed or not, and directories of them, to which a node may be writing. It reads a
// growing file up to its present end. Files of a directory that were last modified long before from, in ms since the
// epoch, are left out. Unreadable files become problems of the log. Close the files when the log is no longer used. The
// error wraps ErrNoFiles for a directory without logs.
func OpenFiles(names []string, from int64) (log *Log, closeFiles func(), err error) {
	f := &files{from: from}
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case err != nil:
		case info.IsDir():
			err = f.directory(name)
		default:
			err = f.file(name)
		}
		if err == nil && len(f.open) > maxFiles {
			err = fmt.Errorf("there are more than %d files, and no more are read at once", maxFiles)
		}
		if err != nil {
			f.close(0)
			return nil, nil, err
		}
	}
	log = NewLog(f.places...)
	log.Problems = f.problems
	return log, func() { f.close(0) }, nil
}

// close closes the files that were opened after the first n.
func (f *files) close(n int) {
	for _, file := range f.open[n:] {
		_ = file.Close() // it was only read
	}
	f.open = f.open[:n]
}

// file opens one file.
func (f *files) file(name string) error {
	file, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	return f.add(name, file)
}

// add adds an open file as it is now.
func (f *files) add(name string, file *os.File) error {
	f.open = append(f.open, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.IsDir() {
		return errors.New("is a directory")
	}
	var from io.Reader = file
	if info.Mode().IsRegular() {
		from = io.LimitReader(file, info.Size())
	}
	f.places = append(f.places, NewLines(name, from))
	return nil
}

// directory opens the logs of a directory as they are at one moment: a rotation in between would hide the renamed file.
func (f *files) directory(dir string) error {
	open, places, problems := len(f.open), len(f.places), len(f.problems)
	for try := 1; ; try++ {
		same, err := f.once(dir)
		if err != nil || same {
			return err
		}
		if try == snapshots {
			f.problems = append(f.problems, Problem{File: dir,
				Text: "its files were rotated again and again while they were opened: some events may be missing"})
			return nil
		}
		f.close(open)
		f.places, f.problems = f.places[:places], f.problems[:problems]
	}
}

// once opens the logs of a directory in one attempt. same is false if the current file was replaced during it.
func (f *files) once(dir string) (same bool, err error) {
	path := filepath.Join(dir, currentFile)
	current, currentErr := os.Open(path) //nolint:gosec // the user names its directory
	if currentErr == nil {
		// The current file is read last: among events with the same time, events of earlier files come first.
		defer func() { err = errors.Join(err, f.add(path, current)) }()
	} else if !errors.Is(currentErr, fs.ErrNotExist) {
		f.problem(path, currentErr)
	}
	entries, err := logsOf(dir)
	if err != nil {
		return false, err
	}
	found := current != nil
	for i, e := range entries {
		name := e.Name()
		plain := strings.HasSuffix(name, plainEnd)
		switch {
		case name == currentFile:
			continue
		case !plain && slices.ContainsFunc(entries[:i], func(other fs.DirEntry) bool { return other.Name()+".gz" == name }):
			continue // a copy that is being made
		}
		found = true
		if info, err := e.Info(); err == nil && info.ModTime().Add(modified).UnixMilli() < f.from {
			continue
		}
		if len(f.open) > maxFiles {
			return true, nil
		}
		path := filepath.Join(dir, name)
		err := f.file(path)
		if plain && errors.Is(err, fs.ErrNotExist) {
			path += ".gz"
			err = f.file(path) // it was compressed after the listing
		}
		if err != nil {
			f.problem(path, err)
		}
	}
	if !found && len(f.problems) == 0 {
		return true, fmt.Errorf("%s %w", dir, ErrNoFiles)
	}
	// A directory that changes while it is listed may show neither the old nor the new name of a file.
	again, err := logsOf(dir)
	if err != nil || !slices.EqualFunc(entries, again, func(a, b fs.DirEntry) bool { return a.Name() == b.Name() }) {
		return false, err
	}
	if current == nil {
		return true, nil
	}
	opened, err := current.Stat()
	there, thereErr := os.Lstat(path)
	return err == nil && thereErr == nil && os.SameFile(opened, there), nil
}

// logsOf lists the logs of a directory by name.
func logsOf(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir) // sorted
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		name := e.Name()
		return e.Type()&^fs.ModeSymlink != 0 || !strings.HasSuffix(name, plainEnd) && !strings.HasSuffix(name, gzipEnd)
	}), err
}

// problem notes a file that cannot be opened.
func (f *files) problem(path string, err error) {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	f.problems = append(f.problems, Problem{File: path, Text: "cannot be opened: " + err.Error()})
}
