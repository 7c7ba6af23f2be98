package envoy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"sluice/internal/access"
)

// rawClient is a client that sends frames as a test says, valid or not.
type rawClient struct {
	t      testing.TB
	f      *fixture
	conn   net.Conn
	framer *http2.Framer
	enc    *hpack.Encoder
	block  bytes.Buffer
	said   []string        // what the server has sent
	done   map[uint32]bool // streams that have ended
	acked  map[string]int  // pings, by how often
	corked *bytes.Buffer   // takes up what is written, if it is not nil
	closed bool
	pings  int    // of the server
	last   uint32 // of the last GOAWAY
	window int    // by how much the server has widened that of the connection
	// settings counts the acknowledgments of the client\'s.
	settings int
}

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// raw opens a connection. settings are the client's.
func (f *fixture) raw(settings ...http2.Setting) *rawClient {
	f.t.Helper()
	c := f.rawWithout()
	c.write(http2.ClientPreface)
	c.must(c.framer.WriteSettings(settings...))
	return c
}

// rawWithout opens a connection without a preface.
func (f *fixture) rawWithout() *rawClient {
	f.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.conn.Target(), "passthrough:///")) //nolint:noctx // loopback
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{t: f.t, f: f, conn: conn, done: map[uint32]bool{}, acked: map[string]int{}}
	c.framer = http2.NewFramer(c, conn)
	c.must(conn.SetDeadline(time.Now().Add(patience)))
	c.framer.AllowIllegalWrites = true
	c.framer.ReadMetaHeaders = hpack.NewDecoder(tableSize, nil)
	c.enc = hpack.NewEncoder(&c.block)
	return c
}

// Write implements io.Writer for the framer.
func (c *rawClient) Write(b []byte) (int, error) {
	if c.corked != nil {
		return c.corked.Write(b)
	}
	return c.conn.Write(b)
}

// atOnce sends with one write what is sent in f, so that the server most likely reads it at once.
func (c *rawClient) atOnce(f func()) {
	c.t.Helper()
	c.corked = &bytes.Buffer{}
	f()
	all := c.corked.String()
	c.corked = nil
	c.write(all)
}

func (c *rawClient) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *rawClient) write(bytes string) {
	c.t.Helper()
	_, err := io.WriteString(c.conn, bytes)
	c.must(err)
}

// encode returns a header block of pairs.
func (c *rawClient) encode(pairs ...string) []byte {
	c.block.Reset()
	for i := 0; i+1 < len(pairs); i += 2 {
		c.must(c.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]}))
	}
	return bytes.Clone(c.block.Bytes())
}

// call returns the headers of a call of the RateLimitService with edits: pairs, of which the value "-" removes a field.
func (c *rawClient) call(edits ...string) []string {
	pairs := []string{":method", "POST", ":scheme", "http", ":path",
		ratelimitv3.RateLimitService_ShouldRateLimit_FullMethodName, ":authority", "ratelimit", "content-type",
		"application/grpc", "te", "trailers", "sluice-token", c.f.secrets[access.ScopeCheck]}
	for i := 0; i+1 < len(edits); i += 2 {
		at := slices.Index(pairs, edits[i])
		switch {
		case at < 0:
			pairs = append(pairs, edits[i], edits[i+1])
		case edits[i+1] == "-":
			pairs = slices.Delete(pairs, at, at+2)
		default:
			pairs[at+1] = edits[i+1]
		}
	}
	return pairs
}

func (c *rawClient) headers(id uint32, end bool, pairs ...string) {
	c.t.Helper()
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.encode(pairs...), EndStream: end,
		EndHeaders: true}))
}

func (c *rawClient) data(id uint32, end bool, data string) {
	c.t.Helper()
	c.must(c.framer.WriteData(id, end, []byte(data)))
}

// ask makes a whole call of the RateLimitService.
func (c *rawClient) ask(id uint32, user string) {
	c.t.Helper()
	c.headers(id, false, c.call()...)
	c.data(id, true, c.message(user))
}

// message is a call of the domain api for a user, with its prefix.
func (c *rawClient) message(user string) string {
	return prefixed(encode(c.t, &ratelimitv3.RateLimitRequest{Domain: "api",
		Descriptors: []*commonv3.RateLimitDescriptor{descriptorOf("u", user)}}))
}

// prefixed is a message as gRPC sends it.
func prefixed(message string) string {
	return "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(message)))) + message
}

// read reads a frame, and returns false at the end of the connection. What it says is added to said.
func (c *rawClient) read() bool {
	c.t.Helper()
	frame, err := c.framer.ReadFrame()
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		c.t.Fatalf("the server says no more after %q", c.said)
	case err != nil:
		c.closed = true
		c.said = append(c.said, "closed")
		return false
	}
	say := func(format string, args ...any) { c.said = append(c.said, fmt.Sprintf(format, args...)) }
	id := frame.Header().StreamID
	switch f := frame.(type) {
	case *http2.MetaHeadersFrame:
		var fields []string
		for _, h := range f.Fields {
			if h.Name != "grpc-message" || h.Value != "" {
				fields = append(fields, h.Name+"="+h.Value)
			}
		}
		slices.Sort(fields) // clients do not see their order
		say("%d: %s", id, strings.Join(fields, " "))
		c.done[id] = c.done[id] || f.StreamEnded()
	case *http2.DataFrame:
		say("%d: %x", id, f.Data())
		c.done[id] = c.done[id] || f.StreamEnded()
	case *http2.RSTStreamFrame:
		say("%d: reset %s", id, f.ErrCode)
		c.done[id] = true
	case *http2.GoAwayFrame:
		say("goaway %s %s", f.ErrCode, f.DebugData())
		c.last = f.LastStreamID
	case *http2.WindowUpdateFrame:
		if id == 0 {
			c.window += int(f.Increment)
		}
	case *http2.PingFrame:
		if f.IsAck() {
			c.acked[string(f.Data[:])]++
		} else {
			c.pings++
			c.must(c.framer.WritePing(true, f.Data))
		}
	case *http2.SettingsFrame:
		if f.IsAck() {
			c.settings++
		} else {
			c.must(c.framer.WriteSettingsAck())
		}
	}
	return true
}

// await reads until these streams have ended, or the connection has.
func (c *rawClient) await(streams ...uint32) {
	c.t.Helper()
	for slices.ContainsFunc(streams, func(id uint32) bool { return !c.done[id] }) && c.read() {
	}
}

// settle reads until the server has parsed everything that was sent.
func (c *rawClient) settle(name string) {
	c.t.Helper()
	data := [8]byte{'s'}
	copy(data[1:], name)
	if c.framer.WritePing(false, data) != nil {
		for c.read() {
		}
	}
	for c.acked[string(data[:])] == 0 && c.read() {
	}
}

// heard returns what the server said, and forgets it.
func (c *rawClient) heard() string {
	said := strings.Join(c.said, "\n")
	c.said = nil
	return said
}
