package envoy

import (
	"encoding/binary"
	"net/http"
	"strconv"
	"unicode/utf8"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/status"
)

// Frames that are written. Header blocks do not use the dynamic table, whose entries depend on the order of the writes,
// so that the blocks of all answers can be prepared in advance.

// appendFrame appends the head of a frame with n bytes.
func appendFrame(b []byte, n int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	b = append(b, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags)) //nolint:gosec // at most maxFrame
	return binary.BigEndian.AppendUint32(b, stream)
}

func appendSettings(b []byte, settings ...http2.Setting) []byte {
	const size = 6
	b = appendFrame(b, size*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, uint16(s.ID)), s.Val)
	}
	return b
}

func appendWindow(b []byte, stream uint32, n int64) []byte {
	b = appendFrame(b, 4, http2.FrameWindowUpdate, 0, stream)
	return binary.BigEndian.AppendUint32(b, uint32(n)) //nolint:gosec // at most maxWindow
}

func appendReset(b []byte, stream uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendFrame(b, 4, http2.FrameRSTStream, 0, stream), uint32(code))
}

func appendPing(b []byte, flags http2.Flags, data [8]byte) []byte {
	return append(appendFrame(b, len(data), http2.FramePing, flags, 0), data[:]...)
}

func appendGoAway(b []byte, last uint32, code http2.ErrCode, why string) []byte {
	const head = 8
	b = appendFrame(b, head+len(why), http2.FrameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, last), uint32(code))
	return append(b, why...)
}

// Indexes of the static table, in the representations that are used.
const (
	fieldOK          = 0x88 // :status: 200
	fieldStatus      = 0x08 // :status, with a value
	fieldTableSize   = 0x20 // sets the dynamic table to 0 bytes
	fieldNew         = 0x00 // with a name and a value
	longIndex        = 0x0f // an index from 15 on, of which 15 is taken off
	indexContentType = 31 - 15
)

const baseContentType = "application/grpc"

// The header blocks of an answer with a message, for the usual content type.
var (
	blockHead = appendContentType([]byte{fieldOK}, "")
	blockDone = appendField(nil, "grpc-status", "0")
)

// appendText7 appends a text with its length in 7 bits and more.
func appendText7(b []byte, text string) []byte {
	const most = 127
	if n := len(text); n < most {
		b = append(b, byte(n)) //nolint:gosec // below most
	} else {
		b = binary.AppendUvarint(append(b, most), uint64(n-most)) //nolint:gosec // not negative
	}
	return append(b, text...)
}

func appendField(b []byte, name, value string) []byte {
	return appendText7(appendText7(append(b, fieldNew), name), value)
}

func appendContentType(b []byte, subtype string) []byte {
	value := baseContentType
	if subtype != "" {
		value += "+" + subtype
	}
	return appendText7(append(b, longIndex, indexContentType), value)
}

// appendStatus appends the fields of a status.
func appendStatus(b []byte, st *status.Status) []byte {
	b = appendField(b, "grpc-status", strconv.Itoa(int(st.Code())))
	return appendField(b, "grpc-message", escaped(st.Message()))
}

// escaped returns a text for grpc-message: all but printable ASCII, and percent signs, as %XX.
func escaped(text string) string {
	plain := true
	for i := range len(text) {
		plain = plain && text[i] >= ' ' && text[i] <= '~' && text[i] != '%'
	}
	if plain {
		return text
	}
	const hex = "0123456789ABCDEF"
	var b []byte
	for _, r := range text { // a byte that is not UTF-8 is utf8.RuneError
		if r >= ' ' && r <= '~' && r != '%' {
			b = append(b, byte(r))
			continue
		}
		for _, one := range utf8.AppendRune(nil, r) {
			b = append(b, '%', hex[one>>4], hex[one&0xf])
		}
	}
	return string(b)
}

// headers appends a header block in as many frames as it needs.
func (c *h2conn) headers(stream uint32, block []byte, end bool) {
	c.strikes.answered = true
	if !c.updated {
		c.updated = true
		block = append([]byte{fieldTableSize}, block...)
	}
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for {
		part := block[:min(len(block), maxFrame)]
		if block = block[len(part):]; len(block) == 0 {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.out = append(appendFrame(c.out, len(part), kind, flags, stream), part...)
		if len(block) == 0 {
			return
		}
		kind, flags = http2.FrameContinuation, 0
	}
}

// refuse answers a stream with a status only. Its client may not have sent everything: ended is false.
func (c *h2conn) refuse(id uint32, subtype string, code int, st *status.Status, ended bool) {
	block := []byte{fieldOK}
	if code != http.StatusOK {
		block = appendText7([]byte{fieldStatus}, strconv.Itoa(code))
	}
	c.headers(id, appendStatus(appendContentType(block, subtype), st), true)
	if !ended {
		c.out = appendReset(c.out, id, http2.ErrCodeNo)
	}
}
