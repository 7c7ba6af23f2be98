package limiter

// counterKernel estimates a sliding window from two counters: the current aligned window in full and the previous one
// in proportion to the part that the sliding window still covers. The test prev*(W-e) + (cur+w)*W <= L*W is made on
// integers; docs/algorithms.md derives it.
type counterKernel struct{}

// window returns the counts as they stand at t = max(now, s.At), the start of
// t's window and the ms elapsed in it.
func (counterKernel) window(l Limit, s *State, now int64) (cur, prev, start, elapsed int64) {
	t := now
	if s.Exists {
		t = max(now, s.At)
	}
	k := floorDiv(t, l.Window)
	start = k * l.Window
	elapsed = t - start
	if s.Exists {
		switch k - floorDiv(s.At, l.Window) {
		case 0:
			cur, prev = s.Used, s.Prev
		case 1:
			prev = s.Used
		}
	}
	return cur, prev, start, elapsed
}

func (counterKernel) rebase(l Limit, s *State, now int64) bool {
	if s.At-now <= 2*l.Window {
		return false
	}
	s.At = now
	return true
}

func (k counterKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	if w > l.Count {
		return false, Never
	}
	cur, prev, start, e := k.window(l, s, now)
	level := addSat(mulSat(prev, l.Window-e), mulSat(addSat(cur, w), l.Window))
	if level <= l.Count*l.Window {
		return true, 0
	}
	if room := l.Count - w - cur; room >= 0 {
		// In this window, once enough of the previous one has slid out.
		return false, start + l.Window - room*l.Window/prev - now
	}
	// In the next window, where today's count is the previous one.
	return false, start + 2*l.Window - (l.Count-w)*l.Window/cur - now
}

func (k counterKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	cur, prev, start, e := k.window(l, s, now)
	s.Used, s.Prev, s.At = addExact(cur, w), prev, start+e
	return s.At
}

// backdate books w in the window before the present one.
func (k counterKernel) backdate(l Limit, s *State, now, w int64) {
	cur, prev, start, e := k.window(l, s, now)
	s.Used, s.Prev, s.At = cur, addExact(prev, w), start+e
}

func (k counterKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	cur, prev, start, e := k.window(l, s, now)
	var give int64
	switch (start - floorDiv(c.At, l.Window)*l.Window) / l.Window {
	case 0:
		give = min(c.Weight, cur)
		cur -= give
	case 1:
		give = min(c.Weight, prev)
		prev -= give
	}
	if give == 0 {
		return 0, false
	}
	s.Used, s.Prev, s.At = cur, prev, start+e
	return give, true
}

func (k counterKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	cur, prev, start, e := k.window(l, s, now)
	level := addSat(mulSat(prev, l.Window-e), mulSat(cur, l.Window))
	var reset int64
	switch {
	case cur > 0:
		reset = start + 2*l.Window - now
	case prev > 0:
		reset = start + l.Window - now
	}
	return floorDiv(l.Count*l.Window-min(level, MaxExact), l.Window), reset
}

func (k counterKernel) refundNow(l Limit, s *State, now, w int64) (int64, bool) {
	t := max(now, s.At)
	return refundAt(k, l, s, now, w, t, t-l.Window)
}

// tallyKernel counts as counterKernel does, up to Count in each window, and denies nothing.
type tallyKernel struct{ counterKernel }

func (tallyKernel) fits(Limit, *State, int64, int64, string) (bool, int64) { return true, 0 }

func (k tallyKernel) spend(l Limit, s *State, now, w int64, id string) int64 {
	at := k.counterKernel.spend(l, s, now, w, id)
	s.Used = min(s.Used, l.Count)
	return at
}

func (counterKernel) expires(l Limit, s *State) int64 {
	return (floorDiv(s.At, l.Window) + 2) * l.Window
}
