package limiter

// logKernel keeps every admitted request until it leaves the window. Requests
// of one millisecond share an entry.
type logKernel struct{}

// at is the time of decision: never before the newest entry.
func (logKernel) at(s *State, now int64) int64 {
	if len(s.Entries) > 0 {
		return max(now, s.newest())
	}
	return now
}

func (logKernel) live(l Limit, s *State, t int64) []Entry {
	i := 0
	for i < len(s.Entries) && s.Entries[i].At <= t-l.Window {
		i++
	}
	return s.Entries[i:]
}

func sum(es []Entry) int64 {
	var n int64
	for i := range es {
		n = addSat(n, es[i].Weight)
	}
	return n
}

// waitFor returns how long until the oldest entries that hold need units have
// expired.
func waitFor(live []Entry, window, need, now int64) int64 {
	var freed int64
	for i := range live {
		freed = addSat(freed, live[i].Weight)
		if freed >= need {
			return live[i].At + window - now
		}
	}
	return Never
}

func (logKernel) rebase(l Limit, s *State, now int64) bool {
	if len(s.Entries) == 0 || s.newest()-now <= l.Window {
		return false
	}
	s.shift(now - s.newest())
	return true
}

func (k logKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	if w > l.Count {
		return false, Never
	}
	live := k.live(l, s, k.at(s, now))
	need := addSat(sum(live), w) - l.Count
	if need <= 0 {
		return true, 0
	}
	return false, waitFor(live, l.Window, need, now)
}

func (k logKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	t := k.at(s, now)
	s.dropOlder(t - l.Window)
	n := len(s.Entries)
	switch {
	case n > 0 && (s.Entries[n-1].At == t || int64(n) > l.Count):
		// The second case only a charge can reach: takes never hold more
		// entries than units. Joining the newest keeps the log bounded and
		// forgets nothing early.
		s.Entries[n-1].At = t
		s.Entries[n-1].Weight = addExact(s.Entries[n-1].Weight, w)
	default:
		s.Entries = append(s.Entries, Entry{At: t, Weight: w})
	}
	return t
}

func (k logKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	if c.At+l.Window <= k.at(s, now) {
		return 0, false
	}
	for i := len(s.Entries) - 1; i >= 0; i-- {
		if s.Entries[i].At != c.At {
			continue
		}
		give := min(c.Weight, s.Entries[i].Weight)
		s.Entries[i].Weight -= give
		if s.Entries[i].Weight == 0 {
			s.Entries = append(s.Entries[:i], s.Entries[i+1:]...)
		}
		return give, true
	}
	return 0, false
}

func (k logKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	live := k.live(l, s, k.at(s, now))
	if len(live) == 0 {
		return l.Count, 0
	}
	return max(0, l.Count-sum(live)), live[len(live)-1].At + l.Window - now
}

func (logKernel) bookedAt(_ Limit, s *State, _ int64) []int64 {
	var ts []int64
	for i := len(s.Entries) - 1; i >= 0; i-- {
		ts = append(ts, s.Entries[i].At)
	}
	return ts
}

func (logKernel) expires(l Limit, s *State) int64 { return s.newest() + l.Window }
