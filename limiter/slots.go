package limiter

import "slices"

// leaseKernel counts who holds a slot right now. A lease lives for one window
// from its last renewal; entries are ordered by start.
type leaseKernel struct{}

func (leaseKernel) at(s *State, now int64) int64 { return logKernel{}.at(s, now) }

func (k leaseKernel) live(l Limit, s *State, now int64) []Entry {
	return logKernel{}.live(l, s, k.at(s, now))
}

// find returns the index in s.Entries of the live lease id, or -1.
func (k leaseKernel) find(l Limit, s *State, now int64, id string) int {
	dead := len(s.Entries) - len(k.live(l, s, now))
	for i := len(s.Entries) - 1; i >= dead; i-- {
		if s.Entries[i].ID == id {
			return i
		}
	}
	return -1
}

func (leaseKernel) rebase(l Limit, s *State, now int64) bool {
	return logKernel{}.rebase(l, s, now)
}

// fits admits a holder that asks again for the lease it has.
func (k leaseKernel) fits(l Limit, s *State, now, w int64, id string) (bool, int64) {
	if w > 0 && id != "" && k.find(l, s, now, id) >= 0 {
		return true, 0
	}
	return logKernel{}.fits(l, s, now, w, "")
}

func (k leaseKernel) spend(l Limit, s *State, now, w int64, id string) int64 {
	t := k.at(s, now)
	if i := k.find(l, s, now, id); i >= 0 {
		return s.Entries[i].At
	}
	s.dropOlder(t - l.Window)
	s.Entries = append(s.Entries, Entry{At: t, Weight: w, ID: id})
	return t
}

func (leaseKernel) refund(Limit, *State, int64, Charged) (int64, bool) { return 0, false }

func (k leaseKernel) release(l Limit, s *State, now int64, id string) (int64, bool) {
	i := k.find(l, s, now, id)
	if i < 0 {
		return 0, false
	}
	w := s.Entries[i].Weight
	s.Entries = slices.Delete(s.Entries, i, i+1)
	return w, true
}

func (k leaseKernel) renew(l Limit, s *State, now int64, id string) bool {
	i := k.find(l, s, now, id)
	if i < 0 {
		return false
	}
	e := s.Entries[i]
	e.At = k.at(s, now)
	s.Entries = append(slices.Delete(s.Entries, i, i+1), e)
	return true
}

func (k leaseKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	return logKernel{}.figures(l, s, now)
}

// bookedAt is empty: a slot is released by its id.
func (leaseKernel) bookedAt(Limit, *State, int64) []int64 { return nil }

func (leaseKernel) expires(l Limit, s *State) int64 { return logKernel{}.expires(l, s) }
