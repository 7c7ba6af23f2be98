package envoy

import (
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

const (
	// tableSize is the default size of the dynamic table.
	tableSize = 4 << 10
	// maxBlock bounds an encoded header block, which is shorter than its list unless it is odd.
	maxBlock = 2 * maxHeaderList
	httpOK   = http.StatusOK
)

// headers is the header block that is read.
type headers struct {
	stream   uint32
	ended    bool // no DATA frame follows
	frames   int
	encoded  int // bytes
	size     int // of the list, as HTTP/2 counts it
	tooLarge bool
	invalid  bool
	fields   []hpack.HeaderField
	request  request
}

// request is what the fields of a call say.
type request struct {
	method, path         string
	contentType, subtype string
	encoding             string
	timeout              time.Duration
	timed                bool // it has a timeout
	isGRPC               bool
	connection           bool // it has the field connection, which HTTP/2 forbids
	hosts                int
	host                 string
	invalid              *status.Status // a field that grpc-go refuses
	sender
}

func (c *h2conn) onHeaders(f *http2.HeadersFrame) {
	h := &c.head
	*h = headers{stream: f.StreamID, ended: f.StreamEnded(), fields: h.fields[:0], request: request{
		sender: sender{authorization: h.request.authorization[:0], token: h.request.token[:0]}}}
	c.hpack.SetEmitEnabled(true)
	c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

func (c *h2conn) onContinuation(f *http2.ContinuationFrame) {
	if c.head.frames++; c.head.frames > mostContinuations {
		c.flood(floodContinuations)
		return
	}
	c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

// fragment decodes a part of a header block.
func (c *h2conn) fragment(b []byte, last bool) {
	if c.head.encoded += len(b); c.head.encoded > maxBlock {
		c.flood(floodContinuations)
		return
	}
	_, err := c.hpack.Write(b)
	if err == nil && last {
		err = c.hpack.Close()
	}
	switch {
	case err != nil:
		c.fail(http2.ErrCodeCompression, "")
	case last:
		c.onHeaderList()
	}
}

// field takes up one field of a header block.
func (c *h2conn) field(f hpack.HeaderField) {
	h := &c.head
	if h.size += int(f.Size()); h.size > maxHeaderList {
		h.tooLarge = true
		c.hpack.SetEmitEnabled(false)
		return
	}
	h.invalid = h.invalid || !valid(f, h.fields)
	h.fields = append(h.fields, f)
}

// valid reports whether a field is one of a request that may follow others.
func valid(f hpack.HeaderField, before []hpack.HeaderField) bool {
	if !httpguts.ValidHeaderFieldValue(f.Value) || f.Name == "" {
		return false
	}
	if f.Name[0] == ':' {
		switch f.Name {
		case ":method", ":path", ":scheme", ":authority", ":protocol":
		default:
			return false
		}
		for i := range before {
			if before[i].Name == f.Name || before[i].Name[0] != ':' {
				return false
			}
		}
		return true
	}
	for i := range len(f.Name) {
		if b := f.Name[i]; b >= 'A' && b <= 'Z' || !httpguts.IsTokenRune(rune(b)) {
			return false
		}
	}
	return true
}

// onHeaderList begins a call, or ends one with trailers.
func (c *h2conn) onHeaderList() {
	h := &c.head
	if st := c.streams[h.stream]; st != nil {
		switch {
		case st.ended:
			c.reset(h.stream, http2.ErrCodeStreamClosed)
		case !h.ended || h.invalid:
			c.reset(h.stream, http2.ErrCodeProtocol)
		default:
			c.onEnd(st)
		}
		return
	}
	if h.stream%2 == 0 {
		c.fail(http2.ErrCodeProtocol, "a client opens odd streams")
		return
	}
	if h.stream <= c.last {
		return // trailers of a call that was answered before they came
	}
	c.last = h.stream
	r := &h.request
	r.read(h.fields)
	if c.stage == stageFirst {
		if kindOf(r.path) == kindOther && c.drainReason == "" {
			c.stage = stagePassed
			return
		}
		c.own()
	}
	switch {
	case c.moved: // the second GOAWAY has said so
	case h.tooLarge:
		c.out = appendReset(c.out, h.stream, http2.ErrCodeFrameSize)
	case h.invalid:
		c.reset(h.stream, http2.ErrCodeProtocol)
	default:
		c.begin(h, r)
	}
}

// read reads the fields of a call, as grpc-go does.
func (r *request) read(fields []hpack.HeaderField) {
	for i := range fields {
		switch f := &fields[i]; f.Name {
		case ":method":
			r.method = f.Value
		case ":path":
			r.path = f.Value
		case ":authority":
			r.authority = f.Value
		case ":scheme", "te", "user-agent", "grpc-accept-encoding", "grpc-message-type", "grpc-message", "grpc-status":
		case "content-type":
			subtype, ok := subtypeOf(f.Value)
			if !ok {
				r.contentType = f.Value
				break
			}
			r.subtype, r.isGRPC = subtype, true
		case "grpc-encoding":
			r.encoding = f.Value
		case "grpc-timeout":
			var err error
			r.timed = true
			if r.timeout, err = timeoutOf(f.Value); err != nil {
				r.invalid = status.Newf(codes.Internal, "malformed grpc-timeout: %v", err)
			}
		case "connection":
			r.connection = true
		case "host":
			r.host = f.Value
			r.hosts++
		default:
			r.field(f.Name, f.Value)
			if err := binaryValue(f.Name, f.Value); err != nil {
				r.invalid = status.Newf(codes.Internal, "malformed binary metadata %q in header %q: %v", f.Value, f.Name, err)
			}
		}
	}
	if r.authority == "" {
		r.authority = r.host
	}
}

// binaryValue returns an error if the field is binary by its name and not by its value.
func binaryValue(name, value string) error {
	if !strings.HasSuffix(name, "-bin") {
		return nil
	}
	form := base64.RawStdEncoding
	if len(value)%4 == 0 { // padded, or without a need for it
		form = base64.StdEncoding
	}
	_, err := form.DecodeString(value)
	return err
}

// subtypeOf returns what follows the base of a content type of gRPC.
func subtypeOf(contentType string) (subtype string, ok bool) {
	rest, ok := strings.CutPrefix(contentType, baseContentType)
	switch {
	case !ok:
		return "", false
	case rest == "":
		return "", true
	}
	return rest[1:], rest[0] == '+' || rest[0] == ';'
}

// timeoutUnits are the units of grpc-timeout.
var timeoutUnits = map[byte]time.Duration{
	'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
}

// timeoutOf reads a grpc-timeout. It returns the same errors as grpc-go.
func timeoutOf(s string) (time.Duration, error) {
	const shortest, longest = 2, 9 // up to 8 digits and the unit
	switch n := len(s); {
	case n < shortest:
		return 0, fmt.Errorf("transport: timeout string is too short: %q", s)
	case n > longest:
		return 0, fmt.Errorf("transport: timeout string is too long: %q", s)
	}
	unit, ok := timeoutUnits[s[len(s)-1]]
	if !ok {
		return 0, fmt.Errorf("transport: timeout unit is not recognized: %q", s)
	}
	n, err := strconv.ParseUint(s[:len(s)-1], 10, 64)
	if err != nil {
		return 0, err
	}
	if n > math.MaxInt64/uint64(unit) {
		return math.MaxInt64, nil
	}
	return unit * time.Duration(n), nil //nolint:gosec // checked
}

// begin begins a call, or refuses it, in the order in which grpc-go looks at its headers.
func (c *h2conn) begin(h *headers, r *request) {
	s := c.loop.server
	refuse := func(code int, st *status.Status) { c.refuse(h.stream, r.subtype, code, st, h.ended) }
	if r.hosts > 1 {
		authorities := 0
		if r.authority != "" && r.authority != r.host || hasAuthority(h.fields) {
			authorities = 1
		}
		refuse(http.StatusBadRequest, status.Newf(codes.Internal, "num values of :authority: %v, num values of host: %v, "+
			"both must only have 1 value as per HTTP/2 spec", authorities, r.hosts))
		return
	}
	switch {
	case r.connection:
		c.reset(h.stream, http2.ErrCodeProtocol)
		return
	case !r.isGRPC:
		refuse(http.StatusUnsupportedMediaType,
			status.Newf(codes.InvalidArgument, "invalid gRPC request content-type %q", r.contentType))
		return
	case r.invalid != nil:
		refuse(http.StatusBadRequest, r.invalid)
		return
	case r.hosts == 0 && !hasAuthority(h.fields):
		refuse(http.StatusBadRequest, status.New(codes.Internal, "no host or :authority header present"))
		return
	case len(c.streams) >= maxStreams:
		c.out = appendReset(c.out, h.stream, http2.ErrCodeRefusedStream)
		return
	case r.method != http.MethodPost:
		refuse(http.StatusMethodNotAllowed, status.Newf(codes.Internal,
			"Received a HEADERS frame with :method %q which should be POST", r.method))
		return
	}
	kind := kindOf(r.path)
	if r.encoding != "" && r.encoding != encoding.Identity && kind != kindQuota {
		kind = kindOther
	}
	if f, needs := kind.face(); needs {
		r.chains = c.chains
		if result, err := s.authorize(f, &r.sender); err != nil {
			s.deps.Observe.CountCall(faceNames[f], result)
			refuse(httpOK, status.Convert(err))
			return
		}
	}
	if r.timed && r.timeout <= 0 {
		refuse(httpOK, status.FromContextError(errTimeout))
		return
	}
	c.open(h, r, kind)
}

// hasAuthority reports whether the fields have an authority, which may be empty.
func hasAuthority(fields []hpack.HeaderField) bool {
	for i := range fields {
		if fields[i].Name == ":authority" {
			return true
		}
	}
	return false
}
