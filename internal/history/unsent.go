package history

import (
	"errors"
	"io/fs"
	"math"
	"os"

	"sluice/internal/atomicfile"
)

// save writes rows to the file.
func (w *Writer) save(rows []LiveRow) error {
	return atomicfile.Write(w.opt.Unsent, func(f *os.File) error {
		_, err := f.Write(EncodeRows(rows))
		return err
	})
}

// load reads the rows of the file, none if there is no such file. A file that cannot be read gets another name, so that
// the next stop does not replace it.
func (w *Writer) load() []LiveRow {
	b, err := os.ReadFile(w.opt.Unsent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var rows []LiveRow
	if err == nil {
		rows, err = DecodeRows(b, math.MaxInt)
	}
	if err != nil {
		damaged := w.opt.Unsent + ".damaged"
		w.opt.Log.Warn("the figures that the last run could not write to the rules database cannot be read, so they are "+
			"missing; delete the file", "file", damaged, "error", errors.Join(err, os.Rename(w.opt.Unsent, damaged)))
	}
	return rows
}

// forget deletes the file, whose rows are written.
func (w *Writer) forget() {
	if err := os.Remove(w.opt.Unsent); err != nil && !errors.Is(err, fs.ErrNotExist) {
		// Written again, they would be the same rows of the same process.
		w.opt.Log.Warn("the file of figures that were written cannot be deleted", "file", w.opt.Unsent, "error", err)
	}
}
