package limiter

// Share is the part of a limit that one of n nodes enforces while the common store
// is unavailable: count and burst divided by n, rounded down. A limit that admits
// anything leaves each node at least one unit.
//
// Together the nodes then admit at most the limit, or n units if the limit is
// smaller than n. n below 2 changes nothing.
func (l Limit) Share(n int64) Limit {
	if n < 2 {
		return l
	}
	part := func(v int64) int64 { return max(v/n, min(v, 1)) }
	l.Count, l.Burst = part(l.Count), part(l.Burst)
	return l
}
