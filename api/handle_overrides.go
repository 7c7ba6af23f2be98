package api

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"sluice/rules"
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

func writeOverride(c echo.Context, status int, o *rules.Override) error {
	c.Response().Header().Set("ETag", etag(o.Version))
	return writeJSON(c, status, o)
}

// setOptions returns the prefix lengths of addresses in keys.
func (s *Server) setOptions() rules.Options {
	if set := s.deps.Checker.Set(); set != nil {
		return set.Options()
	}
	return rules.Options{}
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
		AfterID: q.pageToken(),
	}
	if err := q.err(); err != nil {
		return err
	}
	r, err := s.deps.Rules.GetRule(c.Request().Context(), id)
	if err != nil {
		return err
	}
	if q.values.Has("key") {
		key, err := rules.ParseOverrideKey(r.Scope, s.setOptions(), q.values.Get("key"))
		if err != nil {
			return &rules.ValidationError{Fields: []rules.FieldError{{Field: "key", Message: err.Error()}}}
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
	if cond.includes(o.Version) {
		c.Response().Header().Set("ETag", etag(o.Version))
		return c.NoContent(http.StatusNotModified)
	}
	return writeOverride(c, http.StatusOK, &o)
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
	s.changed(c)
	c.Response().Header().Set("Location",
		"/ratelimit/rules/"+strconv.FormatInt(rule, 10)+"/overrides/"+strconv.FormatInt(o.ID, 10))
	return writeOverride(c, http.StatusCreated, &o)
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
	if err != nil {
		return err
	}
	s.changed(c)
	return writeOverride(c, http.StatusOK, &o)
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
	if err := s.deps.OverrideWriter.DeleteOverride(c.Request().Context(), actor(c), rule, id, version); err != nil {
		return err
	}
	s.changed(c)
	return c.NoContent(http.StatusNoContent)
}

// checkOverrideVersion is checkRuleVersion for overrides.
func (s *Server) checkOverrideVersion(c echo.Context, rule, id int64) (int64, error) {
	cond, err := parseCondition(c, "If-Match")
	if err != nil || !cond.given {
		return 0, err
	}
	o, err := s.deps.Overrides.GetOverride(c.Request().Context(), rule, id)
	if err != nil {
		return 0, err
	}
	if !cond.permits(o.Version) {
		return 0, rules.ErrStale
	}
	if cond.any {
		return 0, nil
	}
	return o.Version, nil
}
