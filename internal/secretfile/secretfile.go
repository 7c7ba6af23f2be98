// Package secretfile reads secrets from files, and reads them again when they change.
//
// The file of REDIS_URL_FILE contains redis://sluice:old@redis:6379 and a line break. Its
// owner replaces the content by redis://sluice:new@redis:6379. The next connection that
// is opened a second later, or after that, authenticates with the new password; open
// connections stay. If the file is missing or not usable then, the old value stays in
// use, and the log and the metrics say so.
//
// Nothing runs in the background: a file is read when its value is needed, at most once
// a second. It is found by its path each time, so that it may be a symbolic link that is
// replaced, as in a volume of Kubernetes.
package secretfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// fresh is how long a value is used without looking at the file.
	fresh = time.Second
	// maxSize is the size of the largest file, in bytes.
	maxSize = 64 << 10
)

// Options describe a file. Setting, Path and Now are required.
type Options struct {
	// Setting is the name of the setting with the path, for errors and the log.
	Setting string
	Path    string
	// Check returns an error if the value cannot be used. inForce is the value that has been
	// used so far, "" at first. The error contains no part of a value. Nil accepts all.
	Check func(inForce, value string) error
	// Log receives changes; nil discards them.
	Log *slog.Logger
	Now func() time.Time
}

// File is a file with a secret. It is safe for concurrent use.
type File struct {
	opt     Options
	value   atomic.Pointer[string]
	failing atomic.Bool
	read    atomic.Int64 // when the file was read last, in ns since 1970
	turn    sync.Mutex   // held by the one caller that reads
	problem string       // of the last reading, or ""; guarded by turn
}

// Open reads a file for the first time. The error names the setting and the path, says
// what to do, and contains no part of the content.
func Open(opt Options) (*File, error) {
	if opt.Check == nil {
		opt.Check = func(string, string) error { return nil }
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	f := &File{opt: opt}
	f.read.Store(opt.Now().UnixNano())
	value, err := f.load("")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", opt.Setting, err)
	}
	f.value.Store(&value)
	return f, nil
}

// Value returns the content of the file without the line break at its end: that of the
// last second, or, if the file is not usable, the last one that was.
func (f *File) Value() string {
	now := f.opt.Now()
	if age := now.UnixNano() - f.read.Load(); (age >= int64(fresh) || age < 0) && f.turn.TryLock() {
		defer f.turn.Unlock()
		f.read.Store(now.UnixNano())
		f.reload()
	}
	return *f.value.Load()
}

// Failing reports whether the file is not usable, so that an earlier value is in use. It
// reads the file as Value does.
func (f *File) Failing() bool {
	f.Value()
	return f.failing.Load()
}

// reload puts the content in use if it has changed and is usable. It logs each problem
// once.
func (f *File) reload() {
	inForce := *f.value.Load()
	value, err := f.load(inForce)
	said := []any{"setting", f.opt.Setting, "file", f.opt.Path}
	if err != nil {
		f.failing.Store(true)
		if text := err.Error(); text != f.problem {
			f.problem = text
			f.opt.Log.Warn("the file of a secret is not usable; its previous value stays in use",
				append(said, "error", text)...)
		}
		return
	}
	switch {
	case value != inForce:
		f.opt.Log.Info("a secret has changed; new connections use the new value", said...)
		f.value.Store(&value)
	case f.problem != "":
		f.opt.Log.Info("the file of a secret is usable again; its value is the same as before", said...)
	}
	f.problem = ""
	f.failing.Store(false)
}

// load reads the file and checks its content.
func (f *File) load(inForce string) (string, error) {
	content, err := readFile(f.opt.Path)
	if err != nil {
		return "", err
	}
	value, ok := bytes.CutSuffix(content, []byte("\n"))
	if ok {
		value = bytes.TrimSuffix(value, []byte("\r"))
	}
	switch {
	case len(value) == 0:
		return "", fmt.Errorf("%s is empty; write the whole value to it", f.opt.Path)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", fmt.Errorf("%s has a line break, a NUL or another control character within the value; write the value on "+
			"one line, and nothing else", f.opt.Path)
	}
	if text := string(value); text == inForce {
		return text, nil
	} else if err := f.opt.Check(inForce, text); err != nil {
		return "", fmt.Errorf("the value in %s %w", f.opt.Path, err)
	}
	return string(value), nil
}

// readFile returns the content of a regular file. Others, such as pipes, might block.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file; set the path of a file with the value", path)
	}
	var content []byte
	if err == nil {
		content, err = readStart(path)
	}
	var cause *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%s does not exist; create it with the whole value as its content", path)
	case errors.As(err, &cause):
		return nil, fmt.Errorf("%s cannot be read (%w); allow the user of this process to read it", path, cause.Err)
	case err != nil:
		return nil, err
	case len(content) > maxSize:
		return nil, fmt.Errorf("%s is larger than %d KiB; it must contain the value and nothing else", path, maxSize>>10)
	}
	return content, nil
}

// readStart reads a file up to one byte more than is allowed.
func readStart(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxSize+1))
}
