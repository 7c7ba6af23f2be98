package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/rules"
)

func writeProfile(c echo.Context, status int, p *rules.Profile) error {
	c.Response().Header().Set("ETag", etag(p.Version))
	return writeJSON(c, status, p)
}

func (s *Server) listProfiles(c echo.Context) error {
	list, err := s.deps.Profiles.ListProfiles(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, struct {
		Profiles []rules.Profile `json:"profiles"`
	}{append([]rules.Profile{}, list...)})
}

func (s *Server) getProfile(c echo.Context) error {
	cond, err := parseCondition(c, "If-None-Match")
	if err != nil {
		return err
	}
	p, err := s.deps.Profiles.GetProfile(c.Request().Context(), c.Param("name"))
	if err != nil {
		return err
	}
	if cond.includes(p.Version) {
		c.Response().Header().Set("ETag", etag(p.Version))
		return c.NoContent(http.StatusNotModified)
	}
	return writeProfile(c, http.StatusOK, &p)
}

func (s *Server) createProfile(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	p, err := decodeProfile(body, "")
	if err != nil {
		return err
	}
	p, err = s.deps.Profiles.CreateProfile(c.Request().Context(), actor(c), p)
	if err != nil {
		return err
	}
	s.changed(c)
	c.Response().Header().Set("Location", "/ratelimit/profiles/"+p.Name)
	return writeProfile(c, http.StatusCreated, &p)
}

func (s *Server) putProfile(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	p, err := decodeProfile(body, c.Param("name"))
	if err != nil {
		return err
	}
	version, err := s.checkProfileVersion(c)
	if err != nil {
		return err
	}
	p, err = s.deps.Profiles.UpdateProfile(c.Request().Context(), actor(c), p, version)
	if err != nil {
		return err
	}
	s.changed(c)
	return writeProfile(c, http.StatusOK, &p)
}

func (s *Server) deleteProfile(c echo.Context) error {
	version, err := s.checkProfileVersion(c)
	if err != nil {
		return err
	}
	if err := s.deps.Profiles.DeleteProfile(c.Request().Context(), actor(c), c.Param("name"), version); err != nil {
		return err
	}
	s.changed(c)
	return c.NoContent(http.StatusNoContent)
}

// checkProfileVersion is checkRuleVersion for profiles.
func (s *Server) checkProfileVersion(c echo.Context) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		p, err := s.deps.Profiles.GetProfile(c.Request().Context(), c.Param("name"))
		return p.Version, err
	})
}

// decodeProfile reads a whole profile. name is as for decodePool.
func decodeProfile(body []byte, name string) (rules.Profile, error) {
	p := rules.NewProfile()
	in, err := decodeNamed(body, name, &p, &p.Name, rules.ProfileFields(), rules.ProfileFieldNamed,
		"gateways use it in their URL")
	if err != nil {
		return p, err
	}
	p.Normalize()
	return p, in.addValidation(rules.ValidateProfile(&p))
}
