package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// Bounds of request bodies, in bytes.
const (
	maxBody      = 64 << 10
	maxLargeBody = 1 << 20 // a batch
)

const mediaJSON = reply.JSONType

// readBody reads the body, of at most most bytes, into dst[:0].
func readBody(c echo.Context, most int, dst []byte) ([]byte, error) {
	r := c.Request()
	if r.ContentLength > int64(most) {
		return dst, tooLarge(most)
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return dst, reply.MediaType.Problem("The body must not be compressed.")
	}
	dst = dst[:0]
	for {
		if len(dst) == cap(dst) {
			dst = append(dst, 0)[:len(dst)]
		}
		n, err := r.Body.Read(dst[len(dst):min(cap(dst), most+1)])
		dst = dst[:len(dst)+n]
		if len(dst) > most {
			// Without the header, net/http reads what is left of the body before it answers.
			return dst, tooLarge(most).With("Connection", "close")
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF):
			return dst, nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			extendWrite(c, lateAnswer)
			return dst, reply.Timeout.Problem("The body did not arrive in time.").With("Connection", "close")
		default:
			return dst, reply.Malformed.Problem("The body is incomplete.").With("Connection", "close")
		}
	}
}

// lateAnswer is the time to send an answer after the time to read the request has passed.
const lateAnswer = time.Second

// extendWrite lets an answer be sent for d from now, however late the request arrived: the server's time to write ends
// microseconds after its time to read.
func extendWrite(c echo.Context, d time.Duration) {
	now := time.Now() //nolint:forbidigo // socket deadlines use the clock of the machine
	// Tests have no connection with deadlines.
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(now.Add(d))
}

func tooLarge(most int) *reply.Problem {
	return reply.TooLarge.Problem(fmt.Sprintf("The body must not be larger than %d bytes.", most))
}

// contentType returns an error unless the content type is one of the accepted media
// types, with the charset UTF-8 or none.
func contentType(c echo.Context, accepted ...string) error {
	values := c.Request().Header["Content-Type"]
	if len(values) == 1 && values[0] == accepted[0] {
		return nil
	}
	refuse := reply.MediaType.Problem("Send the header Content-Type: "+strings.Join(accepted, " or ")+
		", optionally with charset=utf-8.").
		With("Accept-Post", strings.Join(accepted, ", "))
	if len(values) != 1 {
		return refuse
	}
	media, params, err := mime.ParseMediaType(values[0])
	if err != nil {
		return refuse
	}
	for name, v := range params {
		if name != "charset" || !strings.EqualFold(v, "utf-8") {
			return refuse
		}
	}
	for _, a := range accepted {
		if media == a {
			return nil
		}
	}
	return refuse
}

// readJSON checks the content type and reads a JSON body of at most 64 KiB.
func readJSON(c echo.Context) ([]byte, error) {
	if err := contentType(c, mediaJSON); err != nil {
		return nil, err
	}
	return readBody(c, maxBody, nil)
}

// secure sets the security headers of every response: no sniffing, framing or caching.
func secure(h http.Header) {
	h["X-Content-Type-Options"] = noSniff
	h["Cache-Control"] = noStore
}

// Shared header values; net/http only reads them.
var (
	noSniff  = []string{reply.NoSniff}
	noStore  = []string{reply.NoStore}
	jsonType = []string{mediaJSON}
)
