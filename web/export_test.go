package web

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
	"sluice/web/kit"
)

// WithErase serves the console and one act more that cannot be undone, by POST
// /console/erase with the field what.
func (s *Server) WithErase() http.Handler {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect()
	s.Routes(e)
	e.POST("/console/erase", s.kit.Wrap(&Route{
		Method: http.MethodPost, Path: "/console/erase", Role: access.RoleAdmin,
		Reauth: func(_ *kit.Visit, form url.Values) (string, error) { return "erase " + form.Get("what"), nil },
		Handle: func(v *kit.Visit) error {
			form, err := v.Form()
			if err != nil {
				return err
			}
			v.Flash("erased %s, %d fields", form.Get("what"), len(form))
			return v.SeeOther(kit.PathHome)
		},
	}))
	e.GET("/console/panic", s.kit.Wrap(&Route{Method: http.MethodGet, Path: "/console/panic",
		Handle: func(*kit.Visit) error { panic("on purpose") }}))
	return e
}

// MaxStreams is how many streams a node serves at once.
const MaxStreams = kit.MaxStreams

// FillStreams takes places of streams, or with a negative number gives them back.
func (s *Server) FillStreams(n int64) { s.kit.Streams.Add(n) }
