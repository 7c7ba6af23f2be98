package api

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"sluice/api/decide"
	"sluice/rules"
	"sluice/rules/field"
	"sluice/rules/profile"
)

// objects are the handlers of a kind of objects that people know by name.
type objects[T any] struct {
	kind  *rules.Kind[T]
	store func(*Deps) rules.Store[T]
	// keeps says why the name in a path cannot change.
	keeps string
	// live returns an object with its state, which GET shows instead of the object alone. It is nil
	// for objects without a state.
	live func(*Server, echo.Context, *T) any
	// shows are members that only responses have. A whole object may contain them.
	shows []string
	// apart: they are no part of the rules, so that a change is not followed by a new set.
	apart bool
}

var pools = objects[rules.Pool]{
	kind: rules.PoolKind, store: func(d *Deps) rules.Store[rules.Pool] { return d.Pools },
	keeps: "rules refer to the pool by its name", live: poolState,
}

var profiles = objects[profile.Profile]{
	kind: rules.ProfileKind, store: func(d *Deps) rules.Store[profile.Profile] { return d.Profiles },
	keeps: "gateways use it in their URL",
}

// poolAnswer is a pool with its current usage.
type poolAnswer struct {
	rules.Pool
	decide.PoolState
}

// poolState returns a pool with its current usage.
func poolState(s *Server, c echo.Context, p *rules.Pool) any {
	state := decide.PoolState{Capacity: p.Limit}
	if set := s.deps.Checker.Set(); set != nil && set.Pool(p.Name) != nil {
		state = s.deps.Checker.PoolState(c.Request().Context(), set.Pool(p.Name))
	}
	return poolAnswer{*p, state}
}

func (o *objects[T]) list(s *Server, c echo.Context) error {
	list, err := o.store(&s.deps).List(c.Request().Context())
	if err != nil {
		return err
	}
	return writeJSON(c, http.StatusOK, map[string][]T{o.kind.Plural(): append([]T{}, list...)})
}

// get ignores If-None-Match for objects with a state: that changes with every request, the version
// only with edits.
func (o *objects[T]) get(s *Server, c echo.Context) error {
	var cond condition
	var err error
	if o.live == nil {
		if cond, err = parseCondition(c, "If-None-Match"); err != nil {
			return err
		}
	}
	t, err := o.store(&s.deps).Get(c.Request().Context(), c.Param("name"))
	if err != nil {
		return err
	}
	if o.live != nil {
		return writeVersion(c, http.StatusOK, o.live(s, c, &t), o.kind.Version(&t))
	}
	return found(c, cond, &t, o.kind.Version(&t))
}

func (o *objects[T]) create(s *Server, c echo.Context) error {
	t, err := o.read(c, "")
	if err != nil {
		return err
	}
	if t, err = o.store(&s.deps).Create(c.Request().Context(), actor(c), t); err != nil {
		return err
	}
	path := "/ratelimit/" + o.kind.Plural() + "/" + o.kind.Name(&t)
	if o.apart {
		c.Response().Header().Set("Location", path)
		return writeVersion(c, http.StatusCreated, &t, o.kind.Version(&t))
	}
	return s.created(c, path, &t, o.kind.Version(&t))
}

func (o *objects[T]) put(s *Server, c echo.Context) error {
	t, err := o.read(c, c.Param("name"))
	if err != nil {
		return err
	}
	version, err := o.checkVersion(s, c)
	if err != nil {
		return err
	}
	t, err = o.store(&s.deps).Update(c.Request().Context(), actor(c), t, version)
	if o.apart && err == nil {
		return writeVersion(c, http.StatusOK, &t, o.kind.Version(&t))
	}
	return s.wrote(c, &t, o.kind.Version(&t), err)
}

func (o *objects[T]) delete(s *Server, c echo.Context) error {
	version, err := o.checkVersion(s, c)
	if err != nil {
		return err
	}
	err = o.store(&s.deps).Delete(c.Request().Context(), actor(c), c.Param("name"), version)
	if o.apart && err == nil {
		return c.NoContent(http.StatusNoContent)
	}
	return s.deleted(c, err)
}

func (o *objects[T]) checkVersion(s *Server, c echo.Context) (int64, error) {
	return s.checkVersion(c, func() (int64, error) {
		t, err := o.store(&s.deps).Get(c.Request().Context(), c.Param("name"))
		return o.kind.Version(&t), err
	})
}

// read reads a whole object from the body. name is the name in the path, or "" for a new object.
func (o *objects[T]) read(c echo.Context, name string) (T, error) {
	body, err := readJSON(c)
	if err != nil {
		return *new(T), err
	}
	return o.decode(body, name)
}

func (o *objects[T]) decode(body []byte, name string) (T, error) {
	t := o.kind.New()
	v, err := parseJSON(body)
	if err != nil {
		return t, err
	}
	own := o.kind.Identity(&t).Name
	*own = name
	var in input
	for i := range o.kind.Fields {
		if f := &o.kind.Fields[i]; f.Required && v.Member(f.Name) == nil && (f.Name != "name" || name == "") {
			in.wrong(f.Name, "is required")
		}
	}
	if err := decodeMembers(&in, v, &t, o.kind.Fields, o.shows...); err != nil {
		return t, err
	}
	if name != "" && *own != name && field.ValidName(*own) {
		in.wrong("name", "must be the name in the path, or omitted; %s", o.keeps)
	}
	o.kind.Normalize(&t)
	return t, in.addValidation(o.kind.Validate(&t))
}
