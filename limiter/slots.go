package limiter

import "slices"

// slotKernel counts the slots held now. A slot is held for one window from its
// last renewal; entries are ordered by start.
type slotKernel struct{}

func (slotKernel) at(s *State, now int64) int64 { return logKernel{}.at(s, now) }

func (k slotKernel) live(l Limit, s *State, now int64) []Entry {
	return logKernel{}.live(s, k.at(s, now)-l.Window)
}

// sum returns the units of entries that stand by themselves.
func sum(es []Entry) int64 {
	var n int64
	for i := range es {
		n = addSat(n, es[i].Weight)
	}
	return n
}

// oldest returns the index in s.Entries of the slot that began first, of several the one whose
// id sorts first, or -1 if none is held.
func (k slotKernel) oldest(l Limit, s *State, now int64) int {
	live := k.live(l, s, now)
	if len(live) == 0 {
		return -1
	}
	first := 0
	for i := 1; i < len(live) && live[i].At == live[0].At; i++ {
		if live[i].ID < live[first].ID {
			first = i
		}
	}
	return len(s.Entries) - len(live) + first
}

// find returns the index in s.Entries of the slot held under id, or -1.
func (k slotKernel) find(l Limit, s *State, now int64, id string) int {
	dead := len(s.Entries) - len(k.live(l, s, now))
	for i := len(s.Entries) - 1; i >= dead; i-- {
		if s.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

func (slotKernel) rebase(l Limit, s *State, now int64) bool {
	return logKernel{}.rebase(l, s, now)
}

// fits admits a request again under the id of a slot that is held.
func (k slotKernel) fits(l Limit, s *State, now, w int64, id string) (bool, int64) {
	if w > 0 && id != "" && k.find(l, s, now, id) >= 0 {
		return true, 0
	}
	if w > l.Count {
		return false, Never
	}
	live := k.live(l, s, now)
	need := sum(live) + w - l.Count
	if need <= 0 {
		return true, 0
	}
	i := 0
	for ; need > live[i].Weight; i++ {
		need -= live[i].Weight
	}
	return false, live[i].At + l.Window - now
}

func (k slotKernel) spend(l Limit, s *State, now, w int64, id string) int64 {
	t := k.at(s, now)
	if i := k.find(l, s, now, id); i >= 0 {
		return s.Entries[i].At
	}
	s.dropOlder(t - l.Window)
	s.Entries = append(s.Entries, Entry{At: t, Weight: w, ID: id})
	return t
}

func (slotKernel) refund(Limit, *State, int64, Charged) (int64, bool) { return 0, false }

func (k slotKernel) release(l Limit, s *State, now int64, id string) (int64, bool) {
	i := k.find(l, s, now, id)
	if id == "" {
		i = k.oldest(l, s, now)
	}
	if i < 0 {
		return 0, false
	}
	w := s.Entries[i].Weight
	s.Entries = slices.Delete(s.Entries, i, i+1)
	return w, true
}

func (k slotKernel) renew(l Limit, s *State, now int64, id string) bool {
	i := k.find(l, s, now, id)
	if i < 0 {
		return false
	}
	e := s.Entries[i]
	e.At = k.at(s, now)
	s.Entries = append(slices.Delete(s.Entries, i, i+1), e)
	return true
}

func (k slotKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	live := k.live(l, s, now)
	if len(live) == 0 {
		return l.Count, 0
	}
	return max(0, l.Count-sum(live)), s.newest() + l.Window - now
}

// refundNow gives back nothing: a slot is released by its id.
func (slotKernel) refundNow(Limit, *State, int64, int64) (int64, bool) { return 0, false }

func (slotKernel) expires(l Limit, s *State) int64 { return logKernel{}.expires(l, s) }
