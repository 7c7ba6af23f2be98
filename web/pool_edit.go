package web

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"sluice/rules"
	"sluice/web/view"
)

// newPool is the form for another pool.
func (s *Server) newPool(v *visit) error {
	p := rules.NewPool()
	p.WindowMS = 60_000
	return s.poolForm(v, http.StatusOK, view.PoolForm{Form: view.NewForm(poolValues(&p), nil)})
}

// editPool is the form of a pool there is.
func (s *Server) editPool(v *visit) error {
	p, err := s.deps.Live.Pools.GetPool(v.ctx, v.Param("name"))
	if err != nil {
		return err
	}
	return s.poolForm(v, http.StatusOK, view.PoolForm{Name: p.Name, Form: view.NewForm(poolValues(&p), nil)})
}

func (s *Server) poolForm(v *visit, status int, m view.PoolForm) error {
	title := "New pool"
	if m.Name != "" {
		title = "Pool " + m.Name
	}
	return v.page(status, view.PoolPage(v.frame(title, pathPools), m))
}

func poolValues(p *rules.Pool) url.Values {
	text := func(n int64) []string {
		if n == 0 && p.Version == 0 {
			return []string{""}
		}
		return []string{strconv.FormatInt(n, 10)}
	}
	form := url.Values{
		"name": {p.Name}, "description": {p.Description}, "limit": text(p.Limit),
		"normal_percent": text(p.NormalPercent), "low_percent": text(p.LowPercent), "version": text(p.Version),
	}
	putMillis(form, "window_ms", &p.WindowMS)
	return form
}

// readPool reads the form.
func readPool(form url.Values) (rules.Pool, []rules.FieldError) {
	p := rules.NewPool()
	rd := &ruleReader{form: form}
	readFields(rd, "", rules.PoolFields(), &p)
	p.Normalize()
	return p, rd.errs
}

// savePool stores what was typed into either form.
func (s *Server) savePool(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	m := view.PoolForm{Name: v.Param("name")}
	if m.Name != "" {
		form.Set("name", m.Name)
	}
	p, fields := readPool(form)
	if err := rules.ValidatePool(&p); len(fields) == 0 && err != nil {
		var invalid *rules.ValidationError
		if errors.As(err, &invalid) {
			fields = invalid.Fields
		}
	}
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 {
		if m.Name == "" {
			p, err = s.deps.Live.PoolWriter.CreatePool(v.ctx, v.actor(), p)
		} else {
			p, err = s.deps.Live.PoolWriter.UpdatePool(v.ctx, v.actor(), p, version(form))
		}
		switch {
		case err == nil:
			s.changed(v, s.deps.Changed)
			v.flash("Pool %s saved.", p.Name)
			return v.redirect(pathPools)
		case errors.Is(err, rules.ErrNameTaken):
			fields, status = []rules.FieldError{{Field: "name", Message: "is another pool's"}}, http.StatusConflict
		case errors.Is(err, rules.ErrStale):
			status = http.StatusConflict
			theirs, err := s.deps.Live.Pools.GetPool(v.ctx, m.Name)
			if isNotFound(err) {
				m.Name, m.Problem = "", goneMeanwhile
				break
			}
			if err != nil {
				return err
			}
			ours := p
			m.Changes = rules.DiffPool(&theirs, &ours)
			form.Set("version", strconv.FormatInt(theirs.Version, 10))
		case isNotFound(err) && m.Name != "":
			m.Name, m.Problem, status = "", goneMeanwhile, http.StatusConflict
		case errors.Is(err, rules.ErrUnavailable):
			m.Problem, status = problemOf(err).detail+notSaved, http.StatusServiceUnavailable
		default:
			return err
		}
	}
	m.Form = view.NewForm(form, fields)
	return s.poolForm(v, status, m)
}

// deletePool removes a pool that no rule names.
func (s *Server) deletePool(v *visit) error {
	form, err := v.form()
	if err != nil {
		return err
	}
	name := v.Param("name")
	err = s.deps.Live.PoolWriter.DeletePool(v.ctx, v.actor(), name, version(form))
	if errors.Is(err, rules.ErrPoolUsed) {
		return &problem{http.StatusConflict, "Rules use this pool", "Rules name the pool " + name + ". Take it out of them first, then delete it."}
	}
	if err != nil {
		return err
	}
	s.changed(v, s.deps.Changed)
	v.flash("The pool %s is gone.", name)
	return v.redirect(pathPools)
}
