package limiter

import (
	"cmp"
	"slices"
)

// bucketsKernel counts units in n sub-windows of W/n ms and lets the oldest
// fade linearly. Sub-window k covers the times t with k*W <= t*n < (k+1)*W, so
// W need not be a multiple of n. At time t in sub-window k the level is
//
//	sum(k-n+1 .. k) + count(k-n) * ((k+1)*W - t*n) / W
type bucketsKernel struct{}

// bucketsView is a state read at one time.
type bucketsView struct {
	t, k    int64
	entries []Entry // sub-windows k-n .. k that hold anything
	fade    int64   // what is left of sub-window k-n, in 1/W
}

// index is the sub-window that holds t.
func (bucketsKernel) index(l Limit, t int64) int64 {
	return floorDiv(t*l.Buckets, l.Window)
}

// convert re-buckets a state that was written under another window or another
// number of sub-windows. Units move to the sub-window that holds the end of
// their old one, or the last change if that is earlier: never forgotten early.
func (k bucketsKernel) convert(l Limit, s *State) {
	if !s.Exists || (s.Scale == l.Window && s.Prev == l.Buckets) {
		return
	}
	out := s.Entries[:0]
	for _, e := range s.Entries {
		end := min(ceilDiv((e.At+1)*s.Scale, s.Prev)-1, s.At)
		j := k.index(l, end)
		if n := len(out); n > 0 && out[n-1].At == j {
			out[n-1].Weight = addExact(out[n-1].Weight, e.Weight)
		} else {
			out = append(out, Entry{At: j, Weight: e.Weight})
		}
	}
	s.Entries, s.Scale, s.Prev = out, l.Window, l.Buckets
}

func (k bucketsKernel) view(l Limit, s *State, now int64) bucketsView {
	v := bucketsView{t: now}
	if s.Exists {
		k.convert(l, s)
		v.t = max(now, s.At)
	}
	v.k = k.index(l, v.t)
	v.fade = (v.k+1)*l.Window - v.t*l.Buckets
	i := 0
	for i < len(s.Entries) && s.Entries[i].At < v.k-l.Buckets {
		i++
	}
	v.entries = s.Entries[i:]
	return v
}

// level is the consumption scaled by W.
func (v bucketsView) level(l Limit) int64 {
	var n int64
	for _, e := range v.entries {
		if e.At == v.k-l.Buckets {
			n = addSat(n, mulSat(e.Weight, v.fade))
		} else {
			n = addSat(n, mulSat(e.Weight, l.Window))
		}
	}
	return n
}

func (k bucketsKernel) rebase(l Limit, s *State, now int64) bool {
	if s.At-now <= ceilDiv((l.Buckets+1)*l.Window, l.Buckets) {
		return false
	}
	k.convert(l, s)
	s.shift(k.index(l, now) - k.index(l, s.At))
	s.At = now
	return true
}

func (k bucketsKernel) fits(l Limit, s *State, now, w int64, _ string) (bool, int64) {
	if w > l.Count {
		return false, Never
	}
	v := k.view(l, s, now)
	if addSat(v.level(l), mulSat(w, l.Window)) <= l.Count*l.Window {
		return true, 0
	}
	// Wait until the newer sub-windows alone leave room, then for as much of
	// the oldest that remains as must fade.
	rest := sum(v.entries)
	for _, e := range v.entries {
		rest -= e.Weight
		room := l.Count - w - rest
		if room < 0 {
			continue
		}
		fade := min(l.Window, mulSat(room, l.Window)/e.Weight)
		at := ceilDiv((e.At+l.Buckets+1)*l.Window-fade, l.Buckets)
		return false, at - now
	}
	return false, Never
}

func (k bucketsKernel) spend(l Limit, s *State, now, w int64, _ string) int64 {
	v := k.view(l, s, now)
	s.Scale, s.Prev = l.Window, l.Buckets
	s.dropOlder(v.k - l.Buckets - 1)
	if n := len(s.Entries); n > 0 && s.Entries[n-1].At == v.k {
		s.Entries[n-1].Weight = addExact(s.Entries[n-1].Weight, w)
	} else {
		s.Entries = append(s.Entries, Entry{At: v.k, Weight: w})
	}
	s.At = v.t
	return v.t
}

// backdate books w in the sub-window of an earlier time.
func (k bucketsKernel) backdate(l Limit, s *State, earlier, now, w int64) {
	v, j := k.view(l, s, now), k.index(l, earlier)
	s.Scale, s.Prev, s.At = l.Window, l.Buckets, v.t
	s.dropOlder(v.k - l.Buckets - 1)
	i, found := slices.BinarySearchFunc(s.Entries, j, func(e Entry, j int64) int { return cmp.Compare(e.At, j) })
	if !found {
		s.Entries = slices.Insert(s.Entries, i, Entry{At: j})
	}
	s.Entries[i].Weight = addExact(s.Entries[i].Weight, w)
}

func (k bucketsKernel) refund(l Limit, s *State, now int64, c Charged) (int64, bool) {
	v := k.view(l, s, now)
	j := k.index(l, c.At)
	for i := range v.entries {
		if v.entries[i].At != j {
			continue
		}
		give := min(c.Weight, v.entries[i].Weight)
		v.entries[i].Weight -= give
		s.Entries = dropEmpty(v.entries)
		s.At = v.t
		return give, true
	}
	return 0, false
}

func dropEmpty(es []Entry) []Entry {
	out := es[:0]
	for _, e := range es {
		if e.Weight > 0 {
			out = append(out, e)
		}
	}
	return out
}

func (k bucketsKernel) figures(l Limit, s *State, now int64) (int64, int64) {
	v := k.view(l, s, now)
	if len(v.entries) == 0 {
		return l.Count, 0
	}
	room := floorDiv(l.Count*l.Window-min(v.level(l), MaxExact), l.Window)
	return room, k.gone(l, v.entries[len(v.entries)-1].At) - now
}

// gone is the instant from which sub-window j no longer counts.
func (bucketsKernel) gone(l Limit, j int64) int64 {
	return ceilDiv((j+l.Buckets+1)*l.Window, l.Buckets)
}

func (k bucketsKernel) refundNow(l Limit, s *State, now, w int64) (int64, bool) {
	k.convert(l, s) // may merge entries
	var ts []int64
	for i := len(s.Entries) - 1; i >= 0; i-- {
		ts = append(ts, ceilDiv(s.Entries[i].At*l.Window, l.Buckets))
	}
	return refundAt(k, l, s, now, w, ts...)
}

func (k bucketsKernel) expires(l Limit, s *State) int64 {
	k.convert(l, s)
	return k.gone(l, k.index(l, s.At))
}
