package envoy

import (
	"encoding/binary"
	"errors"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// Errors about messages that are not in protobuf form.
var (
	errMessage = errors.New("the message is not valid protobuf")
	errText    = errors.New("a text of the message is not valid UTF-8")
)

// fields reads the fields of an encoded message, in their order.
type fields struct {
	rest string
	// The field that next found: its number, its wire type, and the value of one that has bytes.
	field protowire.Number
	kind  protowire.Type
	bytes string
	err   error
}

// next finds the next field. It returns false at the end and at an error.
func (f *fields) next() bool {
	if f.rest == "" || f.err != nil {
		return false
	}
	tag := f.varint()
	f.field, f.kind = protowire.Number(min(tag>>3, math.MaxInt32)), protowire.Type(tag&7) //nolint:gosec // bounded
	if !f.field.IsValid() {
		f.err = errMessage
	}
	if f.err != nil {
		return false
	}
	switch f.kind {
	case protowire.VarintType:
		f.varint()
	case protowire.BytesType:
		n := f.varint()
		if n > uint64(len(f.rest)) {
			f.err = errMessage
			return false
		}
		f.bytes, f.rest = f.rest[:n], f.rest[n:]
	default: // of no field that is read here
		n := protowire.ConsumeFieldValue(f.field, f.kind, []byte(f.rest))
		if n < 0 {
			f.err = errMessage
			return false
		}
		f.rest = f.rest[n:]
	}
	return f.err == nil
}

// varint reads a number of one to ten bytes.
func (f *fields) varint() uint64 {
	var n uint64
	for i := range min(len(f.rest), binary.MaxVarintLen64) {
		b := f.rest[i]
		if i == binary.MaxVarintLen64-1 && b > 1 {
			break
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			f.rest = f.rest[i+1:]
			return n
		}
	}
	f.err = errMessage
	return 0
}

// is reports whether the field has this number, and bytes: a text or a message. A field with another wire type is
// unknown.
func (f *fields) is(field protowire.Number) bool {
	return f.field == field && f.kind == protowire.BytesType
}

// text returns the value of a field of type string.
func (f *fields) text() string {
	if !utf8.ValidString(f.bytes) && f.err == nil {
		f.err = errText
	}
	return f.bytes
}

// within keeps the first error of a message inside this one.
func (f *fields) within(err error) {
	if f.err == nil {
		f.err = err
	}
}

// Writing. Values that are zero are not written, as in proto3.

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	if n == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

func appendText[T string | []byte](b []byte, field protowire.Number, text T) []byte {
	if len(text) == 0 {
		return b
	}
	b = protowire.AppendTag(b, field, protowire.BytesType)
	return append(protowire.AppendVarint(b, uint64(len(text))), text...)
}

// begin begins a field that is a message. What is appended until end(b, at) is its content.
func begin(b []byte, field protowire.Number) (_ []byte, at int) {
	b = append(protowire.AppendTag(b, field, protowire.BytesType), 0)
	return b, len(b)
}

// end writes the length of a message before its content, which it moves if the length needs more than one byte.
func end(b []byte, at int) []byte {
	n := len(b) - at
	size := protowire.SizeVarint(uint64(n)) //nolint:gosec // not negative
	if size > 1 {
		var room [binary.MaxVarintLen64]byte
		b = append(b, room[1:size]...)
		copy(b[at+size-1:], b[at:at+n])
	}
	binary.PutUvarint(b[at-1:], uint64(n)) //nolint:gosec // not negative
	return b
}
