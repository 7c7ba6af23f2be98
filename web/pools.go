package web

import (
	"net/http"

	"sluice/web/view"
)

const pathPools = "/console/pools"

// listPools shows what pools hold and how much of that is in use.
func (s *Server) listPools(v *visit) error {
	pools, err := s.deps.Live.Pools.ListPools(v.ctx)
	if err != nil {
		return err
	}
	set := s.setNow()
	lines := make([]view.PoolLine, len(pools))
	for i := range pools {
		lines[i] = view.PoolLine{Pool: pools[i], State: view.PoolState{Capacity: pools[i].Limit}}
		if set == nil {
			continue
		}
		if p := set.Pool(pools[i].Name); p != nil {
			lines[i].State = s.deps.Live.PoolState(v.ctx, p)
		}
		for n := range set.Len() {
			if c := set.At(n); c.Pool != nil && c.Pool.Pool.Name == pools[i].Name {
				lines[i].Rules++
			}
		}
	}
	return v.page(http.StatusOK, view.PoolsPage(v.frame("Pools", pathPools), lines))
}
