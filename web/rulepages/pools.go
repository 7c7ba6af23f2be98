package rulepages

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/rules"
	"sluice/web/kit"
	"sluice/web/view"
)

// listPools shows the capacity of pools and how much of it is in use.
func (p *Pages) listPools(v *kit.Visit) error {
	pools, err := p.Pools.ListPools(v.Ctx)
	if err != nil {
		return err
	}
	set := p.Sets.Load()
	lines := make([]PoolLine, len(pools))
	for i := range pools {
		lines[i] = PoolLine{Pool: pools[i], State: PoolState{Capacity: pools[i].Limit}}
		if set == nil {
			continue
		}
		if pool := set.Pool(pools[i].Name); pool != nil {
			lines[i].State = p.PoolState(v.Ctx, pool)
		}
		for n := range set.Len() {
			if c := set.At(n); c.Pool != nil && c.Pool.Pool.Name == pools[i].Name {
				lines[i].Rules++
			}
		}
	}
	return v.Page(http.StatusOK, poolsPage(v.Frame("Pools", kit.PathPools), lines))
}

// PoolLine is a row of the table of pools.
type PoolLine struct {
	Pool  rules.Pool
	State PoolState
	// Rules is how many rules in force use the pool.
	Rules int64
}

// used is how many units of a pool are in use, 0 if unknown.
func used(s PoolState) int64 {
	if s.Used == nil {
		return 0
	}
	return *s.Used
}

// poolKind is the color for how full a pool is.
func poolKind(s PoolState) string {
	switch u := used(s); {
	case u*10 >= s.Capacity*9:
		return "bad"
	case u*10 >= s.Capacity*7:
		return "warn"
	}
	return "good"
}

// PoolState is the state of a pool.
type PoolState struct {
	// Used is in units, nil if unknown.
	Used     *int64
	Capacity int64
	// Load is the last reported load, nil if there is none or it has expired; LoadFor is how much longer it is valid.
	Load    *float64
	LoadFor time.Duration
}

// newPool is the form for a new pool.
func (p *Pages) newPool(v *kit.Visit) error {
	pool := rules.NewPool()
	pool.WindowMS = 60_000
	return p.poolForm(v, http.StatusOK, PoolForm{Form: view.NewForm(poolValues(&pool), nil)})
}

// editPool is the form of an existing pool.
func (p *Pages) editPool(v *kit.Visit) error {
	pool, err := p.Pools.GetPool(v.Ctx, v.Param("name"))
	if err != nil {
		return err
	}
	return p.poolForm(v, http.StatusOK, PoolForm{Name: pool.Name, Form: view.NewForm(poolValues(&pool), nil)})
}

func (p *Pages) poolForm(v *kit.Visit, status int, m PoolForm) error {
	title := "New pool"
	if m.Name != "" {
		title = "Pool " + m.Name
	}
	return v.Page(status, poolPage(v.Frame(title, kit.PathPools), m))
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

// savePool creates or updates a pool.
func (p *Pages) savePool(v *kit.Visit, form url.Values) error {
	m := PoolForm{Name: v.Param("name")}
	if m.Name != "" {
		form.Set("name", m.Name)
	}
	pool, fields := readPool(form)
	if len(fields) == 0 {
		fields = kit.FieldsOf(rules.ValidatePool(&pool))
	}
	status := http.StatusUnprocessableEntity
	if len(fields) == 0 {
		var err error
		if m.Name == "" {
			pool, err = p.Pools.CreatePool(v.Ctx, v.Actor(), pool)
		} else {
			pool, err = p.Pools.UpdatePool(v.Ctx, v.Actor(), pool, kit.Version(form))
		}
		if errors.Is(err, rules.ErrStale) {
			var theirs rules.Pool
			if theirs, err = p.Pools.GetPool(v.Ctx, m.Name); err == nil {
				return p.stalePool(v, form, m, &theirs, &pool)
			}
		}
		switch {
		case err == nil:
			v.WaitInForce(p.Changed)
			v.Flash("Pool %s saved.", pool.Name)
			return v.SeeOther(kit.PathPools)
		case errors.Is(err, rules.ErrNameTaken):
			fields, status = []rules.FieldError{{Field: "name", Message: "is already used by another pool"}}, http.StatusConflict
		case errors.Is(err, rules.ErrNotFound) && m.Name != "":
			m.Name, m.Problem, status = "", kit.DeletedMeanwhile, http.StatusConflict
		case errors.Is(err, rules.ErrUnavailable):
			m.Problem, status = kit.NotSaved(err), http.StatusServiceUnavailable
		default:
			return err
		}
	}
	m.Form = view.NewForm(form, fields)
	return p.poolForm(v, status, m)
}

// stalePool shows the form again with the differences to what someone else saved in the meantime. If there are none,
// nothing is left to save.
func (p *Pages) stalePool(v *kit.Visit, form url.Values, m PoolForm, theirs, ours *rules.Pool) error {
	if m.Changes = rules.DiffPool(theirs, ours); len(m.Changes) == 0 {
		v.Flash("Someone else has saved the same changes to pool %s.", m.Name)
		return v.SeeOther(kit.PathPools)
	}
	form.Set("version", strconv.FormatInt(theirs.Version, 10))
	m.Form = view.NewForm(form, nil)
	return p.poolForm(v, http.StatusConflict, m)
}

// deletePool deletes a pool that no rule uses.
func (p *Pages) deletePool(v *kit.Visit, form url.Values) error {
	name := v.Param("name")
	err := p.Pools.DeletePool(v.Ctx, v.Actor(), name, kit.Version(form))
	if errors.Is(err, rules.ErrPoolUsed) {
		return &kit.Problem{Status: http.StatusConflict, Title: "Rules use this pool",
			Detail: "Rules use the pool " + name + ". Remove it from these rules first, then delete it."}
	}
	if err != nil {
		return err
	}
	v.WaitInForce(p.Changed)
	v.Flash("Pool %s deleted.", name)
	return v.SeeOther(kit.PathPools)
}

// PoolForm is the form of a pool.
type PoolForm struct {
	// Name is empty for a new one.
	Name    string
	Form    view.Form
	Problem string
	// Changes are the differences between what someone else saved in the meantime and the form.
	Changes []rules.Change
}
