package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/match"
)

// overridePage is the response to GET …/overrides.
type overridePage struct {
	Overrides     []rules.Override `json:"overrides"`
	NextPageToken string           `json:"next_page_token"`
}

// overrideID reads both ids of the path. An invalid id is not found.
func overrideID(c echo.Context) (rule, id int64, err error) {
	if rule, err = ruleID(c); err != nil {
		return 0, 0, err
	}
	switch c.Param("oid") {
	case "export":
		return 0, 0, notAllowed(c, "OPTIONS, GET, HEAD")
	case "import":
		return 0, 0, notAllowed(c, "OPTIONS, POST")
	}
	id, err = strconv.ParseInt(c.Param("oid"), 10, 64)
	if err != nil || id < 1 || strconv.FormatInt(id, 10) != c.Param("oid") {
		return 0, 0, rules.ErrNotFound
	}
	return rule, id, nil
}

// setOptions returns the prefix lengths of addresses in keys.
func (s *Server) setOptions() match.Options {
	if set := s.deps.Checker.Set(); set != nil {
		return set.Options()
	}
	return match.Options{}
}

func (s *Server) listOverrides(c echo.Context) error {
	id, err := ruleID(c)
	if err != nil {
		return err
	}
	q, err := parseQuery(c, "q", "key", "include_expired", "page_size", "page_token")
	if err != nil {
		return err
	}
	ended := q.boolean("include_expired")
	want := rules.OverrideQuery{
		RuleID: id, Text: q.values.Get("q"), IncludeExpired: ended != nil && *ended, PageSize: q.pageSize(),
		Around: s.setOptions().NetworksAround(q.values.Get("q")), AfterID: q.pageToken(),
	}
	if err := q.err(); err != nil {
		return err
	}
	r, err := s.deps.Rules.GetRule(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if q.values.Has("key") {
		key, err := match.ReadOverrideKey(&r, s.setOptions(), q.values.Get("key"))
		if err != nil {
			return &field.ValidationError{Fields: []field.Problem{{Field: "key", Message: err.Error()}}}
		}
		want.Match, want.Prefix = key.Match, key.Prefix
	}
	p, err := s.deps.Overrides.ListOverrides(c.Request().Context(), want)
	if err != nil {
		return err
	}
	page := overridePage{Overrides: p.Overrides}
	if page.Overrides == nil {
		page.Overrides = []rules.Override{}
	}
	if n := len(p.Overrides); p.More && n > 0 {
		page.NextPageToken = pageToken(p.Overrides[n-1].ID)
	}
	return writeJSON(c, http.StatusOK, page)
}

func (s *Server) getOverride(c echo.Context) error {
	rule, id, err := overrideID(c)
	if err != nil {
		return err
	}
	cond, err := parseCondition(c, "If-None-Match")
	if err != nil {
		return err
	}
	o, err := s.deps.Overrides.GetOverride(c.Request().Context(), rule, id)
	if err != nil {
		return err
	}
	return found(c, cond, &o, o.Version)
}

func (s *Server) createOverride(c echo.Context) error {
	rule, err := ruleID(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	o, err := decodeOverride(body, rule, 0)
	if err != nil {
		return err
	}
	o, err = s.deps.OverrideWriter.CreateOverride(c.Request().Context(), actor(c), o, s.setOptions())
	if err != nil {
		return err
	}
	return s.created(c, "/ratelimit/rules/"+strconv.FormatInt(rule, 10)+"/overrides/"+strconv.FormatInt(o.ID, 10), &o,
		o.Version)
}

func (s *Server) putOverride(c echo.Context) error {
	rule, id, err := overrideID(c)
	if err != nil {
		return err
	}
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	o, err := decodeOverride(body, rule, id)
	if err != nil {
		return err
	}
	version, err := s.checkOverrideVersion(c, rule, id)
	if err != nil {
		return err
	}
	o, err = s.deps.OverrideWriter.UpdateOverride(c.Request().Context(), actor(c), o, version, s.setOptions())
	return s.wrote(c, &o, o.Version, err)
}

func (s *Server) deleteOverride(c echo.Context) error {
	rule, id, err := overrideID(c)
	if err != nil {
		return err
	}
	version, err := s.checkOverrideVersion(c, rule, id)
	if err != nil {
		return err
	}
	return s.deleted(c, s.deps.OverrideWriter.DeleteOverride(c.Request().Context(), actor(c), rule, id, version))
}

// checkOverrideVersion is checkRuleVersion for overrides.
func (s *Server) checkOverrideVersion(c echo.Context, rule, id int64) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		o, err := s.deps.Overrides.GetOverride(c.Request().Context(), rule, id)
		return o.Version, err
	})
}
