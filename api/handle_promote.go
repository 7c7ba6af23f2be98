package api

import (
	"net/http"

	"github.com/labstack/echo/v4"
)

// promoteRule makes the candidate the limit of the rule, or enforces a shadow rule.
func (s *Server) promoteRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	version, err := s.checkRuleVersion(c, id)
	if err != nil {
		return err
	}
	r, err := s.deps.History.PromoteRule(c.Request().Context(), actor(c), id, version)
	if err != nil {
		return err
	}
	s.changed(c)
	return writeRule(c, http.StatusOK, &r)
}
