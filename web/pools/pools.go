package pools

import (
	"net/http"
	"net/url"
	"time"

	"sluice/rules"
	"sluice/rules/field"
	"sluice/web/bind"
	"sluice/web/kit"
	"sluice/web/view"
)

// list shows the capacity of pools and how much of it is in use.
func (p *Pages) list(v *kit.Visit) error {
	pools, err := p.Store.List(v.Ctx)
	if err != nil {
		return err
	}
	set := p.Sets.Load()
	lines := make([]Line, len(pools))
	for i := range pools {
		lines[i] = Line{Pool: pools[i], State: State{Capacity: pools[i].Limit}}
		if set == nil {
			continue
		}
		if pool := set.Pool(pools[i].Name); pool != nil {
			lines[i].State = p.State(v.Ctx, pool)
		}
		for n := range set.Len() {
			if c := set.At(n); c.Pool != nil && c.Pool.Pool.Name == pools[i].Name {
				lines[i].Rules++
			}
		}
	}
	return v.Page(http.StatusOK, listPage(v.Frame("Pools", kit.PathPools), lines))
}

// Line is a row of the table of pools.
type Line struct {
	Pool  rules.Pool
	State State
	// Rules is how many rules in force use the pool.
	Rules int64
}

// used is how many units of a pool are in use, 0 if unknown.
func used(s State) int64 {
	if s.Used == nil {
		return 0
	}
	return *s.Used
}

// fullness is the color for how full a pool is.
func fullness(s State) string {
	switch u := used(s); {
	case u*10 >= s.Capacity*9:
		return "bad"
	case u*10 >= s.Capacity*7:
		return "warn"
	}
	return "good"
}

// State is the state of a pool.
type State struct {
	// Used is in units, nil if unknown.
	Used     *int64
	Capacity int64
	// Load is the last reported load, nil if there is none or it has expired; LoadFor is how much longer it is valid.
	Load    *float64
	LoadFor time.Duration
}

// objects are the form of a pool, saving and deleting.
func (p *Pages) objects() *kit.Objects[rules.Pool] {
	return &kit.Objects[rules.Pool]{
		Kit: p.Kit, Kind: rules.PoolKind, Store: p.Store, List: kit.PathPools, Page: formPage, Values: values,
		New: start, Read: read, Differ: rules.DiffPool, Saved: func(string) string { return kit.PathPools },
	}
}

// start is the start of a new pool.
func start() rules.Pool {
	pool := rules.NewPool()
	pool.WindowMS = 60_000
	return pool
}

func values(p *rules.Pool) url.Values {
	text := func(n int64) []string {
		if n == 0 && p.Version == 0 {
			return []string{""}
		}
		return []string{view.Digits(n)}
	}
	form := url.Values{
		"name": {p.Name}, "description": {p.Description}, "limit": text(p.Limit),
		"normal_percent": text(p.NormalPercent), "low_percent": text(p.LowPercent), "version": text(p.Version),
	}
	bind.PutMillis(form, "window_ms", &p.WindowMS)
	if p.Shed {
		form.Set("shed", "on")
	}
	return form
}

// read reads the form and validates the pool.
func read(form url.Values) (rules.Pool, []field.Problem) {
	p := rules.NewPool()
	rd := &bind.Reader{Form: form}
	bind.Read(rd, "", rules.PoolKind.Fields, &p)
	p.Normalize()
	if len(rd.Errs) == 0 {
		rd.Errs = kit.FieldsOf(rules.ValidatePool(&p))
	}
	return p, rd.Errs
}
