package limiter

import "sort"

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

// live returns the elements of the log of which anything still counts. It is empty, or its first may be a block of
// which a part does.
func (logKernel) live(s *State, limit int64) []Entry {
	if len(s.Entries) == 0 || s.Entries[0].At > limit {
		return s.Entries
	}
	return s.Entries[sort.Search(len(s.Entries), func(i int) bool { return s.Entries[i].At > limit }):]
}

// held returns the units of the live elements.
func (logKernel) held(live []Entry, limit int64) int64 {
	var n int64
	for i := range live {
		switch {
		case i == 0:
			n = live[i].units(limit)
		case live[i].Weight == MaxExact && live[i].isBlock():
			return maxInt64
		default:
			n = addSat(n, live[i].Weight)
		}
	}
	readLoose(live)
	return n
}

// readLoose counts the entries outside blocks, for a test.
func readLoose(es []Entry) {
	if countRead != nil {
		for i := range es {
			if !es[i].isBlock() {
				countRead(1)
			}
		}
	}
}

// waitFor returns how long until no more than spare units are left of live ones that are more.
func (logKernel) waitFor(live []Entry, window, spare, now int64) int64 {
	for i := len(live) - 1; i >= 0; i-- {
		e := &live[i]
		if e.Weight <= spare {
			spare -= e.Weight
			continue
		}
		readLoose(live[i:])
		var wait int64
		e.newestFirst(func(at, w int64) bool {
			spare, wait = spare-w, at+window-now
			return spare >= 0
		})
		return wait
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
	limit := k.at(s, now) - l.Window
	live := k.live(s, limit)
	if k.held(live, limit) <= l.Count-w {
		return true, 0
	}
	return false, k.waitFor(live, l.Window, l.Count-w, now)
}

// drop removes what does not count any more.
func (k logKernel) drop(s *State, limit int64) {
	dead := len(s.Entries) - len(k.live(s, limit))
	if s.Used > 0 {
		for i := range dead {
			s.Used -= s.Entries[i].size() - 1
		}
	}
	s.dropFirst(dead)
	if len(s.Entries) > 0 && s.Entries[0].isBlock() && s.Entries[0].oldest() <= limit {
		s.split(0, limit)
	}
}

func (k logKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	t := k.at(s, now)
	k.drop(s, t-l.Window)
	if n := len(s.Entries); n > 0 && s.Entries[n-1].At == t {
		if s.Entries[n-1].isBlock() {
			s.split(n-1, -MaxExact)
			n = len(s.Entries)
		}
		s.Entries[n-1].Weight = addExact(s.Entries[n-1].Weight, w)
	} else {
		s.Entries = append(s.Entries, Entry{At: t, Weight: w})
		s.gather()
	}
	// Only charges hold more entries than the limit has units. Of limit + 1 the oldest can wait until the next expires:
	// the rest fill the limit for as long.
	s.joinOldest(min(int64(len(s.Entries))+s.Used-l.Count-l.Burst-1, mostJoins))
	return t
}

func (k logKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	if c.At+l.Window <= k.at(s, now) {
		return 0, false
	}
	return s.give(c.At, c.Weight)
}

// refundNow takes whole elements while w covers them. An entry counts here if it does at its own time and at now: once
// newer ones are given back, it is the newest.
func (logKernel) refundNow(l Limit, s *State, now, w int64) (units int64, changed bool) {
	for n := len(s.Entries); n > 0 && units < w && s.newest()+l.Window > now; n = len(s.Entries) {
		e := &s.Entries[n-1]
		switch {
		case e.isBlock() && (e.Weight > w-units || e.Weight == MaxExact || e.oldest()+l.Window <= now):
			s.split(n-1, -MaxExact)
			continue
		case e.Weight > w-units:
			e.Weight -= w - units
			units = w
		default:
			units += e.Weight
			s.Used -= e.size() - 1
			s.Entries[n-1] = Entry{}
			s.Entries = s.Entries[:n-1]
		}
		changed = true
		read(1)
	}
	return units, changed
}

func (k logKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	limit := k.at(s, now) - l.Window
	live := k.live(s, limit)
	if len(live) == 0 {
		return l.Count, 0
	}
	return l.Count - min(k.held(live, limit), MaxExact), s.newest() + l.Window - now
}

func (logKernel) expires(l Limit, s *State) int64 { return s.newest() + l.Window }
