package limiter

// fixedKernel counts units in windows that do not overlap.
type fixedKernel struct{}

// window returns what is used in the window that holds max(now, s.At), and the
// window's end.
func (fixedKernel) window(l Limit, s *State, now int64) (used, end int64) {
	t := now
	if s.Exists {
		t = max(now, s.At)
	}
	if l.Align == AlignFirstHit {
		if s.Exists && t < s.At+l.Window {
			return s.Used, s.At + l.Window
		}
		return 0, t + l.Window
	}
	k := floorDiv(t-l.Anchor, l.Window)
	end = l.Anchor + (k+1)*l.Window
	if s.Exists && floorDiv(s.At-l.Anchor, l.Window) == k {
		return s.Used, end
	}
	return 0, end
}

func (fixedKernel) rebase(l Limit, s *State, now int64) bool {
	if s.At-now <= l.Stored().Window {
		return false
	}
	s.At = now
	return true
}

func (k fixedKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	used, end := k.window(l.Stored(), s, now)
	switch {
	case w <= l.Count-used:
		return true, 0
	case w > l.Count:
		return false, Never
	}
	return false, k.wait(l, end-now)
}

// wait returns how long it is until the limit's own window ends.
func (fixedKernel) wait(l Limit, wait int64) int64 {
	if l.PerPeriod {
		return PeriodWait(wait)
	}
	return wait
}

func (k fixedKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	l = l.Stored()
	t := now
	if s.Exists {
		t = max(now, s.At)
	}
	used, end := k.window(l, s, now)
	s.Used = addExact(used, w)
	if l.Align == AlignFirstHit {
		s.At = end - l.Window
	} else {
		s.At = t
	}
	return t
}

func (k fixedKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	l = l.Stored()
	used, end := k.window(l, s, now)
	if c.At < end-l.Window || c.At >= end {
		return 0, false
	}
	give := min(c.Weight, used)
	if give == 0 {
		return 0, false
	}
	s.Used = used - give
	return give, true
}

func (k fixedKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	used, end := k.window(l.Stored(), s, now)
	if used == 0 {
		return l.Count, 0
	}
	return l.Count - used, k.wait(l, end-now)
}

func (k fixedKernel) refundNow(l Limit, s *State, now, w int64) (int64, bool) {
	return refundAt(k, l, s, now, w, max(now, s.At))
}

func (fixedKernel) expires(l Limit, s *State) int64 {
	l = l.Stored()
	if l.Align == AlignFirstHit {
		return s.At + l.Window
	}
	return l.Anchor + (floorDiv(s.At-l.Anchor, l.Window)+1)*l.Window
}
