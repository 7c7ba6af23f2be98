package plain

import (
	"bytes"
	"crypto/x509"
	"strings"
	"time"

	"sluice/api/reply"
	"sluice/internal/access"
)

// Bounds of the head of a plain request: its bytes, with the request line and the empty line, and its headers.
const (
	maxHead    = 8 << 10
	maxHeaders = 32
)

// requestLine begins every plain request.
const requestLine = "POST /ratelimit/check HTTP/1.1\r\n"

// Reasons why a connection is given to net/http. They are values of a metric label.
const (
	otherRequest = "other_request" // the request line is another
	badHeader    = "header"        // a line is no plain header, or a header means more than plain ones
	tooLarge     = "size"          // the head or the body is too large for a plain request
	slow         = "slow"          // the request did not arrive within patience
	cutShort     = "cut_short"     // the connection ended within a request
	clientLeft   = "client_left"   // the client left while its request was decided
)

// Reasons are all reasons for which a connection is given to net/http.
func Reasons() []string {
	return []string{otherRequest, badHeader, tooLarge, slow, cutShort, clientLeft}
}

// finding is what some bytes begin with.
type finding uint8

const (
	nothing finding = iota // no request: the connection is idle
	part                   // a part of a plain request
	whole                  // a plain request
	foreign                // no plain request; a reason comes with it
)

// scan reads the request with which in begins into h. used: a request of the connection was answered before. It returns
// in without the line breaks that it skips, as net/http does after a POST; then the request is not plain.
func scan(in []byte, used bool, h *head, maxBody int) (rest []byte, found finding, why string) {
	if len(in) == 0 || used && len(in) < leastRead {
		return in, nothing, ""
	}
	if used && (in[0] == '\r' || in[0] == '\n') {
		n := 1
		for n < leastRead && (in[n] == '\r' || in[n] == '\n') {
			n++
		}
		return in[n:], foreign, badHeader
	}
	switch complete, why := h.read(in, maxBody); {
	case why != "":
		return in, foreign, why
	case complete && len(in) >= h.size+h.body:
		return in, whole, ""
	}
	return in, part, ""
}

// sender has the host and the secret of the previous request of a connection: most have the same.
type sender struct {
	host   string
	secret []string
}

// call describes the sender of a request.
func (s *sender) call(h *head, chains [][]*x509.Certificate) access.Call {
	if s.host != string(h.host) {
		s.host = string(h.host)
	}
	call := access.Call{Host: s.host, Forwarded: h.forwarded, Chains: chains}
	if h.authorized {
		if len(s.secret) == 0 || s.secret[0] != string(h.authorization) {
			s.secret = []string{string(h.authorization)}
		}
		call.Authorization = s.secret
	}
	return call
}

// head is what the head of a plain request says. The slices are parts of the buffer that was read.
type head struct {
	size          int // of the head, in bytes
	body          int // of the body that follows it
	host          []byte
	authorization []byte
	authorized    bool // there is an Authorization header, which may be empty
	forwarded     bool // a proxy forwarded the request
	traceparent   []byte
	timeout       time.Duration // how long the caller waits; 0 if it does not say
}

// read reads the head of the request with which b begins. It reports whether the head is complete. why is the reason
// why it is not plain, or "".
func (h *head) read(b []byte, maxBody int) (complete bool, why string) {
	*h = head{body: -1}
	n := min(len(b), len(requestLine))
	if string(b[:n]) != requestLine[:n] {
		return false, otherRequest
	}
	var seen [kindCount]bool
	for at, count := n, 0; at >= len(requestLine); count++ {
		end := bytes.IndexByte(b[at:], '\n')
		if end < 0 {
			break
		}
		line := b[at : at+end]
		if at += end + 1; at > maxHead {
			return false, tooLarge
		}
		if len(line) == 0 || line[len(line)-1] != '\r' {
			return false, badHeader
		}
		if line = line[:len(line)-1]; len(line) == 0 {
			if h.size = at; !seen[host] || !seen[contentType] || !seen[contentLength] {
				return false, badHeader
			}
			return true, ""
		}
		if count == maxHeaders {
			return false, tooLarge
		}
		kind, value, ok := header(line)
		if !ok || kind != skipped && kind != forwarding && seen[kind] {
			return false, badHeader
		}
		seen[kind] = true
		if why := h.take(kind, value, maxBody); why != "" {
			return false, why
		}
	}
	if len(b) >= maxHead {
		return false, tooLarge
	}
	return false, ""
}

