package app

import (
	"context"

	"sluice/api/decide"
	"sluice/rules"
)

// followLoads keeps up with what the fleet reports about the pools of the set in
// force, wherever a report was made.
func followLoads(loads *decide.Loads, sets *rules.Current, stops *stops) {
	stops.add("pool loads", task(func(ctx context.Context) {
		loads.Follow(ctx, func() (names []string) {
			if set := sets.Load(); set != nil {
				for _, p := range set.Pools() {
					names = append(names, p.Pool.Name)
				}
			}
			return names
		})
	}))
}
