package envoy

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// exchange is a stream of another method, or of a compressed call, which grpc-go answers as a handler of net/http: the
// body of its request and the writer of its response. Its goroutine lives as long as the call.
type exchange struct {
	conn   *h2conn
	stream *h2stream
	cancel context.CancelFunc
	shut   bool // the handler reads no more; guarded by conn.mu
	// Of the handler.
	header http.Header
	sent   http.Header // the headers that were sent; nil before
	out    []byte
}

var (
	_ http.ResponseWriter = (*exchange)(nil)
	_ http.Flusher        = (*exchange)(nil)
	_ io.ReadCloser       = (*exchange)(nil)
)

// chainsKey is the key of the chains of the client certificate in the context of an exchange.
type chainsKey struct{}

// exchange lets grpc-go answer a stream.
func (c *h2conn) exchange(st *h2stream, h *headers, r *request) {
	ctx, cancel := context.WithCancel(context.WithValue(c.ctx, chainsKey{}, c.chains))
	e := &exchange{conn: c, stream: st, cancel: cancel, header: http.Header{}}
	st.other = e
	header := http.Header{}
	for _, f := range h.fields {
		if !strings.HasPrefix(f.Name, ":") && f.Name != "host" {
			header.Add(f.Name, f.Value)
		}
	}
	request := (&http.Request{
		Method: r.method, URL: &url.URL{Path: r.path}, Proto: "HTTP/2.0", ProtoMajor: 2, Header: header, Body: e,
		Host: r.authority, RequestURI: r.path, RemoteAddr: c.RemoteAddr().String(),
	}).WithContext(ctx)
	server := c.loop.others
	if st.kind == kindQuota {
		server = c.loop.quotas
	}
	c.spawn(func() {
		defer cancel()
		server.ServeHTTP(e, request)
		e.finish()
	})
}

// gone reports whether the call is over. conn.mu is locked.
func (e *exchange) gone() bool { return e.conn.closed || e.stream.left.Load() }

// Read implements io.Reader.
func (e *exchange) Read(b []byte) (int, error) {
	c, st := e.conn, e.stream
	c.mu.Lock()
	for len(st.message) == 0 && !st.ended && !e.shut && !e.gone() {
		c.changed.Wait()
	}
	switch {
	case e.gone():
		c.mu.Unlock()
		return 0, context.Canceled
	case e.shut:
		c.mu.Unlock()
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(b, st.message)
	st.message = append(st.message[:0], st.message[n:]...)
	c.giveBack(st, int64(n))
	c.mu.Unlock()
	if n == 0 {
		return 0, io.EOF
	}
	c.flush()
	return n, nil
}

// Close implements io.Closer.
func (e *exchange) Close() error {
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	e.shut = true
	e.conn.changed.Broadcast()
	return nil
}

// Header implements http.ResponseWriter.
func (e *exchange) Header() http.Header { return e.header }

// WriteHeader implements http.ResponseWriter.
func (e *exchange) WriteHeader(code int) {
	if e.sent != nil {
		return
	}
	block := []byte{fieldOK}
	if code != http.StatusOK {
		block = appendText7([]byte{fieldStatus}, strconv.Itoa(code))
	}
	e.sent = http.Header{}
	for name, values := range e.header {
		if name == "Trailer" || name == "Date" {
			continue
		}
		e.sent[name] = nil
		for _, v := range values {
			block = appendField(block, strings.ToLower(name), v)
		}
	}
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	if !e.gone() {
		e.conn.headers(e.stream.id, block, false)
	}
}

// Write implements http.ResponseWriter.
func (e *exchange) Write(b []byte) (int, error) {
	e.WriteHeader(http.StatusOK)
	e.out = append(e.out, b...)
	return len(b), nil
}

// Flush implements http.Flusher. It waits until the windows allow to send what was written.
func (e *exchange) Flush() {
	e.WriteHeader(http.StatusOK)
	c, st := e.conn, e.stream
	c.mu.Lock()
	for len(e.out) > 0 && !e.gone() {
		n := min(int64(len(e.out)), c.send.left, st.send.left)
		switch {
		case n <= 0 && len(c.out) > 0: // the client waits for these bytes before it allows more
			c.mu.Unlock()
			c.flush()
			c.mu.Lock()
			continue
		case n <= 0:
			if st.expires.IsZero() { // a client that does not read holds the goroutine no longer
				st.expires = clock().Add(longestCall)
				c.soon(st.expires)
				c.loop.watch.list(c)
			}
			c.changed.Wait()
			continue
		}
		c.data(st.id, e.out[:n])
		c.send.left, st.send.left = c.send.left-n, st.send.left-n
		e.out = e.out[n:]
	}
	if st.ended || st.kind == kindQuota {
		st.expires = time.Time{}
	}
	c.mu.Unlock()
	e.out = e.out[:0]
	c.flush()
}

// finish ends the stream with the trailers that the handler left.
func (e *exchange) finish() {
	e.Flush()
	var block []byte
	for name, values := range e.header {
		if _, sent := e.sent[name]; sent || name == "Trailer" || name == "Date" {
			continue
		}
		name = strings.ToLower(strings.TrimPrefix(name, http.TrailerPrefix))
		for _, v := range values {
			block = appendField(block, name, v)
		}
	}
	c, st := e.conn, e.stream
	c.mu.Lock()
	if !e.gone() {
		c.headers(st.id, block, true)
		if !st.ended {
			c.out = appendReset(c.out, st.id, http2.ErrCodeNo)
		}
		c.end(st)
	}
	c.mu.Unlock()
	c.flush()
}
