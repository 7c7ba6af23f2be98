package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// grpcWire is a connection of HTTP/2 with calls of ShouldRateLimit. It sends frames that are encoded in advance: after
// the first call, the headers are a few bytes from the table of HPACK.
type grpcWire struct {
	messages [][]byte // with their prefix, sent in turn, by the number of the check
	most     int      // calls in flight

	settled bool   // the server has set how many streams it takes
	begun   bool   // with a first call
	first   []byte // the headers of the first call, which fill the table
	headers []byte // of every other call
	lastID  uint32
	calls   map[uint32]*grpcCall
	window  int64 // how many bytes of data the server takes
	unread  int64 // received since the last update of our window
}

// grpcCall is a call under way.
type grpcCall struct {
	answer
	message []byte
}

const (
	frameHeader   = 9
	messagePrefix = 5
	// ownWindow is the number of bytes that the server may send before it gets an update.
	ownWindow = 1 << 30
	// initialWindow is the initial flow-control window of HTTP/2.
	initialWindow = 65535
)

// newGRPCWire returns a connection with at most that many calls in flight. timeout is their grpc-timeout, "" for none.
func newGRPCWire(messages [][]byte, most int, timeout string) *grpcWire {
	w := &grpcWire{messages: messages, most: most, calls: map[uint32]*grpcCall{}, window: initialWindow}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		fields := []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
			{Name: ":path", Value: rls.RateLimitService_ShouldRateLimit_FullMethodName},
			{Name: ":authority", Value: "ratelimit"}, {Name: "te", Value: "trailers"},
			{Name: "content-type", Value: "application/grpc"},
		}
		if timeout != "" {
			fields = append(fields, hpack.HeaderField{Name: "grpc-timeout", Value: timeout})
		}
		for _, f := range fields {
			_ = encoder.WriteField(f) // to memory
		}
		return bytes.Clone(block.Bytes())
	}
	w.first, w.headers = encode(), encode()
	return w
}

func (w *grpcWire) begin(out []byte) []byte {
	out = append(out, http2.ClientPreface...)
	out = appendFrame(out, http2.FrameSettings, 0, 0, nil)
	return appendFrame(out, http2.FrameWindowUpdate, 0, 0, binary.BigEndian.AppendUint32(nil, ownWindow))
}

func (w *grpcWire) room() bool {
	return w.settled && len(w.calls) < w.most && w.window >= int64(len(w.messages[0]))+messagePrefix
}

func (w *grpcWire) request(out []byte, a *answer) []byte {
	headers := w.headers
	if !w.begun {
		w.begun, headers = true, w.first
	}
	message := w.messages[a.n%len(w.messages)]
	w.window -= int64(len(message))
	w.lastID += 2
	id := w.lastID - 1
	w.calls[id] = &grpcCall{answer: *a}
	out = appendFrame(out, http2.FrameHeaders, http2.FlagHeadersEndHeaders, id, headers)
	return appendFrame(out, http2.FrameData, http2.FlagDataEndStream, id, message)
}

func (w *grpcWire) open(lost func(*answer)) {
	for _, c := range w.calls {
		lost(&c.answer)
	}
}

func appendFrame(out []byte, kind http2.FrameType, flags http2.Flags, id uint32, payload []byte) []byte {
	n := len(payload)
	out = append(out, byte(n>>16), byte(n>>8), byte(n), byte(kind), byte(flags)) //nolint:gosec // short frames
	return append(binary.BigEndian.AppendUint32(out, id), payload...)
}

func (w *grpcWire) read(in, out []byte, got func(*answer)) (used int, _ []byte, err error) {
	for {
		if len(in)-used < frameHeader {
			return used, out, nil
		}
		h := in[used:]
		n := int(h[0])<<16 | int(h[1])<<8 | int(h[2])
		if len(h) < frameHeader+n {
			return used, out, nil
		}
		out, err = w.frame(http2.FrameType(h[3]), http2.Flags(h[4]), binary.BigEndian.Uint32(h[5:])&math.MaxInt32,
			h[frameHeader:frameHeader+n], out, got)
		if err != nil {
			return used, out, err
		}
		used += frameHeader + n
	}
}

// frame takes one frame of the server.
func (w *grpcWire) frame(kind http2.FrameType, flags http2.Flags, id uint32, payload, out []byte,
	got func(*answer)) ([]byte, error) {
	switch kind {
	case http2.FrameHeaders:
		if flags.Has(http2.FlagHeadersEndStream) {
			w.end(id, got)
		}
	case http2.FrameData:
		if c := w.calls[id]; c != nil {
			c.message = append(c.message, payload...)
		}
		if w.unread += int64(len(payload)); w.unread >= ownWindow/2 {
			//nolint:gosec // below ownWindow
			update := binary.BigEndian.AppendUint32(nil, uint32(w.unread))
			out, w.unread = appendFrame(out, http2.FrameWindowUpdate, 0, 0, update), 0
		}
	case http2.FrameRSTStream:
		w.end(id, got)
	case http2.FrameSettings:
		if flags.Has(http2.FlagSettingsAck) {
			return out, nil
		}
		w.settled = true
		for b := payload; len(b) >= 6; b = b[6:] {
			if binary.BigEndian.Uint16(b) == uint16(http2.SettingMaxConcurrentStreams) {
				w.most = min(w.most, int(binary.BigEndian.Uint32(b[2:])))
			}
		}
		return appendFrame(out, http2.FrameSettings, http2.FlagSettingsAck, 0, nil), nil
	case http2.FrameWindowUpdate:
		if id == 0 && len(payload) == 4 { // a stream sends one message, which fits
			w.window += int64(binary.BigEndian.Uint32(payload))
		}
	case http2.FramePing:
		if !flags.Has(http2.FlagPingAck) {
			return appendFrame(out, http2.FramePing, http2.FlagPingAck, 0, payload), nil
		}
	case http2.FrameGoAway:
		return out, fmt.Errorf("the server ends the connection: %q", payload)
	}
	return out, nil
}

// end judges the answer of a stream.
func (w *grpcWire) end(id uint32, got func(*answer)) {
	c := w.calls[id]
	if c == nil {
		return
	}
	delete(w.calls, id)
	c.verdict = failed
	if len(c.message) > messagePrefix { // a call that fails has headers only
		judgeResponse(&c.answer, c.message[messagePrefix:])
	}
	got(&c.answer)
}

var (
	// codeOK is the overall code of a RateLimitResponse that allows.
	codeOK = []byte{1 << 3, byte(rls.RateLimitResponse_OK)}
	// degradedEntry begins the entry of the metadata that names the fail mode: a key and the tag of its value. The value
	// has two more bytes before its text, and one for its length.
	degradedEntry = []byte("degraded\x12")
	// reducedCapacity is in the body of denials that no limit has made.
	reducedCapacity = []byte("temporary-reduced-capacity")
)

// judgeResponse reads a RateLimitResponse, as judge reads JSON. An overloaded denial is OVER_LIMIT with the body of a
// denial for want of capacity, and no fail mode.
func judgeResponse(a *answer, message []byte) {
	a.verdict, a.allowed = decided, bytes.HasPrefix(message, codeOK)
	if _, mode, ok := bytes.Cut(message, degradedEntry); ok && len(mode) > 3 {
		a.verdict, a.mode = byFailMode, failMode(mode[3:])
	} else if bytes.Contains(message, reducedCapacity) {
		a.verdict = overloaded
	}
}