// take takes one header. why is the reason why it is not plain, or "".
func (h *head) take(kind headerKind, value []byte, maxBody int) (why string) {
	ok := true
	switch kind {
	case unusual:
		ok = false
	case host:
		h.host, ok = value, plainHost(value)
	case contentType:
		ok = isJSON(value)
	case connection:
		ok = equalFold(value, "keep-alive")
	case authorization:
		h.authorization, h.authorized = value, true
	case forwarding:
		h.forwarded = true
	case traceparent:
		h.traceparent = value
	case timeout:
		h.timeout = reply.ParseTimeout(value)
		ok = h.timeout > 0
	case contentLength:
		h.body = length(value)
		if ok = h.body >= 0; h.body > maxBody {
			return tooLarge
		}
	}
	if !ok {
		return badHeader
	}
	return ""
}

// headerKind says what a header means to the reader.
type headerKind uint8

const (
	skipped headerKind = iota // it means nothing
	unusual                   // it changes how the request is read or answered
	host
	contentType
	contentLength
	connection
	authorization
	forwarding
	traceparent
	timeout
	kindCount
)

// headerKinds has the headers that mean something, in small letters, by the length of their names.
var headerKinds = func() (t [18][]struct {
	name string
	kind headerKind
}) {
	add := func(kind headerKind, names ...string) {
		for _, name := range names {
			t[len(name)] = append(t[len(name)], struct {
				name string
				kind headerKind
			}{strings.ToLower(name), kind})
		}
	}
	add(host, "Host")
	add(contentType, "Content-Type")
	add(contentLength, "Content-Length")
	add(connection, "Connection")
	add(authorization, "Authorization")
	add(traceparent, "Traceparent")
	add(timeout, reply.TimeoutHeader)
	add(forwarding, access.ForwardingHeaders()...)
	add(unusual, "Transfer-Encoding", "Trailer", "TE", "Expect", "Upgrade", "HTTP2-Settings", "Content-Encoding",
		"Origin", "Sec-Fetch-Site")
	return t
}()

// header reads one line, without its end. The name consists of token characters and the value of printable ASCII.
func header(line []byte) (kind headerKind, value []byte, ok bool) {
	i := 0
	for i < len(line) && chars[line[i]]&inName != 0 {
		i++
	}
	if i == 0 || i == len(line) || line[i] != ':' {
		return skipped, nil, false
	}
	name, value := line[:i], line[i+1:]
	for _, c := range value {
		if chars[c]&inValue == 0 {
			return skipped, nil, false
		}
	}
	if i < len(headerKinds) {
		for _, k := range headerKinds[i] {
			if equalFold(name, k.name) {
				return k.kind, bytes.Trim(value, " "), true
			}
		}
	}
	return skipped, nil, true
}

const (
	inName  = 1 << iota // a token character
	inValue             // printable
	inHost
)

var chars = func() (t [256]uint8) {
	for c := ' '; c <= '~'; c++ {
		t[c] |= inValue
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			t[c] |= inName | inHost
		}
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] |= inName
	}
	for _, c := range "-._:[]" {
		t[c] |= inHost
	}
	return t
}()

// plainHost reports whether a Host is a name or an address.
func plainHost(value []byte) bool {
	for _, c := range value {
		if chars[c]&inHost == 0 {
			return false
		}
	}
	return len(value) > 0
}

func isJSON(value []byte) bool {
	return string(value) == reply.JSONType || equalFold(value, reply.JSONType+"; charset=utf-8") ||
		equalFold(value, reply.JSONType+";charset=utf-8")
}

// maxDigits keeps a length within an int.
const maxDigits = 9

// length reads a Content-Length of digits without leading zeros. It returns -1 for anything else.
func length(value []byte) (n int) {
	if len(value) == 0 || len(value) > maxDigits || value[0] == '0' && len(value) > 1 {
		return -1
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// equalFold reports whether b is lower in small or capital letters.
func equalFold(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}
