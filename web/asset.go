package web

import (
	"bytes"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"sluice/web/static"
)

// asset serves a file whose name carries its hash, for ever.
func (s *Server) asset(c echo.Context) error {
	h := c.Response().Header()
	secure(h, s.encrypted(c.Request()))
	a, ok := static.Find(c.Request().URL.Path)
	if !ok {
		return c.String(http.StatusNotFound, "no such file\n")
	}
	h.Set("Content-Type", a.Type)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Add("Vary", "Accept-Encoding")
	body := a.Body
	if a.Packed != nil && acceptsGzip(c.Request()) {
		h.Set("Content-Encoding", "gzip")
		body = a.Packed
	}
	http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(body))
	return nil
}
