package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"runtime"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2conn is a connection over which callers make unary calls of gRPC at the same time. A client of gRPC would use as
// much of the CPU as the servers do, and Envoy uses far less. Therefore h2conn sends frames that are encoded in
// advance: after the first call, the headers are a few bytes from the table of HPACK. Frames of callers that continue
// together are sent in one write.
type h2conn struct {
	net    net.Conn
	header []byte // the headers of every call but the first
	wake   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	room   sync.Cond // window grew, or err is set
	out    bytes.Buffer
	framer *http2.Framer // writes to out
	lastID uint32
	calls  map[uint32]*h2call // under way, by stream
	window int64              // how many bytes of data the server takes on the connection
	stream int64              // the same for each stream
	most   int                // how many streams the server takes at once
	err    error              // why the connection ended
}

// h2call is a call under way. A caller has one, and uses it again.
type h2call struct {
	answer []byte // the messages of the answer, each with its prefix
	status string // HTTP's
	code   string // gRPC's
	text   string
	done   chan error
}

const (
	// window is the number of bytes that a server may send on a connection before they are acknowledged. It is so large
	// that servers never wait.
	window = 1 << 30
	// initialWindow is the initial flow-control window of HTTP/2 for connections and streams.
	initialWindow = 65535
	// messagePrefix is the length of what gRPC writes before a message.
	messagePrefix = 5
)

// dialH2 opens a connection for calls of one method.
func dialH2(ctx context.Context, addr, method string) (*h2conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	c := &h2conn{net: nc, wake: make(chan struct{}, 1), calls: map[uint32]*h2call{},
		window: initialWindow, stream: initialWindow, most: math.MaxInt}
	c.room.L = &c.mu
	c.framer = http2.NewFramer(&c.out, nil)
	c.out.WriteString(http2.ClientPreface)
	if err := errors.Join(c.framer.WriteSettings(), c.framer.WriteWindowUpdate(0, window)); err != nil {
		return nil, err
	}
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		for _, f := range []hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: method},
			{Name: ":authority", Value: "ratelimit"}, {Name: "te", Value: "trailers"},
			{Name: "grpc-timeout", Value: "5S"}, {Name: "content-type", Value: "application/grpc"},
		} {
			_ = enc.WriteField(f) // to memory
		}
		return bytes.Clone(block.Bytes())
	}
	first := encode() // what it puts into the table, the second refers to
	c.header = encode()
	c.wake <- struct{}{} // before read can fail and close it
	c.wg.Go(c.write)
	c.wg.Go(c.read)
	if err := c.warm(first); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// warm makes the call that puts the headers into the table of the connection. It is without a message, so a server
// answers that it is not valid; that is not looked at.
func (c *h2conn) warm(header []byte) error {
	call := newH2call()
	return c.roundTrip(call, header, make([]byte, messagePrefix))
}

func newH2call() *h2call { return &h2call{done: make(chan error, 1)} }

// close ends the connection and waits for its goroutines.
func (c *h2conn) close() {
	c.fail(net.ErrClosed)
	c.wg.Wait()
}

// fail ends all calls with err.
func (c *h2conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	c.net.Close()
	for _, call := range c.calls {
		call.done <- err
	}
	clear(c.calls)
	close(c.wake)
	c.room.Broadcast()
}

// do makes a call with a message that has its prefix and returns the message of the answer. It belongs to call.
func (c *h2conn) do(call *h2call, message []byte) ([]byte, error) {
	if err := c.roundTrip(call, c.header, message); err != nil {
		return nil, err
	}
	if call.status != "200" || call.code != "0" {
		return nil, fmt.Errorf("status %s, grpc-status %s %q", call.status, call.code, call.text)
	}
	a := call.answer
	if len(a) < messagePrefix || a[0] != 0 || uint64(binary.BigEndian.Uint32(a[1:])) != uint64(len(a)-messagePrefix) {
		return nil, fmt.Errorf("the answer of %d bytes is not one message", len(a))
	}
	return a[messagePrefix:], nil
}

func (c *h2conn) roundTrip(call *h2call, header, message []byte) error {
	call.answer, call.status, call.code, call.text = call.answer[:0], "", "", ""
	if err := c.send(call, header, message); err != nil {
		return err
	}
	return <-call.done
}

