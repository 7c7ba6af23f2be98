package script

import "encoding/binary"

// appendInt appends n in MessagePack.
func appendInt(b []byte, n int64) []byte {
	switch u := uint64(n); { //nolint:gosec // the two's complement is what MessagePack wants
	case n >= 0 && n < 1<<7:
		return append(b, byte(u))
	case n >= 0 && n < 1<<16:
		return append(b, 0xcd, byte(u>>8), byte(u))
	case n >= -1<<5 && n < 0:
		return append(b, byte(u))
	case n >= -1<<15 && n < 0:
		return append(b, 0xd1, byte(u>>8), byte(u))
	case n >= 0 && n < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(u)) //nolint:gosec // checked above
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), u)
	}
}

// appendString appends s, of at most 255 bytes, in MessagePack.
func appendString(b []byte, s string) []byte {
	if len(s) < 32 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = append(b, 0xd9, byte(len(s))) //nolint:gosec // at most 64, by Request.Check
	}
	return append(b, s...)
}

// reader reads MessagePack. After an error everything reads as zero.
type reader struct {
	s   string
	bad bool
}

// next returns the next n bytes as a big-endian number.
func (r *reader) next(n int) uint64 {
	if r.bad || len(r.s) < n {
		r.bad = true
		return 0
	}
	var u uint64
	for i := range n {
		u = u<<8 | uint64(r.s[i])
	}
	r.s = r.s[n:]
	return u
}

// integer reads one integer.
func (r *reader) integer() int64 {
	c := r.next(1)
	switch {
	case c < 0x80:
		return int64(c)
	case c >= 0xe0:
		return int64(int8(c)) //nolint:gosec // a negative fixint
	}
	switch c {
	case 0xcc:
		return int64(r.next(1)) //nolint:gosec // one byte
	case 0xcd:
		return int64(r.next(2)) //nolint:gosec // two bytes
	case 0xce:
		return int64(r.next(4)) //nolint:gosec // four bytes
	case 0xcf, 0xd3:
		return int64(r.next(8)) //nolint:gosec // the script's numbers stay below 2^53
	case 0xd0:
		return int64(int8(r.next(1))) //nolint:gosec // sign extension
	case 0xd1:
		return int64(int16(r.next(2))) //nolint:gosec // sign extension
	case 0xd2:
		return int64(int32(r.next(4))) //nolint:gosec // sign extension
	}
	r.bad = true
	return 0
}

// text reads one string.
func (r *reader) text() string {
	c := r.next(1)
	n := uint64(0)
	switch {
	case c >= 0xa0 && c < 0xc0:
		n = c & 0x1f
	case c == 0xd9:
		n = r.next(1)
	case c == 0xda:
		n = r.next(2)
	default:
		r.bad = true
	}
	if r.bad || uint64(len(r.s)) < n {
		r.bad = true
		return ""
	}
	out := r.s[:n]
	r.s = r.s[n:]
	return out
}

// length reads the head of an array.
func (r *reader) length() int {
	switch c := r.next(1); {
	case c >= 0x90 && c < 0xa0:
		return int(c & 0xf) //nolint:gosec // four bits
	case c == 0xdc:
		return int(r.next(2)) //nolint:gosec // two bytes
	case c == 0xdd:
		return int(r.next(4)) //nolint:gosec // four bytes
	}
	r.bad = true
	return 0
}
