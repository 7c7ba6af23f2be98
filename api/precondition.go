package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"sluice/api/reply"
	"sluice/rules"
)

// etag returns the strong entity tag of a version.
func etag(version int64) string { return `"` + strconv.FormatInt(version, 10) + `"` }

// condition is an If-Match or If-None-Match header.
type condition struct {
	given bool
	any   bool     // *
	tags  []string // with their quotes; weak ones with W/
}

// parseCondition reads a list of entity tags (RFC 9110, section 8.8.3).
func parseCondition(c echo.Context, header string) (condition, error) {
	values := c.Request().Header.Values(header)
	if len(values) == 0 {
		return condition{}, nil
	}
	cond := condition{given: true}
	rest := strings.TrimSpace(strings.Join(values, ","))
	if rest == "*" {
		cond.any = true
		return cond, nil
	}
	for rest != "" {
		tag := strings.TrimPrefix(rest, "W/")
		weak := len(rest) - len(tag)
		end := -1
		if strings.HasPrefix(tag, `"`) {
			end = strings.IndexByte(tag[1:], '"')
		}
		if end < 0 {
			return cond, reply.Malformed.Problem("The header " + header +
				` must be * or a list of entity tags in quotes, such as "3".`)
		}
		n := weak + end + 2
		cond.tags = append(cond.tags, rest[:n])
		rest = strings.TrimLeft(rest[n:], " \t")
		if rest != "" && rest[0] != ',' {
			return cond, reply.Malformed.Problem("The entity tags of " + header + " must be separated by commas.")
		}
		rest = strings.TrimLeft(rest, ", \t")
	}
	return cond, nil
}

// permits reports whether If-Match allows a change of the given version. A weak tag never
// matches.
func (cond condition) permits(version int64) bool {
	if !cond.given || cond.any {
		return true
	}
	for _, t := range cond.tags {
		if t == etag(version) {
			return true
		}
	}
	return false
}

// includes is the weak comparison of If-None-Match.
func (cond condition) includes(version int64) bool {
	if !cond.given {
		return false
	}
	for _, t := range cond.tags {
		if strings.TrimPrefix(t, "W/") == etag(version) {
			return true
		}
	}
	return cond.any
}

// found answers a GET with an object of a version, or with 304 if the client has it.
func found(c echo.Context, cond condition, t any, version int64) error {
	if cond.includes(version) {
		c.Response().Header().Set("ETag", etag(version))
		return c.NoContent(http.StatusNotModified)
	}
	return writeVersion(c, http.StatusOK, t, version)
}

// writeVersion answers with an object and its version.
func writeVersion(c echo.Context, status int, t any, version int64) error {
	c.Response().Header().Set("ETag", etag(version))
	return writeJSON(c, status, t)
}

// wrote answers a change with the object as it is now, unless the change failed.
func (s *Server) wrote(c echo.Context, t any, version int64, err error) error {
	if err != nil {
		return err
	}
	s.changed(c)
	return writeVersion(c, http.StatusOK, t, version)
}

// created is wrote for a new object at a path.
func (s *Server) created(c echo.Context, path string, t any, version int64) error {
	s.changed(c)
	c.Response().Header().Set("Location", path)
	return writeVersion(c, http.StatusCreated, t, version)
}

// deleted answers a deletion, unless it failed.
func (s *Server) deleted(c echo.Context, err error) error {
	if err != nil {
		return err
	}
	s.changed(c)
	return c.NoContent(http.StatusNoContent)
}

// checkRuleVersion returns the version that a change requires according to If-Match, 0
// for any, or an error if If-Match does not allow the change. It reads the rule only if
// the header is present.
func (s *Server) checkRuleVersion(c echo.Context, id int64) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		r, err := s.deps.Rules.GetRule(c.Request().Context(), id)
		return r.Version, err
	})
}

// checkVersion is checkRuleVersion for any object; present returns its version.
func (s *Server) checkVersion(c echo.Context, present func() (int64, error)) (int64, error) {
	cond, err := parseCondition(c, "If-Match")
	if err != nil || !cond.given {
		return 0, err
	}
	version, err := present()
	if err != nil {
		return 0, err
	}
	if !cond.permits(version) {
		return 0, rules.ErrStale
	}
	if cond.any {
		return 0, nil
	}
	return version, nil
}
