package limiter

// fixedKernel counts units in windows that do not overlap. A bucket may keep a smaller limit until its window ends; see
// Kept.
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

// within reports whether s is of the window that holds max(now, s.At).
func (fixedKernel) within(l Limit, s *State, now int64) bool {
	l = l.Stored()
	switch t := max(now, s.At); {
	case !s.Exists:
		return false
	case l.Align == AlignFirstHit:
		return t < s.At+l.Window
	default:
		return floorDiv(t-l.Anchor, l.Window) == floorDiv(s.At-l.Anchor, l.Window)
	}
}

// kept returns the limit that the bucket keeps, false if it keeps none.
func (k fixedKernel) kept(l Limit, s *State, now int64) (int64, bool) {
	if s.Scale == 0 || !k.within(l, s, now) {
		return 0, false
	}
	return s.Prev, true
}

// count returns the units of a window that count.
func (k fixedKernel) count(l Limit, s *State, now int64) int64 {
	if l.Kept != KeptIgnored {
		if kept, ok := k.kept(l, s, now); ok {
			return min(l.Count, kept)
		}
	}
	return l.Count
}

// lower makes l.Count the limit that the bucket keeps, if it is smaller. s is of the window of now.
func (k fixedKernel) lower(l Limit, s *State, now int64) {
	s.Prev, s.Scale = k.count(l, s, now), 1
}

// shut makes 0 the limit that the bucket keeps until its window ends. The window begins now if there was none.
func (k fixedKernel) shut(l Limit, s *State, now int64) {
	k.spend(l, s, now, 0, "")
	s.Exists, s.Prev, s.Scale = true, 0, 1
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
	case w <= k.count(l, s, now)-used:
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
	if s.Scale != 0 && !k.within(l, s, now) {
		s.Prev, s.Scale = 0, 0
	}
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
	if _, kept := k.kept(l, s, now); used == 0 && !kept {
		return l.Count, 0
	}
	return k.count(l, s, now) - used, k.wait(l, end-now)
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
