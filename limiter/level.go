package limiter

// levelKernel is the bucket that drains at Count units per Window and admits up
// to Burst: token_bucket, leaky_bucket and leaky_queue. The level is kept in
// 1/Window units, so that one ms drains exactly Count of them.
type levelKernel struct{}

// oneOff is how long a quota that never drains is kept, ms: a year beyond its
// last use.
const oneOff int64 = 366 * 24 * 3600 * 1000

// level returns the scaled level at t = max(now, s.At), and t.
func (levelKernel) level(l Limit, s *State, now int64) (level, t int64) {
	if !s.Exists {
		return 0, now
	}
	if s.Scale != l.Window {
		s.Used, s.Scale = rescale(s.Used, s.Scale, l.Window), l.Window
	}
	if now <= s.At {
		return s.Used, s.At
	}
	return max(0, s.Used-min(s.Used, mulSat(now-s.At, l.Count))), now
}

func (levelKernel) rebase(l Limit, s *State, now int64) bool {
	if l.Count == 0 || s.At-now <= ceilDiv(l.Burst*l.Window, l.Count) {
		return false
	}
	s.At = now
	return true
}

func (k levelKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	level, t := k.level(l, s, now)
	return bucketFits(l, level, w, t-now)
}

// bucketFits reports whether w units fit above a scaled level, and the wait if not; skew is added to the wait.
func bucketFits(l Limit, level, w, skew int64) (bool, int64) {
	if w > l.Burst {
		return false, Never
	}
	over := level + w*l.Window - l.Burst*l.Window
	switch {
	case over <= 0:
		return true, 0
	case l.Count == 0:
		return false, Never
	}
	return false, addExact(ceilDiv(over, l.Count), skew)
}

func (k levelKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	level, t := k.level(l, s, now)
	s.Used, s.At, s.Scale = addExact(level, min(mulSat(w, l.Window), MaxExact)), t, l.Window
	return t
}

func (k levelKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	level, t := k.level(l, s, now)
	give := stillHeld(l, c, t, level)
	if give == 0 {
		return 0, false
	}
	s.Used, s.At = level-give, t
	return give / l.Window, true
}

// stillHeld is what a charge certainly still adds to the scaled level:
// max(0, weight - max(0, elapsed*rate - base)). Without the charge the bucket
// would have run empty base/rate after it at the earliest; until then it adds
// all of itself, and after that the difference narrows by the rate at most.
func stillHeld(l Limit, c Charged, t, level int64) int64 {
	held := min(mulSat(c.Weight, l.Window), MaxExact)
	gone := mulSat(max(0, t-c.At), l.Count)
	gone -= min(gone, mulSat(c.Base, l.Window))
	held -= min(held, gone)
	return min(held, level)
}

func (k levelKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	level, t := k.level(l, s, now)
	return bucketFigures(l, level, t-now)
}

func bucketFigures(l Limit, level, skew int64) (room, reset int64) {
	room = floorDiv(l.Burst*l.Window-level, l.Window)
	switch {
	case level == 0:
		return room, 0
	case l.Count == 0:
		return room, Never
	}
	return room, addExact(ceilDiv(level, l.Count), skew)
}

func (k levelKernel) refundNow(l Limit, s *State, now, w int64) (int64, bool) {
	return refundAt(k, l, s, now, w, max(now, s.At))
}

func (k levelKernel) expires(l Limit, s *State) int64 {
	level, t := k.level(l, s, s.At)
	if l.Count == 0 {
		return t + oneOff
	}
	return t + ceilDiv(level, l.Count)
}

// delay is how long an admitted request waits for the requests that are queued before it.
func delay(l Limit, s *State, now int64, allowed bool) int64 {
	if !l.Algorithm.Traits().Queues {
		return 0
	}
	level, _ := levelKernel{}.level(l, s, now)
	switch {
	case !allowed:
		return Never
	case level == 0:
		return 0
	case l.Count == 0:
		return Never
	}
	return ceilDiv(level, l.Count)
}
