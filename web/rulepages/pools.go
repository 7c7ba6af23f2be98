package rulepages

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"sluice/rules"
	"sluice/web/kit"
)

// listPools shows the capacity of pools and how much of it is in use.
func (p *Pages) listPools(v *kit.Visit) error {
	pools, err := p.Pools.List(v.Ctx)
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

// editPools are the form of a pool, saving and deleting.
func (p *Pages) editPools() *kit.Objects[rules.Pool] {
	return &kit.Objects[rules.Pool]{
		Kit: p.Kit, Kind: rules.PoolKind, Store: p.Pools, List: kit.PathPools, Page: poolPage, Values: poolValues,
		New: newPool, Read: readPool, Differ: rules.DiffPool, Saved: func(string) string { return kit.PathPools },
	}
}

// newPool is the start of a new pool.
func newPool() rules.Pool {
	pool := rules.NewPool()
	pool.WindowMS = 60_000
	return pool
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
	if p.Shed {
		form.Set("shed", "on")
	}
	return form
}

// readPool reads the form and validates the pool.
func readPool(form url.Values) (rules.Pool, []rules.FieldError) {
	p := rules.NewPool()
	rd := &ruleReader{form: form}
	readFields(rd, "", rules.PoolKind.Fields, &p)
	p.Normalize()
	if len(rd.errs) == 0 {
		rd.errs = kit.FieldsOf(rules.ValidatePool(&p))
	}
	return p, rd.errs
}
