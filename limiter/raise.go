package limiter

// Raise increases the capacity of the limit by a percentage, rounded down to whole
// units: the count of a window, or the burst of a bucket, whose rate stays. The
// result is at most MaxCapacity and at least the capacity before. A percentage of
// 0 or less changes nothing.
func (l Limit) Raise(percent int64) Limit {
	if percent <= 0 {
		return l
	}
	c := l.Capacity()
	// In two steps, so that no product leaves the range of int64.
	more := addSat(mulSat(c/100, percent), mulSat(c%100, percent)/100)
	return l.Widen(max(0, min(more, l.MaxCapacity()-c)))
}

// Widen increases the capacity of the limit by units. It does not check that the
// result is valid.
func (l Limit) Widen(units int64) Limit {
	if l.Algorithm.Bucketed() {
		l.Burst += units
	} else {
		l.Count += units
	}
	return l
}

// Sparing returns a limit that may be widened by so many units later. Only a sliding_window_log needs to know: charges
// above the limit join as many entries fewer.
func (l Limit) Sparing(units int64) Limit {
	if l.Algorithm == SlidingWindowLog {
		l.Burst = units
	}
	return l
}

// Spare is the number of units that Raise adds to the capacity.
func (l Limit) Spare(percent int64) int64 { return l.Raise(percent).Capacity() - l.Capacity() }

// Within takes spare units (see Widen) out of the figures of a decision, because
// callers do not know of them: of 100 with 10 spare and 103 used, 0 of 100 remain,
// not 7 of 110. Negative spare counts as 0.
func (d Decision) Within(spare int64) Decision {
	if spare > 0 {
		d.Limit, d.Remaining = d.Limit-spare, max(0, d.Remaining-spare)
	}
	return d
}
