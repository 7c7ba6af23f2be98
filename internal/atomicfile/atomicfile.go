// Package atomicfile replaces files so that a reader, and a machine that lost
// its power, finds the old content or the new one, never a part.
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

// Pattern is what filepath.Glob takes to find the temporary files that a kill
// left beside path.
func Pattern(path string) string { return path + ".*.tmp" }

// Write makes the file at path what write writes, readable by its owner only. It
// writes a temporary file beside path, syncs and renames it, and syncs the
// folder, so several processes may share a path. After an error the temporary
// file is gone, and path is as it was unless only the sync of the folder failed.
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
		_ = os.Remove(f.Name()) // the first error is the one to tell
		return err
	}
	return SyncDir(dir)
}

// SyncDir makes renames in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
