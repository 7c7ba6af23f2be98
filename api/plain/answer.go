package plain

import (
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"sluice/api/reply"
)

// headRoom is the room before the body of a response for its head. No head of a check needs more.
const headRoom = 512

// frame writes the head of a response into the room before its body, and returns both.
func (s *Server) frame(text []byte, problem *reply.Problem, closing bool) []byte {
	var room [headRoom]byte
	h := append(room[:0], "HTTP/1.1 "...)
	mediaType := reply.JSONType
	if problem == nil {
		h = append(h, "200 OK\r\n"...)
	} else {
		mediaType = reply.ProblemType
		h = append(strconv.AppendInt(h, int64(problem.Status), 10), ' ')
		h = append(append(h, http.StatusText(problem.Status)...), "\r\n"...)
		for name, value := range problem.Header {
			h = appendHeader(h, textproto.CanonicalMIMEHeaderKey(name), value)
		}
	}
	h = append(h, "Cache-Control: "+reply.NoStore+"\r\n"...)
	h = appendHeader(h, "Content-Type", mediaType)
	h = append(h, "X-Content-Type-Options: "+reply.NoSniff+"\r\n"...)
	if closing {
		h = append(h, "Connection: close\r\n"...)
	}
	h = appendHeader(h, "Date", s.now())
	h = append(h, "Content-Length: "...)
	h = append(strconv.AppendInt(h, int64(len(text)-headRoom), 10), "\r\n\r\n"...)
	if len(h) > headRoom {
		return append(append([]byte(nil), h...), text[headRoom:]...)
	}
	from := headRoom - len(h)
	copy(text[from:], h)
	return text[from:]
}

func appendHeader(b []byte, name, value string) []byte {
	b = append(append(b, name...), ": "...)
	return append(append(b, value...), "\r\n"...)
}

// date is the value of the header Date during one second.
type date struct {
	second int64
	text   string
}

func (s *Server) now() string {
	now := time.Now() //nolint:forbidigo // net/http too writes the time of the machine
	if d := s.date.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &date{second: now.Unix(), text: now.UTC().Format(http.TimeFormat)}
	s.date.Store(d)
	return d.text
}
