package script

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"

	"sluice/limiter"
)

// SpansSuffix follows the name of a bucket that spans regions. sumsSuffix follows it where the sums have a separate
// key.
const SpansSuffix, sumsSuffix = ":z", ":t"

// NameOfMember returns the name of the bucket, as Names.Bucket gives it, that stands for a member of the set of
// changed buckets, or false for what is no member.
func NameOfMember(member string) (string, bool) {
	return strings.CutSuffix(strings.TrimSuffix(member, sumsSuffix), SpansSuffix)
}

// Exporting is the script that exports changed sums, and Confirming the script that ends their leases.
func Exporting() Script { return ofFile("export.lua") }

// Confirming is the script that ends leases of exported sums.
func Confirming() Script { return ofFile("confirm.lua") }

// Restoring is the script that begins and ends a restore of what was lost.
func Restoring() Script { return ofFile("restore.lua") }

// KeptSuffix follows the name of a set of changed buckets in the name of the mark that says that their data are kept.
const KeptSuffix = ":kept"

// Member is a bucket that changed, as the script that exports knows it.
type Member struct {
	Name     string // of the bucket, as Names.Bucket gives it
	Log      bool   // the bucket is a log; not set by DecodeExport
	Sums     limiter.Sums
	Lease    int64
	Received limiter.Received
	Guard    limiter.Guard // not set by DecodeExport
}

// DecodeExport reads the answer of the script that exports. Sums that cannot be read are left out.
func DecodeExport(reply string) (members []Member, err error) {
	in := reader{s: reply}
	n := in.length()
	lease := in.integer()
	for i := 1; i+2 < n; i += 3 {
		member, value, regions := in.text(), in.text(), in.integer()
		i += 2 * int(regions)
		var received limiter.Received
		for ; regions > 0 && !in.bad; regions-- {
			h := limiter.RegionSums{Region: in.text()}
			if h.Sums, err = DecodeSums(in.text()); err == nil {
				h.Sums.Windows = nil
				received = append(received, h)
			}
		}
		if in.bad {
			return members, errReply
		}
		name, ok := NameOfMember(member)
		sums, err := SumsOf(value)
		if ok && err == nil {
			members = append(members, Member{Name: name, Sums: sums, Lease: lease, Received: received})
		}
	}
	return members, nil
}

// EncodeConfirm returns the argument of the script that confirms, of members in the order of their leases.
func EncodeConfirm(members []Member) []byte {
	b, n := []byte{0xdd, 0, 0, 0, 0}, 0
	for len(members) > 0 {
		lease := members[0].Lease
		count := slices.IndexFunc(members, func(m Member) bool { return m.Lease != lease })
		if count < 0 {
			count = len(members)
		}
		b = appendInt(appendInt(b, lease), int64(count))
		n += 2
		for i := range members[:count] {
			fields := 0
			b, fields = appendConfirmed(b, &members[i])
			n += fields
		}
		members = members[count:]
	}
	binary.BigEndian.PutUint32(b[1:], uint32(n)) //nolint:gosec // few
	return b
}

// appendConfirmed appends one bucket of EncodeConfirm, and returns how many elements it is.
func appendConfirmed(b []byte, m *Member) ([]byte, int) {
	name, share := m.Name+SpansSuffix, m.Guard.Share
	if m.Log {
		name += sumsSuffix
	}
	if m.Guard.Lead && share > 0 {
		share += lead
	}
	b = appendInt(appendText(b, name), share)
	if share == 0 {
		return b, 2
	}
	newest := limiter.WindowUnits{Number: noWindow}
	if len(m.Sums.Windows) > 0 {
		newest = m.Sums.Windows[0]
	}
	return appendInt(appendInt(appendInt(b, m.Sums.Born), newest.Number), newest.Units), 5
}

// appendText appends s, of at most 65,535 bytes, in MessagePack.
func appendText(b []byte, s string) []byte {
	if len(s) < 256 {
		return appendString(b, s)
	}
	return append(binary.BigEndian.AppendUint16(append(b, 0xda), uint16(len(s))), s...) //nolint:gosec // see above
}

// appendSums appends the sums of an OpApply or OpRestore.
func appendSums(b []byte, m *limiter.Sums) []byte {
	b = appendText(b, string(storedForm(m)))
	for _, n := range [...]int64{
		m.Born, m.Reset, m.Shape, m.Taken, m.Given, m.Denied, int64(len(m.Windows)),
	} {
		b = appendInt(b, n)
	}
	for _, w := range m.Windows {
		b = appendInt(appendInt(b, w.Number), w.Units)
	}
	return b
}

