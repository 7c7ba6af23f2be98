package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/internal/access"
)

// WithErase serves the console and one act more that cannot be undone, by POST
// /console/erase with the field what.
func (s *Server) WithErase() http.Handler {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect()
	s.Routes(e)
	e.POST("/console/erase", s.wrap(&Route{
		Method: http.MethodPost, Path: "/console/erase", Role: access.RoleAdmin, Reauth: true,
		handle: func(_ *Server, v *visit) error {
			form, err := v.form()
			if err != nil {
				return err
			}
			v.flash("erased %s, %d fields", form.Get("what"), len(form))
			return v.redirect(pathHome)
		},
	}))
	e.GET("/console/panic", s.wrap(&Route{Method: http.MethodGet, Path: "/console/panic", handle: func(*Server, *visit) error { panic("on purpose") }}))
	return e
}

// What the form of a rule is made of.
var (
	RuleOf   = ruleOf
	ValuesOf = valuesOf
	Simulate = simulate
)

// MaxStreams is how many streams a node serves at once.
const MaxStreams = maxStreams

// FillStreams takes places of streams, or with a negative number gives them back.
func (s *Server) FillStreams(n int64) { s.streams.Add(n) }
