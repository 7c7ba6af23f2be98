package rulecopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"os"
	"time"

	"sluice/rules/override"
)

// A file of overrides is
//
//	magic     8 bytes "SLUICEOC"
//	database  SHA-256 of the database's identity
//	at        int64, when it was saved, ms since the epoch
//	content   as override.Table writes itself
//	check     SHA-256 of everything before it
//
// It holds hashes of exact keys and the texts of wildcards.
const (
	overridesMagic = "SLUICEOC"
	overridesHead  = len(overridesMagic) + sha256.Size + 8
	// maxOverridesFile is room for tens of millions of overrides.
	maxOverridesFile = int64(2 << 30)
)

// SaveOverrides writes the file as Save does, leaving out what has ended by now. It
// calls rest after each piece that it has written.
func SaveOverrides(path, identity string, o *override.Table, rest func(), now time.Time) error {
	return replaceFile(path, func(w *os.File) error {
		check := sha256.New()
		both := resting{io.MultiWriter(w, check), rest}
		database := fingerprint(identity)
		head := append([]byte(overridesMagic), database[:]...)
		if _, err := both.Write(binary.BigEndian.AppendUint64(head, uint64(now.UnixMilli()))); err != nil {
			return err
		}
		if err := o.Write(both, now.UnixMilli()); err != nil {
			return err
		}
		_, err := w.Write(check.Sum(nil))
		return err
	})
}

// LoadOverrides reads and verifies the file; errors as of Load.
func LoadOverrides(path, identity string) (*override.Table, error) {
	b, err := readFile(path, maxOverridesFile)
	if err != nil {
		return nil, err
	}
	if len(b) < overridesHead+sha256.Size || !bytes.HasPrefix(b, []byte(overridesMagic)) {
		return nil, damaged("the file of overrides is incomplete")
	}
	end := len(b) - sha256.Size
	if sha256.Sum256(b[:end]) != [sha256.Size]byte(b[end:]) {
		return nil, damaged("the checksum is wrong")
	}
	if [sha256.Size]byte(b[len(overridesMagic):]) != fingerprint(identity) {
		return nil, ErrForeign
	}
	o, err := override.Read(b[overridesHead:end])
	if err != nil {
		return nil, damaged(err.Error())
	}
	return o, nil
}
