package history

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"sluice/internal/wire"
)

const (
	// PathOfRows is where the primary takes rows of nodes at a read replica.
	PathOfRows = "/ratelimit/regions/history"
	// MediaType is the type of encoded rows.
	MediaType = "application/vnd.sluice.figures"
	// MaxBody is the largest number of bytes of MaxWritten encoded rows.
	MaxBody = 4 << 20
)

// Encoded rows begin with rowsHead. Writer, hour, rule, data and tops of each row follow, and the CRC-32C of everything
// before it in little-endian. Numbers are uvarints, bytes have their length before them.
const rowsHead = "sluice figures 1\n"

const (
	maxNumber = 1 << 62
	// maxRowName is the longest name of a row, maxRowBytes the largest size of a column, both in bytes.
	maxRowName  = 512
	maxRowBytes = 1 << 20
	// maxCount is the largest count of a minute, maxTopCount the largest count of a key in an hour, and maxVariance the
	// largest variance of that count. They are far above the counts of a real process, so that sums of received figures
	// do not overflow.
	maxCount, maxTopCount, maxVariance = 1 << 32, 1 << 40, 1 << 50
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

// DecodeRows reads what EncodeRows wrote, at most most rows, each of another writer, rule or hour. It is safe for
// untrusted input. Errors wrap ErrRows.
func DecodeRows(b []byte, most int) ([]LiveRow, error) {
	end := len(b) - crc32.Size
	switch {
	case !strings.HasPrefix(string(b[:min(len(b), len(rowsHead))]), rowsHead):
		return nil, fmt.Errorf("%w of this version: they do not begin with %q", ErrRows, rowsHead)
	case end < len(rowsHead) || crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]):
		return nil, fmt.Errorf("%w: they are damaged", ErrRows)
	}
	in := wire.Read(b[len(rowsHead):end])
	type name struct {
		writer, hour int64
		rule         string
	}
	var rows []LiveRow
	names := map[name]bool{}
	for in.Len() > 0 {
		if len(rows) == most {
			return nil, fmt.Errorf("%w: there are more than %d", ErrRows, most)
		}
		r := LiveRow{Writer: in.Number(maxNumber), Hour: in.Number(maxNumber), Rule: in.Text(maxRowName),
			Data: []byte(in.Text(maxRowBytes)), Tops: []byte(in.Text(maxRowBytes))}
		if len(r.Tops) == 0 {
			r.Tops = nil
		}
		if in.Failed() || !r.valid() {
			return nil, fmt.Errorf("%w: row %d cannot be read", ErrRows, len(rows)+1)
		}
		of := name{r.Writer, r.Hour, r.Rule}
		if names[of] {
			return nil, fmt.Errorf("%w: row %d is there twice", ErrRows, len(rows)+1)
		}
		names[of] = true
		rows = append(rows, r)
	}
	return rows, nil
}

// valid reports whether a row is one that a process writes.
func (r *LiveRow) valid() bool {
	if r.Writer <= 0 || !utf8.ValidString(r.Rule) || strings.ContainsFunc(r.Rule, unicode.IsControl) ||
		r.Tops != nil && !unpackTops(r.Tops).possible() {
		return false
	}
	if strings.HasPrefix(r.Rule, TrialPrefix) {
		c := unpackTrial(r.Data, nil)
		most := max(c.Seen, c.Denied, c.Compared, c.NewlyDenied, c.NewlyAllowed)
		hour := c.First.Unix() / 3600
		return most <= minutesAnHour*maxCount && hour >= r.Hour-1 && hour <= r.Hour+1 // it is zero if Data is damaged
	}
	var all row
	all.unpack(r.Data)
	of := unpackSlots(r.Data)
	for n, s := range of {
		counts := s.all()
		if n >= minutesAnHour || max(s.Peak, slices.Max(counts[:])) > maxCount || s.Use > maxUse+1 {
			return false
		}
	}
	sum, ok := unpackSum(r.Data)
	return ok && all.n > 0 && all.n == len(of) && sum == of.sum()
}

// possible reports whether tops are such as a process writes.
func (t Tops) possible() bool {
	for _, top := range t {
		if len(top.Entries) > topKeys || top.Rest > maxTopCount || slices.ContainsFunc(top.Entries, func(e TopEntry) bool {
			return max(e.Allowed, e.Denied, e.Over) > maxTopCount || e.Variance > maxVariance
		}) {
			return false
		}
	}
	denied := t[ByKey].Denied
	return t != nil && (len(denied) <= 1 || len(denied) == distinctRegisters && slices.Max(denied) <= maxRank)
}
