package api

import (
	"errors"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/rules"
)

const mediaMergePatch = "application/merge-patch+json"

// ruleID reads the id of the path. An invalid id is not found.
func ruleID(c echo.Context) (int64, error) {
	switch c.Param("id") {
	case "export":
		return 0, notAllowed(c, "OPTIONS, GET, HEAD")
	case "import":
		return 0, notAllowed(c, "OPTIONS, POST")
	}
	id, err := strconv.ParseInt(c.Param("id"), 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != c.Param("id") {
		return 0, rules.ErrNotFound
	}
	return id, nil
}

// notAllowed rejects the methods of {id} for fixed paths such as export.
func notAllowed(c echo.Context, allow string) error {
	c.Response().Header().Set(echo.HeaderAllow, allow)
	return echo.ErrMethodNotAllowed
}

func (s *Server) getRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	cond, err := parseCondition(c, "If-None-Match")
	if err != nil {
		return err
	}
	r, err := s.deps.Rules.GetRule(c.Request().Context(), id)
	if err != nil {
		return err
	}
	return found(c, cond, &r, r.Version)
}

func (s *Server) createRule(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	r, err := decodeRule(body, 0)
	if err != nil {
		return err
	}
	s.deps.FailDefaults.Fill(&r)
	r, err = s.deps.Writer.CreateRule(c.Request().Context(), actor(c), r)
	if err != nil {
		return err
	}
	return s.created(c, "/ratelimit/rules/"+strconv.FormatInt(r.ID, 10), &r, r.Version)
}

func (s *Server) putRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	r, err := decodeRule(body, id)
	if err != nil {
		return err
	}
	s.deps.FailDefaults.Fill(&r)
	version, err := s.checkRuleVersion(c, id)
	if err != nil {
		return err
	}
	return s.update(c, r, version)
}

func (s *Server) update(c echo.Context, r rules.Rule, version int64) error {
	r, err := s.deps.Writer.UpdateRule(c.Request().Context(), actor(c), r, version)
	return s.wrote(c, &r, r.Version, err)
}

// patchAttempts is how often a patch without If-Match is tried if other changes come
// between its read and its write.
const patchAttempts = 5

func (s *Server) patchRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	if err := contentType(c, mediaMergePatch, mediaJSON); err != nil {
		return err
	}
	body, err := readBody(c, maxBody, nil)
	if err != nil {
		return err
	}
	cond, err := parseCondition(c, "If-Match")
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		r, err := s.deps.Rules.GetRule(c.Request().Context(), id)
		if err != nil {
			return err
		}
		if !cond.permits(r.Version) {
			return rules.ErrStale
		}
		version := r.Version
		if err := decodePatch(body, &r); err != nil {
			return err
		}
		s.deps.FailDefaults.Fill(&r) // for null
		r.FailFrom = ""
		err = s.update(c, r, version)
		if errors.Is(err, rules.ErrStale) && try < patchAttempts {
			continue
		}
		return err
	}
}

func (s *Server) deleteRule(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	version, err := s.checkRuleVersion(c, id)
	if err != nil {
		return err
	}
	return s.deleted(c, s.deps.Writer.DeleteRule(c.Request().Context(), actor(c), id, version))
}

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
	return s.wrote(c, &r, r.Version, err)
}
