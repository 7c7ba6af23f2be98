package limiter

// slotKernel counts the slots held now. A slot is held for one window from its
// last renewal.
type slotKernel struct{}

// at is the time of decision: never before the newest slot began.
func (slotKernel) at(s *State, now int64) int64 {
	if len(s.Entries) > 0 || s.Slots != nil {
		return max(now, s.newest())
	}
	return now
}

// limit is the start of the newest slot that does not count any more.
func (k slotKernel) limit(l Limit, s *State, now int64) int64 { return k.at(s, now) - l.Window }

func (slotKernel) rebase(l Limit, s *State, now int64) bool {
	if b := s.Slots; b != nil && s.newest()-now > l.Window {
		b.moved += now - s.newest()
		return true
	}
	return logKernel{}.rebase(l, s, now)
}

// fits admits a request again under the id of a slot that is held.
func (k slotKernel) fits(l Limit, s *State, now, w int64, id string) (bool, int64) {
	limit := k.limit(l, s, now)
	if w > 0 && id != "" {
		if _, held := s.slot(limit, id); held {
			return true, 0
		}
	}
	if w > l.Count {
		return false, Never
	}
	live := s.liveSlots(limit)
	need := live.held() + w - l.Count
	if need <= 0 {
		return true, 0
	}
	return false, live.until(need) + l.Window - now
}

func (k slotKernel) spend(l Limit, s *State, now, w int64, id string) int64 {
	t := k.at(s, now)
	if e, held := s.slot(t-l.Window, id); held {
		return e.At
	}
	s.dropSlots(t - l.Window)
	s.addSlot(Entry{At: t, Weight: w, ID: id})
	return t
}

func (slotKernel) refund(Limit, *State, int64, Charged) (int64, bool) { return 0, false }

// release gives back the slot of id, or the oldest one if id is empty.
func (k slotKernel) release(l Limit, s *State, now int64, id string) (int64, bool) {
	limit := k.limit(l, s, now)
	e, held := s.slot(limit, id)
	if id == "" {
		e, held = s.oldestSlot(limit)
	}
	if !held {
		return 0, false
	}
	s.removeSlot(e)
	return e.Weight, true
}

func (k slotKernel) renew(l Limit, s *State, now int64, id string) bool {
	t := k.at(s, now)
	e, held := s.slot(t-l.Window, id)
	if !held {
		return false
	}
	s.removeSlot(e)
	e.At = t
	s.addSlot(e)
	return true
}

func (k slotKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	live := s.liveSlots(k.limit(l, s, now))
	if len(live.first) == 0 {
		return l.Count, 0
	}
	return l.Count - live.held(), s.newest() + l.Window - now
}

// refundNow gives back nothing: a slot is released by its id.
func (slotKernel) refundNow(Limit, *State, int64, int64) (int64, bool) { return 0, false }

func (slotKernel) expires(l Limit, s *State) int64 { return s.newest() + l.Window }
