package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/rules"
)

// poolAnswer is a pool with its current usage.
type poolAnswer struct {
	rules.Pool
	*decide.PoolState
}

func (s *Server) writePool(c echo.Context, status int, p *rules.Pool) error {
	c.Response().Header().Set("ETag", etag(p.Version))
	return writeJSON(c, status, poolAnswer{Pool: *p})
}

func (s *Server) listPools(c echo.Context) error {
	pools, err := s.deps.Pools.ListPools(c.Request().Context())
	if err != nil {
		return err
	}
	page := struct {
		Pools []poolAnswer `json:"pools"`
	}{make([]poolAnswer, len(pools))}
	for i := range pools {
		page.Pools[i] = poolAnswer{Pool: pools[i]}
	}
	return writeJSON(c, http.StatusOK, page)
}

// getPool ignores If-None-Match: the usage of a pool changes with every request, its
// version only with edits.
func (s *Server) getPool(c echo.Context) error {
	p, err := s.deps.Pools.GetPool(c.Request().Context(), c.Param("name"))
	if err != nil {
		return err
	}
	state := decide.PoolState{Capacity: p.Limit}
	if set := s.deps.Checker.Set(); set != nil && set.Pool(p.Name) != nil {
		state = s.deps.Checker.PoolState(c.Request().Context(), set.Pool(p.Name))
	}
	c.Response().Header().Set("ETag", etag(p.Version))
	return writeJSON(c, http.StatusOK, poolAnswer{p, &state})
}

func (s *Server) createPool(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	p, err := decodePool(body, "")
	if err != nil {
		return err
	}
	p, err = s.deps.Pools.CreatePool(c.Request().Context(), actor(c), p)
	if err != nil {
		return err
	}
	s.changed(c)
	c.Response().Header().Set("Location", "/ratelimit/pools/"+p.Name)
	return s.writePool(c, http.StatusCreated, &p)
}

func (s *Server) putPool(c echo.Context) error {
	body, err := readJSON(c)
	if err != nil {
		return err
	}
	p, err := decodePool(body, c.Param("name"))
	if err != nil {
		return err
	}
	version, err := s.checkPoolVersion(c)
	if err != nil {
		return err
	}
	p, err = s.deps.Pools.UpdatePool(c.Request().Context(), actor(c), p, version)
	if err != nil {
		return err
	}
	s.changed(c)
	return s.writePool(c, http.StatusOK, &p)
}

func (s *Server) deletePool(c echo.Context) error {
	version, err := s.checkPoolVersion(c)
	if err != nil {
		return err
	}
	if err := s.deps.Pools.DeletePool(c.Request().Context(), actor(c), c.Param("name"), version); err != nil {
		return err
	}
	s.changed(c)
	return c.NoContent(http.StatusNoContent)
}

// checkPoolVersion is checkRuleVersion for pools.
func (s *Server) checkPoolVersion(c echo.Context) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		p, err := s.deps.Pools.GetPool(c.Request().Context(), c.Param("name"))
		return p.Version, err
	})
}

// decodePool reads a whole pool. name is the name in the path, or "" for a new pool.
func decodePool(body []byte, name string) (rules.Pool, error) {
	p := rules.NewPool()
	in, err := decodeNamed(body, name, &p, &p.Name, rules.PoolFields(), rules.PoolFieldNamed,
		"rules refer to the pool by its name")
	if err != nil {
		return p, err
	}
	p.Normalize()
	return p, in.addValidation(rules.ValidatePool(&p))
}

// decodeNamed reads the members of an object that is known by its name. own is the place of that
// name in t. why says why a name in the path cannot change.
func decodeNamed[T any](body []byte, name string, t *T, own *string, fields []rules.Field[T],
	named func(string) *rules.Field[T], why string) (*input, error) {
	v, err := parseJSON(body)
	if err != nil {
		return nil, err
	}
	*own = name
	var in input
	for i := range fields {
		if f := &fields[i]; f.Required && v.Member(f.Name) == nil && (f.Name != "name" || name == "") {
			in.wrong(f.Name, "is required")
		}
	}
	if err := decodeMembers(&in, v, t, named); err != nil {
		return nil, err
	}
	if name != "" && *own != name && rules.ValidPoolName(*own) {
		in.wrong("name", "must be the name in the path, or omitted; %s", why)
	}
	return &in, nil
}
