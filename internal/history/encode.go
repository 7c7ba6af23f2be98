package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/wire"
)

const (
	// PathOfRows is where the primary takes rows of nodes at a read replica, MediaType what they are.
	PathOfRows = "/ratelimit/regions/history"
	MediaType  = "application/vnd.sluice.figures"
	// MaxBody is the largest number of bytes of MaxWritten encoded rows.
	MaxBody = 4 << 20
)

// Encoded rows begin with rowsHead. Writer, hour, rule, data and tops of each row follow, and the CRC-32C of everything
// before it in little-endian. Numbers are uvarints, bytes have their length before them.
const rowsHead = "sluice figures 1\n"

const (
	maxNumber = 1 << 62
	// maxRowName is the longest name of a row, maxRowBytes what one of its columns has at most.
	maxRowName  = 512
	maxRowBytes = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeRows writes rows for a file, or for another region.
func EncodeRows(rows []LiveRow) []byte {
	b := []byte(rowsHead)
	for i := range rows {
		r := &rows[i]
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(r.Writer)), uint64(r.Hour))
		for _, text := range []string{r.Rule, string(r.Data), string(r.Tops)} {
			b = wire.AppendText(b, text)
		}
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// ErrRows means that bytes are not what EncodeRows writes.
var ErrRows = errors.New("no rows of figures")

// DecodeRows reads what EncodeRows wrote. It is safe for untrusted input. Errors wrap ErrRows.
func DecodeRows(b []byte) ([]LiveRow, error) {
	end := len(b) - crc32.Size
	switch {
	case !strings.HasPrefix(string(b[:min(len(b), len(rowsHead))]), rowsHead):
		return nil, fmt.Errorf("%w of this version: they do not begin with %q", ErrRows, rowsHead)
	case end < len(rowsHead) || crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]):
		return nil, fmt.Errorf("%w: they are damaged", ErrRows)
	}
	in := wire.Read(b[len(rowsHead):end])
	var rows []LiveRow
	for in.Len() > 0 {
		r := LiveRow{Writer: in.Number(maxNumber), Hour: in.Number(maxNumber), Rule: in.Text(maxRowName),
			Data: []byte(in.Text(maxRowBytes)), Tops: []byte(in.Text(maxRowBytes))}
		if len(r.Tops) == 0 {
			r.Tops = nil
		}
		if in.Failed() || !r.valid() {
			return nil, fmt.Errorf("%w: row %d cannot be read", ErrRows, len(rows)+1)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// valid reports whether a row is one that a process writes.
func (r *LiveRow) valid() bool {
	if r.Writer <= 0 || !utf8.ValidString(r.Rule) || strings.ContainsFunc(r.Rule, unicode.IsControl) ||
		r.Tops != nil && unpackTops(r.Tops) == nil {
		return false
	}
	if strings.HasPrefix(r.Rule, TrialPrefix) {
		return unpackTrial(r.Data, nil).Seen > 0
	}
	return len(unpackSlots(r.Data)) > 0
}
