package envoy

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
)

// zip is gzip, which the exporter of traces registers in the program.
type zip struct{}

func (zip) Name() string                                 { return "gzip" }
func (zip) Compress(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil }
func (zip) Decompress(r io.Reader) (io.Reader, error)    { return gzip.NewReader(r) }

func init() { encoding.RegisterCompressor(zip{}) }

// TestLoop_AnswersAsGRPCDoes compares all that both ways send about calls that are odd, and some that are not.
func TestLoop_AnswersAsGRPCDoes(t *testing.T) {
	large := strings.Repeat("x", defaultWindow-prefixSize)
	of := func(texts ...string) []string { return texts }
	path := func(method string) []string { return []string{":path", method} }
	whole := of("call")
	for _, tt := range []struct {
		name  string
		edits []string // of the headers, see rawClient.call
		data  []string // DATA frames, the last of which ends the stream; nil: the headers do
		open  bool     // the stream is not ended
	}{
		{"a call", nil, whole, false},
		{"a call in pieces", nil, of("ca", "", "ll"), false},
		{"a subtype", of("content-type", "application/grpc+proto"), whole, false},
		{"a subtype after a semicolon", of("content-type", "application/grpc;x"), whole, false},
		{"another content type", of("content-type", "application/json"), whole, false},
		{"a content type like gRPC", of("content-type", "application/grpcx"), whole, false},
		{"no content type", of("content-type", "-"), whole, false},
		{"no te", of("te", "-"), whole, false},
		{"GET", of(":method", "GET"), whole, false},
		{"no method", of(":method", "-"), whole, false},
		{"no authority", of(":authority", "-"), whole, false},
		{"a host", of(":authority", "-", "host", "x"), whole, false},
		{"two hosts", of("host", "a", "host ", "b"), whole, false},
		{"connection", of("connection", "close"), whole, false},
		{"bad binary metadata", of("x-bin", "%"), whole, false},
		{"binary metadata", of("x-bin", "AAA"), whole, false},
		{"no token", of("sluice-token", "-"), whole, false},
		{"no token, open", of("sluice-token", "-"), nil, true},
		{"a bad token", of("sluice-token", "x"), whole, false},
		{"a timeout", of("grpc-timeout", "5S"), whole, false},
		{"a far timeout", of("grpc-timeout", "99999999H"), whole, false},
		{"a bad unit", of("grpc-timeout", "5x"), whole, false},
		{"a short timeout", of("grpc-timeout", "S"), whole, false},
		{"a long timeout", of("grpc-timeout", "123456789S"), whole, false},
		{"a timeout that is no number", of("grpc-timeout", "xS"), whole, false},
		{"a timeout of nothing", of("grpc-timeout", "0S"), whole, false},
		{"no message", nil, nil, false},
		{"an empty frame", nil, of(""), false},
		{"half a prefix", nil, of("\x00\x00"), false},
		{"half a message", nil, of("\x00\x00\x00\x00\x08half"), false},
		{"two messages", nil, of("call" + "call"), false},
		{"two messages, open", nil, of("call" + "call"), true},
		{"one and a half", nil, of("call\x00\x00"), false},
		{"a flag without an encoding", nil, of("\x01\x00\x00\x00\x01x"), false},
		{"another flag", nil, of("\x07\x00\x00\x00\x01x"), false},
		{"not protobuf", nil, of(prefixed("\x0a\x05a")), false},
		{"an empty message", nil, of(prefixed("")), false},
		{"an unknown encoding", of("grpc-encoding", "lzma"), of("\x01\x00\x00\x00\x01x"), false},
		{"identity", of("grpc-encoding", "identity"), whole, false},
		{"gzip", of("grpc-encoding", "gzip"), of("zipped"), false},
		{"an unknown method", path("/a.B/C"), whole, false},
		{"an unknown method of ours", path("/" + rateLimitService.ServiceName + "/X"), whole, false},
		{"no method name", path("/x"), whole, false},
		{"no slash", path("x"), whole, false},
		{"health", path(grpc_health_v1.Health_Check_FullMethodName), of(prefixed("")), false},
		{"health of a service", path(grpc_health_v1.Health_Check_FullMethodName), of(prefixed("\x0a\x01x")), false},
		{"health, not protobuf", path(grpc_health_v1.Health_Check_FullMethodName), of(prefixed("\x0a\x05a")), false},
		{"ext_authz without a profile", path(authv3.Authorization_Check_FullMethodName), of(prefixed("")), false},
		{"a message as large as the window", nil, split(prefixed(large)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			said := map[way]string{}
			for _, by := range []way{byLoop, byGRPC} {
				f := newFixture(t, by, perUser(5))
				c := f.raw()
				c.ask(1, "first") // makes the connection one of the loop
				c.await(1)
				c.heard()
				pairs := c.call(tt.edits...)
				for i := range pairs {
					pairs[i] = strings.TrimSpace(pairs[i])
				}
				c.headers(3, tt.data == nil && !tt.open, pairs...)
				for i, data := range tt.data {
					data = strings.ReplaceAll(data, "call", c.message("42"))
					data = strings.ReplaceAll(data, "zipped", zipped(c.message("42")[prefixSize:]))
					c.data(3, i == len(tt.data)-1 && !tt.open, data)
				}
				c.await(3)
				c.settle(string(by))
				said[by] = c.heard()
				c.ask(5, "last") // the connection lives
				c.await(5)
				said[by] += "\n" + c.heard()
			}
			if diff := cmp.Diff(joined(said[byGRPC]), joined(said[byLoop])); diff != "" {
				t.Errorf("(-grpc-go +loop):\n%s", diff)
			}
		})
	}
}

// zipped returns a compressed message, with its prefix.
func zipped(message string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, message)
	_ = w.Close()
	return "\x01" + prefixed(b.String())[1:]
}

// split splits data into frames.
func split(data string) (frames []string) {
	for len(data) > maxFrame {
		frames = append(frames, data[:maxFrame])
		data = data[maxFrame:]
	}
	return append(frames, data)
}

// joined removes what may differ: an answer without a message may have one frame of headers or two, and whether the
// client had sent everything by then is a matter of time.
func joined(said string) string {
	said = strings.ReplaceAll(said, "\n3: reset NO_ERROR", "")
	return strings.ReplaceAll(said, "content-type=application/grpc\n3: grpc-", "content-type=application/grpc grpc-")
}
