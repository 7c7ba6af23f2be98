package web

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/audit"
)

const (
	// downloadBatch is how many changes are read at a time.
	downloadBatch = 500
	// batchTime is how long writing a batch may take; the server's own limit is
	// for pages.
	batchTime = 30 * time.Second
)

// downloadAudit sends all changes that the filters select, as CSV or JSON lines.
// The first batch is read before the first byte, so that a database that is away
// is an error page; one that goes away later ends the download early.
func (s *Server) downloadAudit(v *visit) error {
	want := auditQuery(v.QueryParams())
	want.Limit = downloadBatch
	list, err := s.deps.Admin.Log.ListAudit(v.ctx, want)
	if err != nil {
		return err
	}
	if err := v.saveSession(); err != nil {
		return err
	}
	kind, name := "application/x-ndjson", "audit-log.jsonl"
	write := writeJSONLines
	if v.QueryParam("format") != "json" {
		kind, name, write = "text/csv; charset=utf-8", "audit-log.csv", writeCSV
	}
	w, control := v.Response(), http.NewResponseController(v.Response())
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	s.log.Info("the audit log was downloaded", "by", v.user.Name)
	for first := true; ; first = false {
		_ = control.SetWriteDeadline(time.Now().Add(batchTime)) //nolint:forbidigo // sockets go by the machine's clock
		if err := write(w, list, first); err != nil {
			return nil // the browser has gone
		}
		if len(list) < downloadBatch {
			return nil
		}
		want.BeforeID = list[len(list)-1].ID
		if list, err = s.deps.Admin.Log.ListAudit(v.ctx, want); err != nil {
			s.log.Error("a download of the audit log ended early", "error", err)
			panic(http.ErrAbortHandler) // so that the browser knows that the file is not whole
		}
	}
}

func writeJSONLines(w io.Writer, list []audit.Entry, _ bool) error {
	e := json.NewEncoder(w)
	for i := range list {
		if err := e.Encode(&list[i]); err != nil {
			return err
		}
	}
	return nil
}

func writeCSV(w io.Writer, list []audit.Entry, first bool) error {
	c := csv.NewWriter(w)
	if first {
		if err := c.Write([]string{"id", "at", "actor_kind", "actor", "action", "subject_kind", "subject_id", "subject", "details"}); err != nil {
			return err
		}
	}
	for i := range list {
		e := &list[i]
		err := c.Write([]string{
			strconv.FormatInt(e.ID, 10), e.At.UTC().Format(time.RFC3339Nano), cell(e.Actor.Kind), cell(e.Actor.Name), cell(e.Action),
			cell(e.SubjectKind), strconv.FormatInt(e.SubjectID, 10), cell(e.SubjectName), string(e.Details),
		})
		if err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// cell keeps a spreadsheet from taking a text for a formula.
func cell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
