package limiter

// gcraKernel is the generic cell rate algorithm (ITU-T I.371), which stores the
// theoretical arrival time (TAT): the instant at which all that was admitted
// has drained. In a steady clock it decides as levelKernel does. It differs
// where time or rate is disturbed: the TAT is an instant, so a clock that steps
// back makes the bucket look fuller, a changed rate re-reads the same instant,
// and the TAT never lies further ahead than a full burst takes to drain, not
// even after a charge of more.
//
// The TAT is At + Used/Scale ms with Scale = Count, so that the distance from
// now is a level scaled by Window, as in levelKernel.
type gcraKernel struct{}

// level returns the scaled distance from now to the TAT, at least 0.
func (gcraKernel) level(l Limit, s *State, now int64) int64 {
	if !s.Exists || l.Count == 0 {
		return 0
	}
	// Drained at the old scale, so that a level too large for the new one is
	// cut only after time has taken its part.
	if now >= s.At {
		return rescale(s.Used-min(s.Used, mulSat(now-s.At, s.Scale)), s.Scale, l.Count)
	}
	return addSat(rescale(s.Used, s.Scale, l.Count), mulSat(s.At-now, l.Count))
}

func (k gcraKernel) rebase(l Limit, s *State, now int64) bool {
	if l.Count == 0 {
		return false
	}
	full := l.Burst * l.Window
	if k.level(l, s, now) <= full {
		return false
	}
	s.Used, s.At, s.Scale = full, now, l.Count
	return true
}

func (k gcraKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	if l.Count == 0 {
		if w == 0 {
			return true, 0
		}
		return false, Never
	}
	return bucketFits(l, k.level(l, s, now), w, 0)
}

func (k gcraKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	if l.Count == 0 {
		return now
	}
	level := k.level(l, s, now)
	level = min(addExact(level, min(mulSat(w, l.Window), MaxExact)), l.Burst*l.Window)
	s.Used, s.At, s.Scale = level, now, l.Count
	return now
}

func (k gcraKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	if l.Count == 0 {
		return 0, false
	}
	level := k.level(l, s, now)
	give := stillHeld(l, c, now, level)
	if give == 0 {
		return 0, false
	}
	s.Used, s.At, s.Scale = level-give, now, l.Count
	return give / l.Window, true
}

func (k gcraKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	if l.Count == 0 {
		return 0, 0
	}
	return bucketFigures(l, k.level(l, s, now), 0)
}

func (k gcraKernel) refundNow(l Limit, s *State, now, w int64) (int64, bool) {
	return refundAt(k, l, s, now, w, now)
}

func (gcraKernel) expires(_ Limit, s *State) int64 {
	if s.Scale == 0 {
		return s.At
	}
	return s.At + ceilDiv(s.Used, s.Scale)
}
