package limiter

// Share is the part of a limit that one of n nodes enforces when they cannot
// ask a common store: count and burst divided by n, rounded down, but not to
// nothing: a limit that admits anything leaves each node at least one unit.
//
// All nodes together then admit no more than the limit, or n units where the
// limit is smaller than n. n below 2 changes nothing.
func (l Limit) Share(n int64) Limit {
	if n < 2 {
		return l
	}
	part := func(v int64) int64 { return max(v/n, min(v, 1)) }
	l.Count, l.Burst = part(l.Count), part(l.Burst)
	return l
}
