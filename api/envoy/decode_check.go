package envoy

import (
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// checkCall is a decoded envoy.service.auth.v3.CheckRequest, as far as it is read. Its texts are parts of the message.
type checkCall struct {
	profile            string // context_extensions["sluice-profile"], "" without
	source             string // the address of the client, or of the proxy before Envoy
	method, path, host string
	headers            []header
	// values holds the values of the headers that the profile reads.
	values []string
}

type header struct{ name, value string }

// forget drops the content and keeps the memory.
func (c *checkCall) forget() {
	clear(c.headers)
	clear(c.values)
	*c = checkCall{headers: c.headers[:0], values: c.values[:0]}
}

// extensionProfile is the context extension with the name of the profile.
const extensionProfile = "sluice-profile"

// decode reads a message. In the parts that it reads, it finds the same values as the generated code.
func (c *checkCall) decode(text string) error {
	c.forget()
	return decodeIn(text, 1, c.decodeAttributes)
}

// decodeIn reads a message in which one field is of interest, a message too.
func decodeIn(text string, field protowire.Number, decode func(string) error) error {
	f := fields{rest: text}
	for f.next() {
		if f.is(field) {
			f.within(decode(f.bytes))
		}
	}
	return f.err
}

// decodeAttributes reads an AttributeContext.
func (c *checkCall) decodeAttributes(text string) error {
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1): // source: Peer.address, Address.socket_address
			f.within(decodeIn(f.bytes, 1, func(address string) error { return decodeIn(address, 1, c.decodeSocket) }))
		case f.is(4): // request: Request.http
			f.within(decodeIn(f.bytes, 2, c.decodeHTTP))
		case f.is(10): // context_extensions
			name, value, err := decodePair(f.bytes)
			f.within(err)
			if name == extensionProfile {
				c.profile = value
			}
		}
	}
	return f.err
}

// decodeSocket reads a SocketAddress.
func (c *checkCall) decodeSocket(text string) error {
	f := fields{rest: text}
	for f.next() {
		if f.is(2) {
			c.source = f.text()
		}
	}
	return f.err
}

// decodeHTTP reads an AttributeContext.HttpRequest.
func (c *checkCall) decodeHTTP(text string) error {
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(2):
			c.method = f.text()
		case f.is(4):
			c.path = f.text()
		case f.is(5):
			c.host = f.text()
		case f.is(3): // headers, a map: the last of a name counts
			name, value, err := decodePair(f.bytes)
			f.within(err)
			c.setHeader(name, value)
		case f.is(13): // header_map, a list
			f.within(decodeIn(f.bytes, 1, func(one string) error {
				name, value, err := decodeHeader(one)
				c.headers = append(c.headers, header{name, value})
				return err
			}))
		}
	}
	return f.err
}

func (c *checkCall) setHeader(name, value string) {
	for i := range c.headers {
		if c.headers[i].name == name {
			c.headers[i].value = value
			return
		}
	}
	c.headers = append(c.headers, header{name, value})
}

// decodePair reads an entry of a map from text to text.
func decodePair(text string) (name, value string, err error) {
	f := fields{rest: text}
	for f.next() {
		switch {
		case f.is(1):
			name = f.text()
		case f.is(2):
			value = f.text()
		}
	}
	return name, value, f.err
}

// decodeHeader reads a HeaderValue: of value and raw_value, the one that is not empty. A raw value need not be UTF-8.
func decodeHeader(text string) (name, value string, err error) {
	f := fields{rest: text}
	raw := ""
	for f.next() {
		switch {
		case f.is(1):
			name = f.text()
		case f.is(2):
			value = f.text()
		case f.is(3):
			raw = f.bytes
		}
	}
	if raw != "" {
		value = raw
	}
	return name, value, f.err
}

// header is the first header of a name, in small letters, "" if there is none.
func (c *checkCall) header(name string) string {
	for i := range c.headers {
		if strings.EqualFold(c.headers[i].name, name) {
			return c.headers[i].value
		}
	}
	return ""
}

// headersFor writes the headers that a profile reads to a map with their canonical names.
func (c *checkCall) headersFor(p *usable, to map[string][]string) {
	for i := range c.headers {
		h := &c.headers[i]
		name, ok := p.headers[strings.ToLower(h.name)]
		if !ok {
			continue
		}
		if values, twice := to[name]; twice {
			to[name] = append(values, h.value)
			continue
		}
		c.values = append(c.values, h.value)
		n := len(c.values)
		to[name] = c.values[n-1 : n : n]
	}
}
