package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/internal/region"
	"sluice/internal/region/home"
	"sluice/rules"
)

// RegionAsks answers what other regions ask about keys that are at home in this one.
type RegionAsks interface {
	Receive(ctx context.Context, body []byte) ([]byte, error)
}

// answerRegion carries out what another region asks.
func (s *Server) answerRegion(c echo.Context) error {
	body, err := readBody(c, region.MaxMessage, nil)
	if err != nil {
		return err
	}
	answer, err := s.deps.RegionAsks.Receive(c.Request().Context(), body)
	var refused *region.RefusedError
	switch {
	case err == nil:
		return c.Blob(http.StatusOK, home.MediaType, answer)
	case errors.Is(err, region.ErrMessage):
		return reply.Malformed.Problem("The body is " + err.Error() + ".")
	case errors.As(err, &refused):
		return &rules.ValidationError{Fields: []rules.FieldError{{Field: refused.Field, Message: refused.Message}}}
	case errors.Is(err, home.ErrBusy):
		return reply.StoreUnavailable.Problem("Nothing was carried out: "+err.Error()+".").With("Retry-After", "1")
	}
	return err
}
