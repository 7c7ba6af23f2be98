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

// Part is the part of a limit that one of n holders has if together they have all of it: count and burst divided by n,
// and one unit more for as many of the holders as there is a rest, the first by rank (0 to n-1). So of a limit smaller
// than n some holders have nothing. n below 2 changes nothing.
func (l Limit) Part(rank, n int64) Limit {
	if n < 2 {
		return l
	}
	part := func(v int64) int64 {
		if rank < v%n {
			return v/n + 1
		}
		return v / n
	}
	l.Count, l.Burst = part(l.Count), part(l.Burst)
	return l
}
