package api

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/heap"
)

// Deadlines of an import, which replace the deadlines of other requests: to send its file, and then to receive the
// whole response.
const (
	importSend   = time.Minute
	importAnswer = 10 * time.Minute
)

// extendDeadlines sets the deadlines of an import for an authorised request.
func (s *Server) extendDeadlines(c echo.Context) {
	control, now := http.NewResponseController(c.Response()),
		time.Now() //nolint:forbidigo // socket deadlines use the clock of the machine
	_ = control.SetReadDeadline(now.Add(importSend)) // tests have no connection with deadlines
	_ = control.SetWriteDeadline(now.Add(importAnswer))
}

// readFile reads the file of an import, of at most most bytes. No other large file is
// imported on this node until done is called.
func (s *Server) readFile(c echo.Context, most int) (body []byte, done func(), err error) {
	size := c.Request().ContentLength
	if size > int64(most) {
		return nil, nil, tooLarge(most)
	}
	done = func() {}
	if size < 0 || size > maxLargeBody {
		if !s.importing.TryLock() {
			return nil, nil, reply.NotReady.Problem(
				"Another large file is being imported on this node. Try again when that import has finished.").With("Retry-After",
				"5")
		}
		unbound := heap.Bound(heap.Import)
		done = func() {
			unbound()
			s.importing.Unlock()
		}
	}
	s.extendDeadlines(c)
	if body, err = readBody(c, most, make([]byte, 0, max(size+1, 512))); err != nil {
		done()
	}
	return body, done, err
}

// startsObject fails unless a body begins as a JSON object. The rest is for the parser of the file, which is as strict.
func startsObject(data []byte) error {
	if rest := bytes.TrimLeft(data, " \t\r\n"); len(rest) == 0 || rest[0] != '{' {
		return &malformedError{"a JSON object is expected"}
	}
	return nil
}

// writePlan sends a plan element by element, because the whole document of a large
// file takes several times the memory of its rules.
func writePlan(c echo.Context, p *importPlan) error {
	c.Response().Header()["Content-Type"] = jsonType
	c.Response().WriteHeader(http.StatusOK)
	out := bufio.NewWriterSize(c.Response(), 64<<10)
	w := planWriter{out: out, enc: json.NewEncoder(out)}
	w.enc.SetEscapeHTML(false)
	w.text(`{"dry_run":`)
	w.value(p.DryRun)
	writeList(&w, "create", p.Create)
	writeList(&w, "update", p.Update)
	writeList(&w, "delete", p.Delete)
	writeList(&w, "unchanged", p.Unchanged)
	w.text(`,"untouched":`)
	w.value(p.Untouched)
	w.text(`,"pools":`)
	w.value(p.Pools)
	w.text(`,"profiles":`)
	w.value(p.Profiles)
	if p.FailModes != nil {
		writeList(&w, "fail_modes", p.FailModes)
	}
	if p.OpenWrites != nil {
		writeList(&w, "open_writes", p.OpenWrites)
	}
	if p.Renamed != nil {
		writeList(&w, "renamed", p.Renamed)
	}
	if p.Report != nil {
		writeList(&w, "report", p.Report)
	}
	w.text("}\n")
	_ = out.Flush() // fails only if the client closed the connection
	return nil
}

type planWriter struct {
	out *bufio.Writer
	enc *json.Encoder
	err error
}

func (w *planWriter) text(s string) {
	if w.err == nil {
		_, w.err = w.out.WriteString(s)
	}
}

func (w *planWriter) value(v any) {
	if w.err == nil {
		w.err = w.enc.Encode(v)
	}
}

func writeList[T any](w *planWriter, name string, list []T) {
	w.text(`,"` + name + `":[`)
	for i := range list {
		if i > 0 {
			w.text(",")
		}
		w.value(&list[i])
	}
	w.text("]")
}