// send gives the frames of a call to the writer.
func (c *h2conn) send(call *h2call, header, message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int64(len(message))
	for c.err == nil && (c.window < n || len(c.calls) >= c.most) {
		c.room.Wait()
	}
	if c.err != nil {
		return c.err
	}
	if n > c.stream {
		return fmt.Errorf("a message of %d bytes is above the window of a stream, %d", n, c.stream)
	}
	c.window -= n
	c.lastID += 2
	id := c.lastID - 1
	c.calls[id] = call
	if err := errors.Join(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: header,
		EndHeaders: true}), c.framer.WriteData(id, true, message)); err != nil {
		return err
	}
	c.flush()
	return nil
}

// flush wakes the writer. The caller holds mu.
func (c *h2conn) flush() {
	select {
	case c.wake <- struct{}{}:
	default: // it will see this too
	}
}

// write sends what has gathered.
func (c *h2conn) write() {
	var b []byte
	for range c.wake {
		runtime.Gosched() // the callers that were woken together add theirs
		c.mu.Lock()
		b = append(b[:0], c.out.Bytes()...)
		c.out.Reset()
		c.mu.Unlock()
		if _, err := c.net.Write(b); err != nil {
			c.fail(err)
			return
		}
	}
}

// read reads frames until the connection ends.
func (c *h2conn) read() {
	fr := http2.NewFramer(io.Discard, bufio.NewReaderSize(c.net, 32<<10))
	fr.SetReuseFrames()
	var call *h2call // whose headers are read
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		switch {
		case call == nil:
		case f.Name == ":status":
			call.status = f.Value
		case f.Name == "grpc-status":
			call.code = f.Value
		case f.Name == "grpc-message":
			call.text = f.Value
		}
	})
	var read int64 // since the last update of the window
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			c.fail(err)
			return
		}
		id := f.Header().StreamID
		switch f := f.(type) {
		case *http2.HeadersFrame:
			call = c.call(id)
			_, err = dec.Write(f.HeaderBlockFragment())
			if !f.HeadersEnded() {
				err = errors.Join(err, errors.New("the headers of an answer are in several frames"))
			}
			err = errors.Join(err, dec.Close())
			if f.StreamEnded() {
				c.end(id, nil)
			}
		case *http2.DataFrame:
			if call := c.call(id); call != nil {
				call.answer = append(call.answer, f.Data()...)
			}
			if read += int64(f.Length); read >= window/2 {
				c.reply(func(w *http2.Framer) error { return w.WriteWindowUpdate(0, uint32(read)) }) //nolint:gosec // bounded
				read = 0
			}
			if f.StreamEnded() {
				c.end(id, errors.New("an answer without trailers"))
			}
		case *http2.RSTStreamFrame:
			c.end(id, fmt.Errorf("the server ended the stream: %v", f.ErrCode))
		case *http2.SettingsFrame:
			c.settings(f)
		case *http2.WindowUpdateFrame:
			if id == 0 { // a stream sends one message, which fits
				c.mu.Lock()
				c.window += int64(f.Increment)
				c.room.Broadcast()
				c.mu.Unlock()
			}
		case *http2.PingFrame:
			if !f.IsAck() {
				data := f.Data
				c.reply(func(w *http2.Framer) error { return w.WritePing(true, data) })
			}
		case *http2.GoAwayFrame:
			err = fmt.Errorf("the server ends the connection: %v", f.ErrCode)
		}
		if err != nil {
			c.fail(err)
			return
		}
	}
}

// call returns the call of a stream, nil if it has ended.
func (c *h2conn) call(id uint32) *h2call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[id]
}

// end ends the call of a stream.
func (c *h2conn) end(id uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[id]
	if call == nil {
		return
	}
	delete(c.calls, id)
	if len(c.calls) == c.most-1 {
		c.room.Broadcast()
	}
	call.done <- err
}

// reply sends a frame that answers one of the server.
func (c *h2conn) reply(write func(*http2.Framer) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	_ = write(c.framer) // to memory
	c.flush()
}

// settings applies the settings of the server, and acknowledges them.
func (c *h2conn) settings(f *http2.SettingsFrame) {
	if f.IsAck() {
		return
	}
	c.mu.Lock()
	if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
		c.stream = int64(v)
	}
	if v, ok := f.Value(http2.SettingMaxConcurrentStreams); ok {
		c.most = int(v)
	}
	c.room.Broadcast()
	c.mu.Unlock()
	c.reply(func(w *http2.Framer) error { return w.WriteSettingsAck() })
}
