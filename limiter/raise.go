package limiter

// Raise is the limit with a capacity that is larger by a percentage, rounded
// down to whole units: the count of a window, the burst of a bucket, whose rate
// stays. It stops at the largest capacity that every store decides exactly, and
// never lowers anything. A percentage of 0 or less changes nothing.
func (l Limit) Raise(percent int64) Limit {
	if percent <= 0 {
		return l
	}
	c := l.Capacity()
	// In two steps, so that no product leaves the range of int64.
	more := addSat(mulSat(c/100, percent), mulSat(c%100, percent)/100)
	return l.Widen(max(0, min(more, l.MaxCapacity()-c)))
}

// Widen is the limit with a capacity larger by so many units. It does not check
// that the result is valid.
func (l Limit) Widen(units int64) Limit {
	if l.Algorithm.Bucketed() {
		l.Burst += units
	} else {
		l.Count += units
	}
	return l
}

// Spare is how many units a throttle of so many percent admits above the limit.
func (l Limit) Spare(percent int64) int64 { return l.Raise(percent).Capacity() - l.Capacity() }

// Within turns what a limit with spare units (see Widen) decided into what
// callers are told, who know nothing of the spare: of 100 with 10 spare and 103
// used, 0 of 100 remain, not 7 of 110. Negative spare counts as none.
func (d Decision) Within(spare int64) Decision {
	if spare > 0 {
		d.Limit, d.Remaining = d.Limit-spare, max(0, d.Remaining-spare)
	}
	return d
}
