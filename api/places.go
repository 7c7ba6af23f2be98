package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
)

// place is one of the places for large batches, or none yet. There are as many places as processors: a batch of 1,000
// checks with 16 limits each needs tens of MB and computes without a pause, so more at once would only take longer and
// use more memory. A batch holds its place until its response is written.
type place struct {
	server *Server
	held   bool
	cancel context.CancelCauseFunc
	timer  *time.Timer // runs cancel, once started
}

// needsPlace reports whether a batch needs a place before its body is read: one above 64 KiB, or of unknown length.
func needsPlace(r *http.Request) bool { return r.ContentLength > maxBody || r.ContentLength < 0 }

// take takes a place, unless p has one. Without a free place the error is a problem of the kind reply.Overloaded.
func (p *place) take() error {
	if p.held {
		return nil
	}
	select {
	case p.server.places <- struct{}{}:
		p.held = true
		return nil
	default:
		p.server.deps.LargeRefused()
		return reply.Overloaded.Problem("This node is already deciding as many large batches as it can. Nothing was "+
			"changed. Send the batch again, or the same checks in smaller batches.").With("Retry-After", "1")
	}
}

// bound begins the server's time to write the response, now that the request has been read, and ends ctx, from which
// cancel came, when it is so late that only the response fits.
func (p *place) bound(c echo.Context) {
	d := p.server.deps.WriteTimeout
	if d <= 0 || p.timer != nil {
		return
	}
	extendWrite(c, d)
	p.timer = time.AfterFunc(d-min(d/2, lateAnswer), func() { p.cancel(errWriteTime) })
}

// leave gives the place back.
func (p *place) leave() {
	p.cancel(nil)
	if p.timer != nil {
		p.timer.Stop()
	}
	if p.held {
		<-p.server.places
	}
}

// errWriteTime ends the decision of a batch whose answer could not be sent any more.
var errWriteTime = errors.New("the time to write the response ends")

// inTime returns an error if ctx ended because of the time to write the response: the checks after that were not
// decided.
func inTime(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), errWriteTime) {
		return reply.Timeout.Problem("The checks could not all be decided in time. Some of them may have been charged. " +
			"Send smaller batches.")
	}
	return nil
}

// discardBody reads the body of a refused batch without keeping it, so that the client has sent it when the response
// comes, and can use the connection again. A client that asked whether to send it has not.
func discardBody(c echo.Context) {
	r := c.Request()
	if r.Header.Get("Expect") != "" {
		return
	}
	if _, err := io.CopyN(io.Discard, r.Body, maxLargeBody+1); err != nil && !errors.Is(err, io.EOF) {
		extendWrite(c, lateAnswer)
	}
}
