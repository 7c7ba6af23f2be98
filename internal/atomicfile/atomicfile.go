// Package atomicfile replaces files so that readers see the old content or the new
// content and never a part of it, even after a power failure.
//
//	err := atomicfile.Write(path, func(f *os.File) error {
//		_, err := f.WriteString("all of it\n")
//		return err
//	})
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Pattern returns the pattern for filepath.Glob that finds the temporary files that killed processes left next to path.
func Pattern(path string) string { return path + ".*.tmp" }

// Write replaces the file at path with the output of write, readable by its owner only. It writes a temporary file next
// to path, syncs and renames it, and syncs the directory, so several processes may write the same path. After an error
// the temporary file is removed, and path is unchanged unless only the sync of the directory failed.
func Write(path string, write func(*os.File) error) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, Pattern(filepath.Base(path))) // mode 0600
	if err != nil {
		return err
	}
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error is returned
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes renames in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
