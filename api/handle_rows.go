package api

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/history"
)

// Figures takes what nodes at a read replica of the rules database decided.
type Figures interface {
	WriteStats(ctx context.Context, rows []history.LiveRow) (leftOut int, err error)
}

// rowsReceipt is the response to POST /ratelimit/regions/history.
type rowsReceipt struct {
	Written int `json:"written"`
	LeftOut int `json:"left_out"`
}

// takeFigures stores rows of figures of nodes at a read replica.
func (s *Server) takeFigures(c echo.Context) error {
	if err := contentType(c, history.MediaType); err != nil {
		return err
	}
	body, err := readBody(c, history.MaxBody, nil)
	if err != nil {
		return err
	}
	rows, err := history.DecodeRows(body, history.MaxWritten)
	if err != nil {
		return reply.Malformed.Problem("The body is not usable: " + err.Error() + ".")
	}
	leftOut, err := s.deps.Figures.WriteStats(c.Request().Context(), rows)
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, rowsReceipt{len(rows) - leftOut, leftOut})
}
