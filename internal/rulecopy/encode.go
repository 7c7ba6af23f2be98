package rulecopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A file is
//
//	magic     8 bytes "SLUICERC"
//	format    uint32, big-endian as every number here
//	at        int64, when the database last confirmed the rules, ms since the epoch
//	database  SHA-256 of the database's identity
//	length    uint64, of the content in bytes
//	content   JSON
//	check     SHA-256 of the content and then of what stands before it, so that
//	          the content can be written before its length is known
const (
	magic = "SLUICERC"
	// format is the only one that this build reads and writes.
	format = 7

	headerSize = len(magic) + 4 + 8 + sha256.Size + 8

	// MaxContent is the largest content, in bytes: room for several hundred
	// thousand rules, and the most that a damaged length can make a node read.
	MaxContent = 256 << 20

	maxFile = int64(headerSize) + MaxContent + sha256.Size
)

// Why a file is refused. Every other error is one of reading it.
var (
	// ErrDamaged: torn, changed, or no copy at all.
	ErrDamaged = errors.New("the copy is damaged")
	// ErrFormat: another version wrote it in a format that this one does not read.
	ErrFormat = errors.New("the copy has another format")
	// ErrForeign: it was saved from another database.
	ErrForeign = errors.New("the copy belongs to a different rules database")
	// ErrTooLarge: the content is above MaxContent.
	ErrTooLarge = errors.New("too large for a copy")
)

// fingerprint is what a file holds of an identity, so that it names no host.
func fingerprint(identity string) [sha256.Size]byte {
	return sha256.Sum256([]byte("sluice rule copy\x00" + identity))
}

// header is what stands before a content of a length.
func header(identity string, at time.Time, length int) []byte {
	database := fingerprint(identity)
	b := append(make([]byte, 0, headerSize), magic...)
	b = binary.BigEndian.AppendUint32(b, format)
	b = binary.BigEndian.AppendUint64(b, uint64(at.UnixMilli()))
	b = append(b, database[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(length))
}

func tooLarge(length int) error {
	return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, length, MaxContent)
}

// Decode reads what SaveRules wrote. It verifies everything before it believes
// anything; errors wrap ErrDamaged, ErrFormat or ErrForeign and say what is wrong.
func Decode(identity string, b []byte) (*Copy, error) {
	head := b[:min(len(b), len(magic))]
	switch {
	case !strings.HasPrefix(magic, string(head)):
		return nil, damaged("its header is not that of a copy")
	case len(b) < len(magic)+4:
		return nil, torn(len(b))
	}
	if written := binary.BigEndian.Uint32(b[len(magic):]); written != format {
		return nil, fmt.Errorf("%w: %d, and this version reads %d. It is replaced once the rules database answers", ErrFormat,
			written, format)
	}
	if len(b) < headerSize {
		return nil, torn(len(b))
	}
	length := binary.BigEndian.Uint64(b[headerSize-8:])
	if length > MaxContent {
		return nil, damaged(fmt.Sprintf("its header gives %d bytes of content", length))
	}
	end := headerSize + int(length)
	switch {
	case len(b) < end+sha256.Size:
		return nil, torn(len(b))
	case len(b) > end+sha256.Size:
		return nil, damaged("bytes after its end")
	}
	sum := sha256.New()
	sum.Write(b[headerSize:end])
	sum.Write(b[:headerSize])
	if !bytes.Equal(sum.Sum(nil), b[end:]) {
		return nil, damaged("the checksum is wrong")
	}
	at := b[len(magic)+4:]
	if [sha256.Size]byte(at[8:]) != fingerprint(identity) {
		return nil, ErrForeign
	}
	c := &Copy{At: time.UnixMilli(int64(binary.BigEndian.Uint64(at))).UTC()}
	if err := c.unmarshal(b[headerSize:end]); err != nil {
		return nil, damaged("its content: " + err.Error())
	}
	return c, nil
}

func damaged(how string) error { return fmt.Errorf("%w: %s", ErrDamaged, how) }

func torn(size int) error {
	return damaged(fmt.Sprintf("incomplete, it ends after %d bytes", size))
}