// storedForm is how sums of another region are stored; see layout.lua. That of a few windows is about 64 bytes long,
// so that Redis keeps a small hash of them in one piece.
func storedForm(m *limiter.Sums) []byte {
	newest, older := limiter.WindowUnits{Number: noWindow}, m.Windows
	if len(older) > 0 {
		newest, older = older[0], older[1:]
	}
	b := append(make([]byte, 0, 64), 0, 0, 0, 0, 0, 0)
	for _, n := range [...]int64{newest.Number, newest.Units} {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(n)))
	}
	for _, n := range [...]int64{m.Shape, m.Born, m.Reset} {
		b = append(b, binary.BigEndian.AppendUint64(nil, uint64(n))[1:]...) //nolint:gosec // not negative
	}
	b = binary.LittleEndian.AppendUint64(b, 0) // no units were sent
	if n := 3 + 2*len(older); n < 16 {
		b = append(b, 0x90+byte(n))
	} else {
		b = binary.BigEndian.AppendUint16(append(b, 0xdc), uint16(n)) //nolint:gosec // few
	}
	b = appendInt(appendInt(appendInt(b, m.Given), m.Denied), m.Taken-newest.Units)
	for _, w := range older {
		b = appendInt(appendInt(b, newest.Number-w.Number), w.Units)
	}
	mark := sumsUnlisted + len(b) - sumsHot
	b[0], b[1], b[2] = byte(mark>>16), byte(mark>>8), byte(mark)
	return b
}

var errSums = errors.New("malformed sums of a bucket")

// whole reads a double that is a whole number, or returns one that no sums have.
func whole(b []byte) int64 {
	f := math.Float64frombits(binary.LittleEndian.Uint64(b))
	if n := int64(f); float64(n) == f {
		return n
	}
	return -limiter.MaxExact - 1
}

// DecodeSums reads the sums of a bucket, without its state; see layout.lua.
func DecodeSums(s string) (m limiter.Sums, err error) {
	if len(s) <= sumsHot+29 || !isMark(s[0]) {
		return m, errSums
	}
	hot, told := []byte(s[:sumsHot]), []byte(s[sumsHot+21:sumsHot+29])
	r := reader{s: s[sumsHot:]}
	m.Shape, m.Born, m.Reset = int64(r.next(7)), int64(r.next(7)), int64(r.next(7)) //nolint:gosec // seven bytes each
	r.next(8)
	n := r.length()
	if n < 3 || n%2 != 1 || n > len(r.s) {
		return limiter.Sums{}, errSums
	}
	m.Given, m.Denied, m.Taken = r.integer(), r.integer(), r.integer()
	newest := limiter.WindowUnits{Number: whole(hot[6:]), Units: whole(told) + whole(hot[14:])}
	if newest.Number != noWindow {
		m.Taken += newest.Units
		m.Windows = append(make([]limiter.WindowUnits, 0, n/2), newest)
	}
	for i := 3; i < n; i += 2 {
		m.Windows = append(m.Windows, limiter.WindowUnits{Number: newest.Number - r.integer(), Units: r.integer()})
	}
	if r.s != "" {
		if limit := []byte(r.text()); len(limit) == 16 {
			m.Count, m.Burst = whole(limit), whole(limit[8:])
		} else {
			r.bad = true
		}
	}
	if r.bad || r.s != "" {
		return limiter.Sums{}, errSums
	}
	return m, m.Check()
}

// SpentNames returns the keys that hold the sums of a bucket: its own, and those received from other regions. name is
// the name of the bucket, as Names.Bucket returns it.
func SpentNames(name string, isLog bool) (value, received string) {
	value, received = name+SpansSuffix, name+SpansSuffix+heardSuffix
	if isLog {
		value += sumsSuffix
	}
	return value, received
}

// heardSuffix is behind the key of a bucket that spans regions where what was applied is.
const heardSuffix = ":h"

// SumsOf reads the sums that stand around the state in the value of a bucket; see layout.lua.
func SumsOf(value string) (limiter.Sums, error) {
	if len(value) < sumsHot || !isMark(value[0]) {
		return limiter.Sums{}, errSums
	}
	size := int(value[1])<<8 | int(value[2])
	if sumsHot+size > len(value) {
		return limiter.Sums{}, errSums
	}
	return DecodeSums(value[:sumsHot] + value[len(value)-size:])
}

// isMark reports whether the mark of sums begins with a byte.
func isMark(first byte) bool { return first == sumsUnlisted>>16 || first == sumsListed>>16 }
