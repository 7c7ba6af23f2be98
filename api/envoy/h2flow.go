package envoy

import (
	"encoding/binary"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/status"
)

// flow is what may be sent until the other end says more.
type flow struct{ left int64 }

// add adds what the other end allows. It reports false if that is more than HTTP/2 knows.
func (f *flow) add(n int64) bool {
	f.left += n
	return f.left <= maxWindow
}

// onWindow notes what may be sent.
func (c *h2conn) onWindow(f *http2.WindowUpdateFrame) {
	switch st := c.streams[f.StreamID]; {
	case f.StreamID == 0:
		if !c.send.add(int64(f.Increment)) {
			c.fail(http2.ErrCodeFlowControl, "")
			return
		}
	case st != nil:
		if !st.send.add(int64(f.Increment)) {
			c.reset(f.StreamID, http2.ErrCodeFlowControl)
			return
		}
	case c.isIdle(f.StreamID):
		c.fail(http2.ErrCodeProtocol, "WINDOW_UPDATE of an idle stream")
		return
	}
	c.widened = true
}

// isIdle reports whether a stream was never opened.
func (c *h2conn) isIdle(id uint32) bool { return id > c.last || id%2 == 0 }

// received counts n bytes of a DATA frame, even if its stream no longer exists. It reports false if they are more than
// the client may send. The window of the connection is widened again at once, so that one stream does not delay others.
func (c *h2conn) received(st *h2stream, n int64) bool {
	if c.credit -= n; c.credit < 0 {
		c.fail(http2.ErrCodeFlowControl, "")
		return false
	}
	if c.credit < receiveWindow/2 {
		c.out = appendWindow(c.out, 0, receiveWindow-c.credit)
		c.credit = receiveWindow
	}
	if st == nil {
		return true
	}
	if st.credit -= n; st.credit < 0 {
		c.reset(st.id, http2.ErrCodeFlowControl)
		return false
	}
	return true
}

// giveBack lets the client of a stream send as much as was taken up, unless it has sent everything.
func (c *h2conn) giveBack(st *h2stream, taken int64) {
	if st.owed += taken; st.ended || st.owed < defaultWindow/4 {
		return
	}
	c.out = appendWindow(c.out, st.id, st.owed)
	st.credit, st.owed = st.credit+st.owed, 0
}

// complete sends the answer of a call, as soon as the windows allow.
func (c *h2conn) complete(st *h2stream, message []byte) {
	n := prefixSize + len(message)
	if len(c.blocked) > 0 || int64(n) > min(c.send.left, st.send.left) {
		st.out = append(appendPrefix(st.out[:0], message), message...)
		c.head200(st)
		st.phase = phaseAnswered
		st.expires = c.now.Add(longestCall)
		c.soon(st.expires)
		c.blocked = append(c.blocked, st)
		c.widened = true
		return
	}
	c.head200(st)
	c.send.left, st.send.left = c.send.left-int64(n), st.send.left-int64(n)
	if n <= maxFrame {
		c.out = appendFrame(c.out, n, http2.FrameData, 0, st.id)
		c.out = append(appendPrefix(c.out, message), message...)
	} else {
		st.out = append(appendPrefix(st.out[:0], message), message...)
		c.data(st.id, st.out)
	}
	c.headers(st.id, blockDone, true)
	c.end(st)
}

// head200 sends the first headers of an answer with a message.
func (c *h2conn) head200(st *h2stream) {
	block := blockHead
	if st.subtype != "" {
		block = appendContentType([]byte{fieldOK}, st.subtype)
	}
	c.headers(st.id, block, false)
}

// unblock sends the waiting answers as far as the windows allow, once for all frames that widened the windows.
func (c *h2conn) unblock() {
	if !c.widened {
		return
	}
	c.widened = false
	waiting := c.blocked[:0]
	for _, st := range c.blocked {
		n := max(0, min(int64(len(st.out)), c.send.left, st.send.left))
		c.data(st.id, st.out[:n])
		c.send.left, st.send.left = c.send.left-n, st.send.left-n
		if st.out = append(st.out[:0], st.out[n:]...); len(st.out) > 0 {
			waiting = append(waiting, st)
			continue
		}
		c.headers(st.id, blockDone, true)
		c.end(st)
	}
	clear(c.blocked[len(waiting):])
	c.blocked = waiting
	c.changed.Broadcast()
}

// data sends frames with data, none if there is no data.
func (c *h2conn) data(id uint32, data []byte) {
	c.strikes.answered = true
	for len(data) > 0 {
		n := min(len(data), maxFrame)
		c.out = append(appendFrame(c.out, n, http2.FrameData, 0, id), data[:n]...)
		data = data[n:]
	}
}

// prefixSize is the size of what is before a message: whether it is compressed, and its length.
const prefixSize = 5

func appendPrefix(b, message []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), uint32(len(message))) //nolint:gosec // bounded by what is answered
}

// finish ends a call with a status that is an error.
func (c *h2conn) finish(st *h2stream, err error) {
	c.refuse(st.id, st.subtype, httpOK, status.Convert(err), st.ended)
	c.end(st)
}
